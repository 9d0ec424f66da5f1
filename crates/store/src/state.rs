//! The state in memory, which one lock guards: the keyspace and the change log.
//!
//! Writers hold the lock for a few pointer changes; readers hold it only to take a snapshot or a handful of changes. No code
//! does IO or calls foreign code under the lock: wakers are called, and work is dropped, after it is released.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use tokio::time::Instant;

use crate::keyspace::{FOLDERS_MAX, Keyspace, is_too_deep};
use crate::listener::Listener;
use crate::log::Log;
use crate::scope::{ScopeId, is_folder};
use crate::{Change, Entry, Expect, Op, Options, Write, WriteError, Written};

/// The revision of a new store. No state has revision zero, because zero means "any" to clients.
pub(crate) const FIRST_REVISION: u64 = 1;

#[derive(Debug)]
pub(crate) struct StoreState<H> {
    /// The newest revision.
    pub(crate) revision: u64,
    pub(crate) keys: Keyspace<H>,
    pub(crate) log: Log<H>,
    pub(crate) closed: bool,
}

/// What remains to be done after the lock is released.
#[derive(Debug)]
pub(crate) struct Aftermath<H> {
    pub(crate) wakers: Vec<Waker>,
    /// The changes that left the log. Dropping them may free much memory.
    pub(crate) gone: Vec<Arc<Change<H>>>,
}

impl<H> Default for Aftermath<H> {
    fn default() -> Self {
        Self { wakers: Vec::new(), gone: Vec::new() }
    }
}

/// Whether the expectation of a write holds, given the current value of its key.
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

/// Returns the change that a permitted write makes.
pub(crate) fn change_of<H>(write: Write<H>, before: Option<Arc<Entry<H>>>, revision: u64) -> Change<H> {
    let after = match write.op {
        Op::Delete => None,
        Op::Put(value, header) => {
            // All versions of an entry share the text of the key.
            let key = before.as_ref().map_or(write.key, |before| before.key.clone());
            let create_revision = before.as_ref().map_or(revision, |before| before.create_revision);
            Some(Arc::new(Entry { key, value, header, create_revision, revision }))
        }
    };
    Change { revision, before, after }
}

impl<H> StoreState<H> {
    /// A state without history.
    pub(crate) fn new(revision: u64, keys: Keyspace<H>, options: Options) -> Self {
        Self { revision, keys, log: Log::new(revision, options), closed: false }
    }

    /// Checks the expectation of a write and applies it.
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

    /// Adds a listener for a prefix.
    pub(crate) fn listen(&mut self, prefix: &str, listener: Arc<Listener>) -> (ScopeId, u64) {
        let Self { log, keys, .. } = self;
        let history = if is_folder(prefix) || log.scopes.has_key(prefix) {
            VecDeque::new()
        } else {
            log.history(prefix, keys.get(prefix).map(|entry| &**entry))
        };
        log.scopes.listen(prefix, listener, history)
    }

    /// Applies a change whose expectation was checked.
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
