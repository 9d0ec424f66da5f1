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
    /// What the last attempt failed with.
    last_error: Option<Arc<str>>,
}

impl Progress {
    pub(super) fn new(reflectors: usize) -> Self {
        Self { state: Mutex::new(State { unsynced: reflectors, last_error: None }), synced: Notify::new() }
    }

    /// A watch is open; `newly` where it is the first of its reflector.
    pub(super) fn connected(&self, newly: bool) {
        let mut state = self.state.lock();
        state.last_error = None;
        if newly {
            state.unsynced -= 1;
        }
        if state.unsynced == 0 {
            drop(state);
            self.synced.notify_waiters();
        }
    }

    pub(super) fn failed(&self, why: Arc<str>) {
        self.state.lock().last_error = Some(why);
    }

    pub(super) fn is_synced(&self) -> bool {
        self.state.lock().unsynced == 0
    }

    pub(super) fn last_error(&self) -> Option<Arc<str>> {
        self.state.lock().last_error.clone()
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
