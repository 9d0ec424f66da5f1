//! The progress of an informer's watches, and waiting for their first lists.
//!
//! *Invariant:* waiters wake in the order in which they arrived. (A tokio `watch` channel would wake them in a random
//! order, and a seed would no longer replay a run.)

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(super) struct Progress {
    state: Mutex<ProgressState>,
    synced: Notify,
}

struct ProgressState {
    /// Reflectors that have not finished their first list.
    unsynced: usize,
    /// For each reflector, the error of its last attempt; `None` after a success.
    last_errors: Box<[Option<Arc<str>>]>,
    /// How many times the resource was listed, by all reflectors together.
    lists: u64,
    /// When the server last sent something.
    heard: Option<Instant>,
}

impl Progress {
    pub(super) fn new(reflectors: usize) -> Self {
        let state = ProgressState {
            unsynced: reflectors,
            last_errors: vec![None; reflectors].into(),
            lists: 0,
            heard: None,
        };
        Self { state: Mutex::new(state), synced: Notify::new() }
    }

    /// Notes that the reflector with this number has an open watch; `newly` for its first one.
    pub(super) fn connected(&self, scope: usize, newly: bool) {
        let mut state = self.state.lock();
        state.last_errors[scope] = None;
        state.heard = Some(Instant::now());
        if newly {
            state.unsynced -= 1;
        }
        if state.unsynced == 0 {
            drop(state);
            self.synced.notify_waiters();
        }
    }

    /// Records that a reflector begins to list.
    pub(super) fn lists(&self) {
        self.state.lock().lists += 1;
    }

    /// Records that the server sent something.
    pub(super) fn heard(&self) {
        self.state.lock().heard = Some(Instant::now());
    }

    /// Returns how many times the resource was listed, and when the server last sent something.
    pub(super) fn so_far(&self) -> (u64, Option<Instant>) {
        let state = self.state.lock();
        (state.lists, state.heard)
    }

    pub(super) fn failed(&self, scope: usize, why: Arc<str>) {
        self.state.lock().last_errors[scope] = Some(why);
    }

    pub(super) fn is_synced(&self) -> bool {
        self.state.lock().unsynced == 0
    }

    /// The error of the first reflector that is failing now.
    pub(super) fn last_error(&self) -> Option<Arc<str>> {
        self.state.lock().last_errors.iter().flatten().next().cloned()
    }

    /// Returns when all first lists are complete.
    pub(super) async fn wait(&self) {
        let synced = self.synced.notified();
        tokio::pin!(synced);
        // Registered before the check, so that no wake-up in between is missed.
        synced.as_mut().enable();
        if !self.is_synced() {
            synced.await;
        }
    }
}
