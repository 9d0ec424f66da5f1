//! How a change of the queue's state finds those who wait for it: the part that is concurrent.
//!
//! The state changes under one lock; whoever waits asked to be told before it looked, so that no change falls between
//! its look and its wait. `interleaving.rs` compiles this file a second time with locks and wakes whose order a
//! checker chooses.

use tokio::time::Instant;

use super::sync::{Mutex, Notify, notified_until};

#[derive(Debug)]
pub(super) struct Handoff<S> {
    state: Mutex<S>,
    /// Told when a key may be ready, once for each, and when the queue shuts down.
    ready: Notify,
    /// Told when the queue is idle, for those who drain.
    drained: Notify,
}

/// Whom a change concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wake {
    /// One of those who wait for a key, or the next one who will.
    pub(super) one: bool,
    /// Everybody who waits for a key.
    pub(super) all: bool,
    /// Those who wait for the end of all work.
    pub(super) drained: bool,
}

/// What a look at the state found.
pub(super) enum Look<R> {
    Found(R),
    /// Nothing before this time, unless the state changes.
    Wait(Option<Instant>),
}

impl<S> Handoff<S> {
    pub(super) fn new(state: S) -> Self {
        Self { state: Mutex::new(state), ready: Notify::default(), drained: Notify::default() }
    }

    /// Changes the state, then wakes whom that concerns.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut S) -> (R, Wake)) -> R {
        let (result, wake) = change(&mut self.state.lock());
        if wake.all {
            self.ready.notify_waiters();
        }
        if wake.one {
            self.ready.notify_one();
        }
        if wake.drained {
            self.drained.notify_waiters();
        }
        result
    }

    /// Looks, which may change the state, until something is found; again whenever somebody is woken, or at the time
    /// that the last look gave.
    pub(super) async fn take<R>(&self, mut look: impl FnMut(&mut S) -> (Look<R>, Wake)) -> R {
        if let Look::Found(found) = self.change(&mut look) {
            return found;
        }
        loop {
            let ready = self.ready.notified();
            match self.change(&mut look) {
                Look::Found(found) => return found,
                Look::Wait(None) => ready.await,
                Look::Wait(Some(at)) => notified_until(ready, at).await,
            }
        }
    }

    /// Waits until `is_idle` holds.
    pub(super) async fn drained(&self, is_idle: impl Fn(&S) -> bool) {
        loop {
            let drained = self.drained.notified();
            if is_idle(&self.state.lock()) {
                return;
            }
            drained.await;
        }
    }
}
