//! Reading: at the newest revision from the keyspace itself, at an earlier one from a snapshot.
//!
//! A snapshot costs a pointer, but every node that is written while it is held is copied; so none is taken for each
//! revision. One is *pinned* when a page of a list was cut short, because the next page will ask for the same
//! revision. Any other kept revision is made from the nearest later snapshot by undoing the changes between,
//! and only those of the folder that is asked for; the result is pinned too.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::keyspace::Keyspace;
use crate::scope::{folder_of, is_folder};
use crate::state::Shared;
use crate::{Change, Entry, Page, Range, ReadError};

/// How many snapshots are pinned, least recently used first to go. Each is one list that somebody pages through;
/// one that is forgotten too early is made again.
const PINS_MAX: usize = 64;
/// How many changes are taken from the log under one hold of its lock.
const UNDO_CHUNK: usize = 256;

#[derive(Debug)]
pub(crate) struct Pins<H> {
    /// Least recently used first.
    pins: VecDeque<Pin<H>>,
}

/// A state as of a revision, right for the keys in one folder.
#[derive(Debug)]
struct Pin<H> {
    revision: u64,
    folder: String,
    keys: Keyspace<H>,
}

impl<H> Default for Pins<H> {
    fn default() -> Self {
        Self { pins: VecDeque::new() }
    }
}

impl<H> Pins<H> {
    /// History before this revision is gone; its snapshots must not keep it alive.
    pub(crate) fn forget_before(&mut self, revision: u64) {
        self.pins.retain(|pin| pin.revision >= revision);
    }

    fn add(&mut self, revision: u64, folder: &str, keys: &Keyspace<H>) {
        if self.pins.iter().any(|pin| pin.serves(revision, folder)) {
            return;
        }
        if self.pins.len() == PINS_MAX {
            self.pins.pop_front();
        }
        self.pins.push_back(Pin { revision, folder: folder.to_owned(), keys: keys.clone() });
    }

    /// The earliest snapshot of the folder that is not before the revision.
    fn nearest(&mut self, revision: u64, folder: &str) -> Option<(u64, Keyspace<H>)> {
        let usable = |pin: &&Pin<H>| pin.revision >= revision && folder.starts_with(&pin.folder);
        let found = self.pins.iter().filter(usable).map(|pin| pin.revision).min()?;
        let at = self.pins.iter().position(|pin| pin.serves(found, folder))?;
        let pin = self.pins.remove(at)?;
        let base = (pin.revision, pin.keys.clone());
        self.pins.push_back(pin);
        Some(base)
    }
}

impl<H> Pin<H> {
    fn serves(&self, revision: u64, folder: &str) -> bool {
        self.revision == revision && folder.starts_with(&self.folder)
    }
}

impl<H> Shared<H> {
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.state.read().keys.count(prefix)
    }

    pub(crate) fn get_at(&self, key: &str, at: u64) -> Result<Option<Arc<Entry<H>>>, ReadError> {
        let state = self.state.read();
        check_kept(at, state.log.floor(), state.revision)?;
        let mut entry = state.keys.get(key);
        // Back along the changes of this key alone.
        for revision in state.log.history(key, entry.map(|entry| &**entry)).into_iter().rev() {
            if revision <= at {
                break;
            }
            entry = state.log.change(revision).and_then(|change| change.before.as_ref());
        }
        Ok(entry.cloned())
    }

    pub(crate) fn range(&self, range: &Range) -> Result<Page<H>, ReadError> {
        let folder = if is_folder(&range.prefix) { &range.prefix } else { folder_of(&range.prefix) };
        let (revision, keys) = self.keys_at(range.at, folder)?;
        let page = page_of(&keys, revision, range);
        if page.remaining > 0 {
            // A state made by undoing is right for its folder alone; so is this claim.
            let folder = if range.at.is_none() { "" } else { folder };
            self.pin(revision, folder, &keys);
        }
        Ok(page)
    }

    /// The state as of a revision for the keys in a folder.
    fn keys_at(&self, at: Option<u64>, folder: &str) -> Result<(u64, Keyspace<H>), ReadError> {
        let (newest, floor, keys) = {
            let state = self.state.read();
            (state.revision, state.log.floor(), state.keys.clone())
        };
        let Some(asked) = at else { return Ok((newest, keys)) };
        check_kept(asked, floor, newest)?;
        if asked == newest {
            return Ok((newest, keys));
        }
        let pinned = self.pins.lock().nearest(asked, folder);
        let (mut reached, mut keys) =
            pinned.filter(|(revision, _)| *revision < newest).unwrap_or((newest, keys));
        while reached > asked {
            let changes = self.changes_down(asked, reached, folder)?;
            for change in &changes {
                match &change.before {
                    Some(before) => keys.insert(before.clone()),
                    None => keys.remove(change.key()),
                };
            }
            reached = match changes.last() {
                Some(last) if changes.len() == UNDO_CHUNK => last.revision - 1,
                _ => asked,
            };
        }
        Ok((asked, keys))
    }

    /// The next changes of a folder after `after` and not after `from`, newest first.
    fn changes_down(&self, after: u64, from: u64, folder: &str) -> Result<Vec<Arc<Change<H>>>, ReadError> {
        let state = self.state.read();
        check_kept(after, state.log.floor(), state.revision)?;
        let revisions = state.log.scopes.folder(folder).map(|scope| scope.between(after, from));
        let changes = revisions.into_iter().flatten().take(UNDO_CHUNK);
        Ok(changes.filter_map(|revision| state.log.change(revision).cloned()).collect())
    }

    fn pin(&self, revision: u64, folder: &str, keys: &Keyspace<H>) {
        let state = self.state.read();
        if revision >= state.log.floor() {
            self.pins.lock().add(revision, folder, keys);
        }
    }
}

fn check_kept(asked: u64, oldest: u64, newest: u64) -> Result<(), ReadError> {
    if asked < oldest {
        return Err(ReadError::Compacted { asked, oldest });
    }
    if asked > newest {
        return Err(ReadError::Future { asked, newest });
    }
    Ok(())
}

fn page_of<H>(keys: &Keyspace<H>, revision: u64, range: &Range) -> Page<H> {
    let limit = range.limit.unwrap_or(usize::MAX);
    let (entries, remaining) = keys.page(&range.prefix, range.after.as_deref(), limit);
    Page { entries, revision, remaining }
}
