//! Journals decide about writes and make them durable.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, ready};
use tokio::time::Instant;

use crate::shared::Shared;
use crate::state::Aftermath;
use crate::{Header, Write, WriteError, Written};

/// The answers to a batch of writes, in the same order.
pub(crate) type Answers<H> = Vec<Result<Written<H>, WriteError<H>>>;

/// A backend. It checks the expectation of each write, assigns revisions, makes the writes durable, and only then applies
/// them to the state in memory, in the order of their revisions.
///
/// The journal decides, not the state: a journal that several servers share could decide only on its own server, and would
/// also apply changes of others. A journal that is alone decides by the state in memory.
pub(crate) trait Journal<H>: Send + Sync {
    /// Makes writes, each with its own revision. When a write is answered, the state in memory has it.
    ///
    /// If the future is dropped before it is ready, it is not known whether the writes were made.
    fn write(&self, writes: Vec<Write<H>>) -> BoxFuture<'_, Answers<H>>;

    /// Returns the revision at which a read sees every write that any server has answered before. The state in memory has
    /// that revision then.
    fn sync(&self) -> BoxFuture<'_, u64>;

    /// Whether no other server writes, so that the state in memory is always current.
    fn is_alone(&self) -> bool {
        false
    }

    /// Takes no more writes. Returns when all accepted writes are durable.
    fn close(&self);
}

/// A journal that keeps nothing.
#[derive(Debug)]
pub(crate) struct Memory<H> {
    shared: Arc<Shared<H>>,
}

impl<H> Memory<H> {
    pub(crate) fn new(shared: Arc<Shared<H>>) -> Self {
        Self { shared }
    }
}

impl<H: Header> Journal<H> for Memory<H> {
    fn write(&self, writes: Vec<Write<H>>) -> BoxFuture<'_, Answers<H>> {
        let now = Instant::now();
        let mut aftermath = Aftermath::default();
        let mut state = self.shared.state.write();
        let answers = writes.into_iter().map(|write| state.write(write, now, &mut aftermath)).collect();
        drop(state);
        self.shared.settle(aftermath);
        ready(answers).boxed()
    }

    fn sync(&self) -> BoxFuture<'_, u64> {
        ready(self.shared.state.read().revision).boxed()
    }

    fn is_alone(&self) -> bool {
        true
    }

    fn close(&self) {}
}
