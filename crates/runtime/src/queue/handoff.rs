//! The concurrent part of the queue: a change of its state wakes the workers that wait for it.
//!
//! The state changes under one lock. A worker registers for a wake-up before it looks at the state, so that no change
//! is missed between the look and the wait. `interleaving.rs` compiles this file a second time, with locks and
//! wake-ups whose order the checker `shuttle` chooses.

use tokio::time::Instant;

use super::sync::{Mutex, Notify, notified_until};

#[derive(Debug)]
pub(super) struct Handoff<S> {
    inside: Mutex<Inside<S>>,
    /// Notified when a key may be ready, if a worker waits, and when the queue shuts down.
    ready: Notify,
    /// Notified when the queue is idle, for those who drain it.
    drained: Notify,
}

#[derive(Debug)]
struct Inside<S> {
    state: S,
    /// The number of workers that found nothing and wait for a wake-up. A worker that comes later looks first, and needs no
    /// wake-up.
    waiting: usize,
}

/// Who must be woken after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wake {
    /// One worker that waits for a key.
    pub(super) one: bool,
    /// All workers that wait for a key.
    pub(super) all: bool,
    /// Whether tasks are waiting until the queue is drained.
    pub(super) drained: bool,
}

/// The result of a look at the state.
pub(super) enum Look<R> {
    Found(R),
    /// Nothing was found, and nothing will be before this time, unless the state changes.
    Wait(Option<Instant>),
}

impl<S> Handoff<S> {
    pub(super) fn new(state: S) -> Self {
        let inside = Mutex::new(Inside { state, waiting: 0 });
        Self { inside, ready: Notify::default(), drained: Notify::default() }
    }

    /// Changes the state, then wakes those who wait for such a change.
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

    /// Calls `look`, which may change the state, until it finds something: again after each wake-up, and at the time that
    /// the last call returned.
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

    /// Calls `look` once. If it finds nothing, the caller counts as waiting from then on.
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

/// Counts as waiting until it is dropped.
struct Waiting<'a, S>(&'a Handoff<S>);

impl<S> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        self.0.inside.lock().waiting -= 1;
    }
}
