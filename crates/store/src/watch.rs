//! Watches of the change log.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::task::noop_waker_ref;

use crate::listener::Listener;
use crate::scope::ScopeId;
use crate::shared::Shared;
use crate::{Change, WatchError};

/// How many changes a watcher takes while it holds the lock.
const BATCH: usize = 64;

/// A watch: every change under its prefix after its start revision, once and in order.
///
/// A watch is a position in the store's log, not a buffer, so that a slow watcher costs others nothing. If the log drops a
/// change that the watcher has not read, the watch ends with [`WatchError::Overrun`].
///
/// A watch holds work in the ledger from the moment a change is committed until the next change is asked for, or until the
/// watch is dropped.
pub struct Watch<H> {
    shared: Arc<Shared<H>>,
    listener: Arc<Listener>,
    scope: ScopeId,
    number: u64,
    /// The position of the next batch in the scope.
    position: u64,
    /// The changes that were taken from the log and not returned yet.
    batch: VecDeque<Arc<Change<H>>>,
    /// The last revision that was returned, or the start revision.
    last: u64,
    ended: Option<WatchError>,
}

impl<H> Shared<H> {
    /// Starts a watch. A prefix that is empty or ends with a slash selects every key below it; any other selects one key.
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
            // The existing changes are pending from now on. Nothing waits for them yet, so there is nothing to wake.
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
    /// Returns the next change. After an error, returns that error again.
    pub async fn next(&mut self) -> Result<Arc<Change<H>>, WatchError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the next change if there is one. As with [`Watch::next`], asking for it tells that the previous change is
    /// handled.
    pub fn try_next(&mut self) -> Option<Result<Arc<Change<H>>, WatchError>> {
        match self.poll_next(&mut Context::from_waker(noop_waker_ref())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    /// Polls for the next change.
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

    /// Returns the revision up to which every change was returned. A bookmark may carry it.
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
            // The next change has left the log; the next call returns the error.
            None => self.last,
        }
    }

    /// Takes the next changes from the log. Ready if there are any, or if the watch has ended.
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
