//! What the queue tells the ledger.

use evenkeel_env::{Deadline, Ledger, Tally};
use tokio::time::Instant;

/// The queue's entries in the ledger: a piece of work for each key that is ready or in flight, and the time of the
/// earliest delayed key.
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

    /// Brings the ledger to what the queue holds now. A key that went from work to a delay, or back, is in the ledger
    /// all the while: more work is entered before the deadline moves, and less of it afterwards.
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
