//! What all handles of one store share: the state under its lock, and the pinned snapshots.

use std::sync::Arc;
use std::task::Waker;

use evenkeel_env::Env;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::keyspace::Keyspace;
use crate::snapshot::Pins;
use crate::state::{Aftermath, FIRST_REVISION, StoreState};
use crate::{Change, Options};

/// The state that all handles of one store share.
#[derive(Debug)]
pub(crate) struct Shared<H> {
    pub(crate) env: Env,
    pub(crate) state: RwLock<StoreState<H>>,
    /// Pinned snapshots, from which lists continue. Locked after `state`, or alone.
    pub(crate) pins: Mutex<Pins<H>>,
    /// Why the journal could not make the last write durable; `None` if it could. The journal writes it.
    pub(crate) trouble: Mutex<Option<String>>,
}

impl<H> Shared<H> {
    pub(crate) fn new(env: Env, options: Options) -> Self {
        Self::of(env, StoreState::new(FIRST_REVISION, Keyspace::new(), options))
    }

    pub(crate) fn of(env: Env, state: StoreState<H>) -> Self {
        Self { env, state: RwLock::new(state), pins: Mutex::default(), trouble: Mutex::default() }
    }

    /// Records why the journal could not make a write durable, or `None` if it could.
    #[cfg(feature = "disk")]
    pub(crate) fn report(&self, trouble: Option<&str>) {
        let mut reported = self.trouble.lock();
        if reported.as_deref() != trouble {
            *reported = trouble.map(str::to_owned);
        }
    }

    /// Wakes listeners and drops snapshots after the lock was released. Returns the changes that left the log.
    pub(crate) fn settle(&self, aftermath: Aftermath<H>) -> Vec<Arc<Change<H>>> {
        aftermath.wakers.into_iter().for_each(Waker::wake);
        if let Some(newest) = aftermath.gone.last() {
            self.pins.lock().forget_before(newest.revision);
        }
        aftermath.gone
    }

    /// Drops history that is too old. Every read of history calls it, because time passes without writes too.
    pub(crate) fn trim(&self, now: Instant) {
        while self.state.read().log.has_aged(now) {
            let mut aftermath = Aftermath::default();
            self.state.write().log.trim(now, &mut aftermath.gone);
            self.settle(aftermath);
        }
    }
}
