//! Who decides writes and makes them last.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, ready};
use tokio::time::Instant;

use crate::state::{Aftermath, Shared};
use crate::{Header, Write, WriteError, Written};

/// The answers to a batch of writes, in its order.
pub(crate) type Answers<H> = Vec<Result<Written<H>, WriteError<H>>>;

/// A backend: it takes writes, decides each by its expectation, gives the accepted ones their revisions, makes them
/// durable, and only then applies them to the state in memory, in the order of their revisions.
///
/// Deciding is the journal's business, not the state's, because a journal that is shared (etcd) can decide only on
/// its server, and may hand the state changes that others made. One that is alone decides by the state.
pub(crate) trait Journal<H>: Send + Sync {
    /// Makes writes, each its own revision. When a write is answered, the state in memory has it.
    ///
    /// Whoever drops the future before it is ready does not know whether the writes were made.
    fn write(&self, writes: Vec<Write<H>>) -> BoxFuture<'_, Answers<H>>;

    /// The revision that a read must see to see every write that was answered before, by whomever; the state in
    /// memory has it when this is answered.
    fn sync(&self) -> BoxFuture<'_, u64>;

    /// Whether nobody else writes, so that the state in memory is always what a read must see.
    fn is_alone(&self) -> bool {
        false
    }

    /// Takes no further writes; returns when those that were taken are durable.
    fn close(&self);
}

/// Keeps nothing.
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
