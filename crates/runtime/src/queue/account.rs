//! The queue's entries in the ledger.

use evenkeel_env::{Deadline, Ledger, Purpose, Tally};
use tokio::time::Instant;

/// The times of the earliest delayed keys, one for each [`Purpose`].
pub(super) type Dues = [Option<Instant>; 3];

/// The queue's entries in the ledger: pending work for each key that is ready or in flight, and the times of the
/// earliest delayed keys as deadlines.
#[derive(Debug)]
pub(super) struct Account {
    tally: Tally,
    pending: usize,
    deadlines: [Deadline; 3],
    dues: Dues,
}

impl Account {
    pub(super) fn open(ledger: &Ledger, queue: &str) -> Self {
        let deadline = |purpose, what: &str| ledger.deadline_for(purpose, format!("queue {queue}: {what}"));
        Self {
            tally: ledger.tally(format!("queue {queue}")),
            pending: 0,
            // In the order of the purposes.
            deadlines: [
                deadline(Purpose::Look, "earliest key that asked for a later look"),
                deadline(Purpose::Follow, "earliest key that wrote and asked for a later look"),
                deadline(Purpose::Work, "earliest delayed key"),
            ],
            dues: Dues::default(),
        }
    }

    /// Updates the ledger to the state of the queue. New work is entered before the deadlines move, and finished work
    /// is released after that. So a key that changes between pending and delayed is in the ledger all the time.
    #[inline]
    pub(super) fn balance(&mut self, pending: usize, dues: Dues) {
        if pending > self.pending {
            self.tally.set(pending);
        }
        if dues != self.dues {
            for (deadline, due) in self.deadlines.iter().zip(dues) {
                deadline.set(due);
            }
            self.dues = dues;
        }
        if pending < self.pending {
            self.tally.set(pending);
        }
        self.pending = pending;
    }
}
