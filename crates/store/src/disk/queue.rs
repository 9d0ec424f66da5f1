//! Where writers meet the committer.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::Write;
use crate::journal::Answers;

/// Writes that belong together, and who waits for them.
pub(crate) struct Submission<H> {
    pub(crate) writes: Vec<Write<H>>,
    pub(crate) answer: oneshot::Sender<Answers<H>>,
}

/// Submissions in the order in which they came. Writers are bounded by the requests that wait for an answer, so that
/// the queue needs no bound of its own.
pub(crate) struct Queue<H> {
    waiting: Mutex<Waiting<H>>,
    /// Told when a submission comes and when the queue is closed.
    changed: Condvar,
}

struct Waiting<H> {
    submissions: Vec<Submission<H>>,
    closed: bool,
}

impl<H> Queue<H> {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { submissions: Vec::new(), closed: false };
        Self { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    /// Gives the submission back if the queue is closed.
    pub(crate) fn submit(&self, submission: Submission<H>) -> Result<(), Submission<H>> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(submission);
        }
        waiting.submissions.push(submission);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_one();
    }

    /// Everything that waits; none when the queue is closed and empty. Once something is there it waits at most
    /// `patience` for as many as `hoped_for`.
    pub(crate) fn take(&self, hoped_for: usize, patience: Duration) -> Option<Vec<Submission<H>>> {
        let mut waiting = self.waiting.lock();
        while waiting.submissions.is_empty() {
            if waiting.closed {
                return None;
            }
            self.changed.wait(&mut waiting);
        }
        if waiting.submissions.len() < hoped_for && !waiting.closed {
            let too_few = |waiting: &mut Waiting<H>| waiting.submissions.len() < hoped_for && !waiting.closed;
            self.changed.wait_while_for(&mut waiting, too_few, patience);
        }
        Some(std::mem::take(&mut waiting.submissions))
    }
}
