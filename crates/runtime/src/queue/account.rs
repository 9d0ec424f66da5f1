//! The queue's entries in the ledger.

use evenkeel_env::{Deadline, Ledger, Tally};
use tokio::time::Instant;

/// The queue's entries in the ledger: pending work for each key that is ready or in flight, and the time of the
/// earliest delayed key as a deadline.
#[derive(Debug)]
pub(super) struct Account {
    tally: Tally,
    pending: usize,
    deadline: Deadline,
    due: Option<Instant>,
}

impl Account {
    pub(super) fn open(ledger: &Ledger, queue: &str) -> Self {
        Self {
            tally: ledger.tally(format!("queue {queue}")),
            pending: 0,
            deadline: ledger.deadline(format!("queue {queue}: earliest delayed key")),
            due: None,
        }
    }

    /// Brings the ledger up to date with the queue. New work is entered before the deadline moves, and work is released
    /// after it: a key that goes from pending to delayed, or back, is in the ledger all the time.
    #[inline]
    pub(super) fn balance(&mut self, pending: usize, due: Option<Instant>) {
        if pending > self.pending {
            self.tally.set(pending);
        }
        if due != self.due {
            self.due = due;
            self.deadline.set(due);
        }
        if pending < self.pending {
            self.tally.set(pending);
        }
        self.pending = pending;
    }
}
