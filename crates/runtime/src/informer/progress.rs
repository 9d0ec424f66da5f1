//! How far the watches of an informer have come, and waiting for them.
//!
//! *Invariant:* those who wait are woken in the order in which they came. (A `watch` channel would shuffle them, and
//! with them what a seed replays.)

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub(super) struct Progress {
    state: Mutex<State>,
    synced: Notify,
}

struct State {
    /// Reflectors that have not finished their first list.
    unsynced: usize,
    /// For each reflector, what its last attempt failed with: one that succeeds says nothing of another.
    last_errors: Box<[Option<Arc<str>>]>,
}

impl Progress {
    pub(super) fn new(reflectors: usize) -> Self {
        let state = State { unsynced: reflectors, last_errors: vec![None; reflectors].into() };
        Self { state: Mutex::new(state), synced: Notify::new() }
    }

    /// A watch of the reflector of this number is open; `newly` where it is its first.
    pub(super) fn connected(&self, scope: usize, newly: bool) {
        let mut state = self.state.lock();
        state.last_errors[scope] = None;
        if newly {
            state.unsynced -= 1;
        }
        if state.unsynced == 0 {
            drop(state);
            self.synced.notify_waiters();
        }
    }

    pub(super) fn failed(&self, scope: usize, why: Arc<str>) {
        self.state.lock().last_errors[scope] = Some(why);
    }

    pub(super) fn is_synced(&self) -> bool {
        self.state.lock().unsynced == 0
    }

    /// What the first of those fails with that fail now.
    pub(super) fn last_error(&self) -> Option<Arc<str>> {
        self.state.lock().last_errors.iter().flatten().next().cloned()
    }

    /// Returns when all first lists are complete.
    pub(super) async fn wait(&self) {
        let synced = self.synced.notified();
        tokio::pin!(synced);
        // Entered before the look, so that nothing is missed in between.
        synced.as_mut().enable();
        if !self.is_synced() {
            synced.await;
        }
    }
}
