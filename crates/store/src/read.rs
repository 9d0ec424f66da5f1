//! Reads: at the newest revision from the keyspace itself, at an earlier one from a snapshot.

use std::sync::Arc;

use crate::keyspace::Keyspace;
use crate::scope::{folder_of, is_folder};
use crate::shared::Shared;
use crate::{Change, Entry, Page, Range, ReadError};

/// How many changes a read takes from the log while it holds the lock.
const UNDO_CHUNK: usize = 256;

impl<H> Shared<H> {
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.state.read().keys.count(prefix)
    }

    pub(crate) fn get_at(&self, key: &str, at: u64) -> Result<Option<Arc<Entry<H>>>, ReadError> {
        let state = self.state.read();
        check_kept(at, state.log.floor(), state.revision)?;
        let mut entry = state.keys.get(key);
        // Walks back along the changes of this key only.
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
            // A state that was made by undoing changes is valid for its folder only.
            let folder = if range.at.is_none() { "" } else { folder };
            self.pin(revision, folder, &keys);
        }
        Ok(page)
    }

    /// Returns the state at a revision. It is valid for the keys in the folder.
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

    /// Returns the changes of a folder after revision `after` up to `from`, newest first, at most [`UNDO_CHUNK`].
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
