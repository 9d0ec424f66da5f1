//! What is in memory, under one lock: the current state and the log.
//!
//! Writers hold the lock for the time of a few pointer changes; readers only to take a snapshot or a handful of
//! changes. Nobody does IO or runs foreign code under it: wakers are called, and work is let go, after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use evenkeel_env::Env;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::keyspace::{FOLDERS_MAX, Keyspace, is_too_deep};
use crate::listener::Listener;
use crate::log::Log;
use crate::scope::{ScopeId, is_folder};
use crate::snapshot::Pins;
use crate::{Change, Entry, Expect, Op, Options, Write, WriteError, Written};

/// A new store is at this revision: zero means "any" to clients, so no state may have it.
pub(crate) const FIRST_REVISION: u64 = 1;

/// What all handles of one store share.
#[derive(Debug)]
pub(crate) struct Shared<H> {
    pub(crate) env: Env,
    pub(crate) state: RwLock<State<H>>,
    /// Snapshots that pages of lists go on from. Locked after `state`, or alone.
    pub(crate) pins: Mutex<Pins<H>>,
    /// Why the journal could not make the last write durable; none while it can. Written by the journal.
    pub(crate) trouble: Mutex<Option<String>>,
}

#[derive(Debug)]
pub(crate) struct State<H> {
    /// The newest revision.
    pub(crate) revision: u64,
    pub(crate) keys: Keyspace<H>,
    pub(crate) log: Log<H>,
    pub(crate) closed: bool,
}

/// What must happen after the lock is released.
#[derive(Debug)]
pub(crate) struct Aftermath<H> {
    pub(crate) wakers: Vec<Waker>,
    /// Changes that left the log; dropping them may free much.
    pub(crate) gone: Vec<Arc<Change<H>>>,
}

impl<H> Default for Aftermath<H> {
    fn default() -> Self {
        Self { wakers: Vec::new(), gone: Vec::new() }
    }
}

impl<H> Shared<H> {
    pub(crate) fn new(env: Env, options: Options) -> Self {
        Self::of(env, State::new(FIRST_REVISION, Keyspace::new(), options))
    }

    pub(crate) fn of(env: Env, state: State<H>) -> Self {
        Self { env, state: RwLock::new(state), pins: Mutex::default(), trouble: Mutex::default() }
    }

    /// Takes note of how the journal is: why it could not make a write durable, or that it could.
    #[cfg(feature = "disk")]
    pub(crate) fn report(&self, trouble: Option<&str>) {
        let mut reported = self.trouble.lock();
        if reported.as_deref() != trouble {
            *reported = trouble.map(str::to_owned);
        }
    }

    /// Does what must be done after the lock was released; gives the changes that left the log.
    pub(crate) fn settle(&self, aftermath: Aftermath<H>) -> Vec<Arc<Change<H>>> {
        aftermath.wakers.into_iter().for_each(Waker::wake);
        if let Some(newest) = aftermath.gone.last() {
            self.pins.lock().forget_before(newest.revision);
        }
        aftermath.gone
    }

    /// Lets go of history that is too old. Time passes without writes too, so whoever asks for history calls it.
    pub(crate) fn trim(&self, now: Instant) {
        while self.state.read().log.has_aged(now) {
            let mut aftermath = Aftermath::default();
            self.state.write().log.trim(now, &mut aftermath.gone);
            self.settle(aftermath);
        }
    }
}

/// Whether a write may be made to a key whose value now is given.
pub(crate) fn permits<H>(write: &Write<H>, current: Option<&Arc<Entry<H>>>) -> bool {
    let expected = match write.expect {
        Expect::Any => true,
        Expect::Absent => current.is_none(),
        Expect::Revision(revision) => current.is_some_and(|entry| entry.revision == revision),
    };
    expected && (current.is_some() || matches!(write.op, Op::Put(..)))
}

impl<H> Written<H> {
    pub(crate) fn of(change: &Change<H>) -> Self {
        Self { revision: change.revision, entry: change.after.clone(), before: change.before.clone() }
    }
}

/// The change that a permitted write makes.
pub(crate) fn change_of<H>(write: Write<H>, before: Option<Arc<Entry<H>>>, revision: u64) -> Change<H> {
    let after = match write.op {
        Op::Delete => None,
        Op::Put(value, header) => {
            // The key's text is shared by all versions of it.
            let key = before.as_ref().map_or(write.key, |before| before.key.clone());
            let create_revision = before.as_ref().map_or(revision, |before| before.create_revision);
            Some(Arc::new(Entry { key, value, header, create_revision, revision }))
        }
    };
    Change { revision, before, after }
}

impl<H> State<H> {
    /// A state without history.
    pub(crate) fn new(revision: u64, keys: Keyspace<H>, options: Options) -> Self {
        Self { revision, keys, log: Log::new(revision, options), closed: false }
    }

    /// Decides a write and makes it.
    pub(crate) fn write(
        &mut self,
        write: Write<H>,
        now: Instant,
        aftermath: &mut Aftermath<H>,
    ) -> Result<Written<H>, WriteError<H>> {
        if self.closed {
            return Err(WriteError::Closed);
        }
        if is_too_deep(&write.key) {
            return Err(WriteError::TooDeep { limit: FOLDERS_MAX });
        }
        let current = self.keys.get(&write.key);
        if !permits(&write, current) {
            return Err(WriteError::Conflict { current: current.cloned() });
        }
        let change = Arc::new(change_of(write, current.cloned(), self.revision + 1));
        let written = Written::of(&change);
        self.apply(change, now, aftermath);
        Ok(written)
    }

    /// Lets a listener follow a prefix.
    pub(crate) fn listen(&mut self, prefix: &str, listener: Arc<Listener>) -> (ScopeId, u64) {
        let Self { log, keys, .. } = self;
        let history = if is_folder(prefix) || log.scopes.has_key(prefix) {
            VecDeque::new()
        } else {
            log.history(prefix, keys.get(prefix).map(|entry| &**entry))
        };
        log.scopes.listen(prefix, listener, history)
    }

    /// Makes a change that was decided.
    pub(crate) fn apply(&mut self, change: Arc<Change<H>>, now: Instant, aftermath: &mut Aftermath<H>) {
        match &change.after {
            Some(entry) => self.keys.insert(entry.clone()),
            None => self.keys.remove(change.key()),
        };
        self.revision = change.revision;
        self.log.push(change, now, &mut aftermath.wakers);
        self.log.trim(now, &mut aftermath.gone);
    }
}
