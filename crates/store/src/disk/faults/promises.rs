//! What writers were answered and readers have seen, and the check that a store still agrees with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::journal::Answers;
use crate::shared::Shared;
use crate::{Change, Entry, Op, Write, WriteError};

/// A key and the value that a write gives it; `None` for a deletion.
type Asked = (Arc<str>, Option<Bytes>);

pub(super) fn asked(write: &Write<()>) -> Asked {
    let value = match &write.op {
        Op::Put(value, ()) => Some(value.clone()),
        Op::Delete => None,
    };
    (write.key.clone(), value)
}

/// Everything that a store on one disk has promised.
#[derive(Debug, Default)]
pub(super) struct Promises {
    /// The changes that a writer was answered or a reader has seen, by revision.
    known: BTreeMap<u64, Asked>,
    /// The attempted writes. Values are unique; deletions are not.
    attempted: BTreeSet<Asked>,
    /// The writes that were rejected, so that they must not appear.
    rejected: BTreeSet<Asked>,
}

impl Promises {
    pub(super) fn attempt(&mut self, writes: &[Write<()>]) {
        self.attempted.extend(writes.iter().map(asked));
    }

    /// Records the answers to a batch. Without faults, every write succeeds or conflicts.
    pub(super) fn hear(
        &mut self,
        asked: Vec<Asked>,
        answers: Answers<()>,
        is_sound: bool,
    ) -> Result<(), String> {
        let mut conflicts = Vec::new();
        for (asked, answer) in asked.into_iter().zip(answers) {
            match answer {
                Ok(written) => self.know(written.revision, asked)?,
                Err(WriteError::Conflict { current }) => conflicts.extend(current),
                Err(error) if is_sound => {
                    return Err(format!("a write failed on a disk without faults: {error}"));
                }
                Err(WriteError::Journal(_)) => {}
                // Deletions of one key look the same, so that a rejected one says nothing about the others.
                Err(_) if asked.1.is_some() => drop(self.rejected.insert(asked)),
                Err(_) => {}
            }
        }
        let shown = conflicts.iter().find(|entry| !self.knows(entry));
        shown.map_or(Ok(()), |entry| {
            Err(format!("a conflict reveals revision {}, which is not durable", entry.revision))
        })
    }

    fn know(&mut self, revision: u64, change: Asked) -> Result<(), String> {
        let known = self.known.entry(revision).or_insert_with(|| change.clone());
        if *known == change { Ok(()) } else { Err(format!("revision {revision} was given twice")) }
    }

    fn knows(&self, entry: &Entry<()>) -> bool {
        let known = self.known.get(&entry.revision);
        known.is_some_and(|(key, value)| *key == entry.key && value.as_ref() == Some(&entry.value))
    }

    /// Compares state and log with the promises. Everything that is visible now is a promise from now on.
    pub(super) fn observe(&mut self, shared: &Shared<()>) -> Result<(), String> {
        let state = shared.state.read();
        let newest = self.known.last_key_value().map_or(1, |(revision, _)| *revision);
        if state.revision < newest {
            return Err(format!("revision {newest} is gone: the store is at {}", state.revision));
        }
        for revision in (newest + 1).min(state.log.floor() + 1)..=state.revision {
            let change = state.log.change(revision).ok_or(format!("revision {revision} is not in the log"));
            match (revision > newest, change) {
                (true, change) => self.see(change?)?,
                (false, Ok(change)) => self.know(revision, asked_by(change))?,
                // The history is no longer kept.
                (false, Err(_)) => {}
            }
        }
        let found: Vec<_> = state.keys.page("", None, usize::MAX).0;
        let found: Vec<_> = found.iter().map(|entry| (&entry.key, &entry.value, entry.revision)).collect();
        let expected = self.state();
        let expected: Vec<_> = expected.iter().map(|(key, (value, at))| (*key, *value, *at)).collect();
        if found == expected {
            return Ok(());
        }
        Err(format!("revision {} holds {found:?} instead of {expected:?}", state.revision))
    }

    /// Records a change that no writer was answered.
    fn see(&mut self, change: &Change<()>) -> Result<(), String> {
        let seen = asked_by(change);
        if self.rejected.contains(&seen) {
            return Err(format!("revision {} was rejected, but exists", change.revision));
        }
        if !self.attempted.contains(&seen) {
            return Err(format!("no write was attempted for revision {}: {seen:?}", change.revision));
        }
        self.know(change.revision, seen)
    }

    /// Returns the state after all known changes.
    fn state(&self) -> BTreeMap<&Arc<str>, (&Bytes, u64)> {
        let mut state = BTreeMap::new();
        for (revision, (key, value)) in &self.known {
            match value {
                Some(value) => state.insert(key, (value, *revision)),
                None => state.remove(key),
            };
        }
        state
    }
}

fn asked_by(change: &Change<()>) -> Asked {
    (change.key().clone(), change.after.as_ref().map(|entry| entry.value.clone()))
}
