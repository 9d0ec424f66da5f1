//! Following the log.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::task::noop_waker_ref;

use crate::listener::Listener;
use crate::scope::ScopeId;
use crate::state::Shared;
use crate::{Change, WatchError};

/// How many changes a watcher takes under one hold of the lock.
const BATCH: usize = 64;

/// A watcher: every change under its prefix after the revision it began at, once and in order.
///
/// It is a place in the store's log, not a buffer: one that does not read costs nobody anything. When the log lets go
/// of a change that it has not taken, it ends with [`WatchError::Overrun`].
///
/// While there is a change that it has not asked past, it holds a work in the ledger: from the moment the change is
/// committed until the next one is asked for after it, or until the watch is dropped.
pub struct Watch<H> {
    shared: Arc<Shared<H>>,
    listener: Arc<Listener>,
    scope: ScopeId,
    number: u64,
    /// Where in its scope it takes the next batch.
    position: u64,
    /// Taken from the log, not yet given.
    batch: VecDeque<Arc<Change<H>>>,
    /// The revision that was given last, or at which it began.
    last: u64,
    ended: Option<WatchError>,
}

impl<H> Shared<H> {
    /// A prefix that is empty or ends with a slash means every key beneath; any other means that one key.
    pub(crate) fn watch(self: &Arc<Self>, prefix: &str, after: u64) -> Result<Watch<H>, WatchError> {
        self.trim(tokio::time::Instant::now());
        let station = self.env.ledger().station(format!("watch of {prefix}"));
        let listener = Arc::new(Listener::new(after, station));
        let mut state = self.state.write();
        if state.closed {
            return Err(WatchError::Closed);
        }
        let oldest = state.log.floor();
        if after < oldest {
            return Err(WatchError::Compacted { asked: after, oldest });
        }
        let (scope, number) = state.listen(prefix, listener.clone());
        let followed = state.log.scopes.scope(scope);
        let position = followed.position_after(after);
        if let Some(revision) = followed.newest() {
            // What it will catch up with is pending from now on; nobody waits yet, so there is nobody to wake.
            listener.notify(revision);
        }
        drop(state);
        Ok(Watch {
            shared: self.clone(),
            listener,
            scope,
            number,
            position,
            batch: VecDeque::new(),
            last: after,
            ended: None,
        })
    }
}

impl<H> Watch<H> {
    /// The next change. After an error, the same error again.
    pub async fn next(&mut self) -> Result<Arc<Change<H>>, WatchError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The next change if there is one already. Like [`Watch::next`], asking for it says that the one before has
    /// been dealt with.
    pub fn try_next(&mut self) -> Option<Result<Arc<Change<H>>, WatchError>> {
        match self.poll_next(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// The next change, for those who poll.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Arc<Change<H>>, WatchError>> {
        if let Some(error) = &self.ended {
            return Poll::Ready(Err(error.clone()));
        }
        if self.batch.is_empty()
            && let Poll::Ready(result) = self.fill(cx)
            && let Err(error) = result
        {
            self.ended = Some(error.clone());
            drop(self.listener.end());
            return Poll::Ready(Err(error));
        }
        match self.batch.pop_front() {
            Some(change) => {
                self.last = change.revision;
                Poll::Ready(Ok(change))
            }
            None => Poll::Pending,
        }
    }

    /// Every change up to this revision was given; what a bookmark may say.
    pub fn revision(&self) -> u64 {
        if self.ended.is_some() {
            return self.last;
        }
        if let Some(next) = self.batch.front() {
            return next.revision - 1;
        }
        let state = self.shared.state.read();
        let unread = state.log.scopes.scope(self.scope).unread_from(self.position, self.listener.start());
        match unread.map(|mut unread| unread.next()) {
            Some(None) => state.revision.max(self.last),
            Some(Some((_, next))) => next - 1,
            // The next change has left the log: it will be told with the next one it asks for.
            None => self.last,
        }
    }

    /// Takes the next changes from the log; ready if there are any, or if the watch is over.
    fn fill(&mut self, cx: &Context<'_>) -> Poll<Result<(), WatchError>> {
        let state = self.shared.state.read();
        if state.closed {
            return Poll::Ready(Err(WatchError::Closed));
        }
        let scope = state.log.scopes.scope(self.scope);
        let Some(unread) = scope.unread_from(self.position, self.listener.start()) else {
            return Poll::Ready(Err(WatchError::Overrun { last: self.last }));
        };
        for (position, revision) in unread.take(BATCH) {
            let change = state.log.change(revision).expect("a scope knows only kept revisions");
            self.batch.push_back(change.clone());
            self.position = position + 1;
        }
        if !self.batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let work = self.listener.rest(cx.waker());
        drop(state);
        drop(work);
        Poll::Pending
    }
}

impl<H> fmt::Debug for Watch<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<H> Drop for Watch<H> {
    fn drop(&mut self) {
        self.shared.state.write().log.scopes.unlisten(self.scope, self.number);
        drop(self.listener.end());
    }
}
