//! How a change of the queue's state finds those who wait for it: the part that is concurrent.
//!
//! The state changes under one lock; whoever waits asked to be told before it looked, so that no change falls between
//! its look and its wait. `interleaving.rs` compiles this file a second time with locks and wakes whose order a
//! checker chooses.

use tokio::time::Instant;

use super::sync::{Mutex, Notify, notified_until};

#[derive(Debug)]
pub(super) struct Handoff<S> {
    inside: Mutex<Inside<S>>,
    /// Told when a key may be ready, once for each while somebody waits, and when the queue shuts down.
    ready: Notify,
    /// Told when the queue is idle, for those who drain.
    drained: Notify,
}

#[derive(Debug)]
struct Inside<S> {
    state: S,
    /// How many have looked in vain and wait to be told. Nobody else needs to be: whoever comes later looks first.
    waiting: usize,
}

/// Whom a change concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wake {
    /// One of those who wait for a key.
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
        let inside = Mutex::new(Inside { state, waiting: 0 });
        Self { inside, ready: Notify::default(), drained: Notify::default() }
    }

    /// Changes the state, then wakes whom that concerns.
    #[inline]
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut S) -> (R, Wake)) -> R {
        self.change_inside(|inside| change(&mut inside.state))
    }

    #[inline]
    fn change_inside<R>(&self, change: impl FnOnce(&mut Inside<S>) -> (R, Wake)) -> R {
        let mut inside = self.inside.lock();
        let (result, wake) = change(&mut inside);
        let somebody_waits = inside.waiting > 0;
        drop(inside);
        if wake.all {
            self.ready.notify_waiters();
        }
        if wake.one && somebody_waits {
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
            let at = match self.look_or_wait(&mut look) {
                Look::Found(found) => return found,
                Look::Wait(at) => at,
            };
            let _waiting = Waiting(self);
            match at {
                None => ready.await,
                Some(at) => notified_until(ready, at).await,
            }
        }
    }

    /// Looks, and counts as one who waits from then on unless something is found.
    fn look_or_wait<R>(&self, look: impl FnOnce(&mut S) -> (Look<R>, Wake)) -> Look<R> {
        self.change_inside(|inside| {
            let looked = look(&mut inside.state);
            if let Look::Wait(_) = looked.0 {
                inside.waiting += 1;
            }
            looked
        })
    }

    /// Waits until `is_idle` holds.
    pub(super) async fn drained(&self, is_idle: impl Fn(&S) -> bool) {
        loop {
            let drained = self.drained.notified();
            if is_idle(&self.inside.lock().state) {
                return;
            }
            drained.await;
        }
    }
}

/// One who waits, until it was told or gave up.
struct Waiting<'a, S>(&'a Handoff<S>);

impl<S> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        self.0.inside.lock().waiting -= 1;
    }
}
