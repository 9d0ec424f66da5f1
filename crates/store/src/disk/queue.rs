//! The queue from the writers to the committer.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::Write;
use crate::journal::Answers;

/// Writes that belong together, and the channel for their answers.
pub(crate) struct Submission<H> {
    pub(crate) writes: Vec<Write<H>>,
    pub(crate) answer: oneshot::Sender<Answers<H>>,
}

/// The submissions in the order in which they arrived. Each waiting request has at most one, so that the queue needs no bound
/// of its own.
pub(crate) struct Queue<H> {
    waiting: Mutex<Waiting<H>>,
    /// Notified when a submission arrives and when the queue is closed.
    changed: Condvar,
}

struct Waiting<H> {
    submissions: Vec<Submission<H>>,
    /// Why the queue takes no more submissions; `None` while it is open.
    closed: Option<Closed>,
}

/// Why a queue takes no more submissions.
#[derive(Clone, Debug)]
pub(crate) enum Closed {
    /// The store was closed.
    ByOwner,
    /// The committer has ended, for this reason.
    Abandoned(String),
}

impl<H> Queue<H> {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { submissions: Vec::new(), closed: None };
        Self { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    /// Hands a submission to the committer, unless the queue is closed.
    pub(crate) fn submit(&self, submission: Submission<H>) -> Result<(), Closed> {
        let mut waiting = self.waiting.lock();
        if let Some(closed) = &waiting.closed {
            return Err(closed.clone());
        }
        waiting.submissions.push(submission);
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Closes the queue. The committer still serves waiting submissions.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed.get_or_insert(Closed::ByOwner);
        self.changed.notify_one();
    }

    /// Closes the queue and drops waiting submissions, because the committer has ended.
    pub(crate) fn abandon(&self, why: &str) {
        let mut waiting = self.waiting.lock();
        waiting.closed = Some(Closed::Abandoned(why.to_owned()));
        let abandoned = std::mem::take(&mut waiting.submissions);
        drop(waiting);
        drop(abandoned);
    }

    /// Returns all waiting submissions; `None` when the queue is closed and empty. When there is one, waits up to `patience`
    /// until there are `hoped_for`.
    pub(crate) fn take(&self, hoped_for: usize, patience: Duration) -> Option<Vec<Submission<H>>> {
        let mut waiting = self.waiting.lock();
        while waiting.submissions.is_empty() {
            if waiting.closed.is_some() {
                return None;
            }
            self.changed.wait(&mut waiting);
        }
        if waiting.submissions.len() < hoped_for && waiting.closed.is_none() {
            let too_few =
                |waiting: &mut Waiting<H>| waiting.submissions.len() < hoped_for && waiting.closed.is_none();
            self.changed.wait_while_for(&mut waiting, too_few, patience);
        }
        Some(std::mem::take(&mut waiting.submissions))
    }
}
