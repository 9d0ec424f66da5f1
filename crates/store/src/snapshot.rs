//! Reading: at the newest revision from the tree itself, at an earlier one from a snapshot.
//!
//! A snapshot costs a pointer, but every node that is written while it is held is copied; so none is taken for each
//! revision. One is *pinned* when a page of a list was cut short, because the next page will ask for the same
//! revision. Any other kept revision is made from the nearest later snapshot by undoing the changes between,
//! and only those of the folder that is asked for; the result is pinned too.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::scope::{folder_of, is_folder};
use crate::state::Shared;
use crate::tree::Tree;
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
    tree: Tree<H>,
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

    fn add(&mut self, revision: u64, folder: &str, tree: &Tree<H>) {
        if self.pins.iter().any(|pin| pin.serves(revision, folder)) {
            return;
        }
        if self.pins.len() == PINS_MAX {
            self.pins.pop_front();
        }
        self.pins.push_back(Pin { revision, folder: folder.to_owned(), tree: tree.clone() });
    }

    /// The earliest snapshot of the folder that is not before the revision.
    fn nearest(&mut self, revision: u64, folder: &str) -> Option<(u64, Tree<H>)> {
        let usable = |pin: &&Pin<H>| pin.revision >= revision && folder.starts_with(&pin.folder);
        let found = self.pins.iter().filter(usable).map(|pin| pin.revision).min()?;
        let at = self.pins.iter().position(|pin| pin.serves(found, folder))?;
        let pin = self.pins.remove(at)?;
        let base = (pin.revision, pin.tree.clone());
        self.pins.push_back(pin);
        Some(base)
    }
}

impl<H> Pin<H> {
    fn serves(&self, revision: u64, folder: &str) -> bool {
        self.revision == revision && folder.starts_with(&self.folder)
    }
}

/// The first byte string after all that begin with this prefix; none if there is no such.
fn end_of(prefix: &str) -> Option<Vec<u8>> {
    let mut end = prefix.as_bytes().to_vec();
    // No byte of UTF-8 is 255, so that the last one can always be raised.
    *end.last_mut()? += 1;
    Some(end)
}

impl<H> Shared<H> {
    pub(crate) fn count(&self, prefix: &str) -> usize {
        let state = self.state.read();
        let end = end_of(prefix).map_or_else(|| state.tree.len(), |end| state.tree.rank(&end));
        end - state.tree.rank(prefix.as_bytes())
    }

    pub(crate) fn get_at(&self, key: &str, at: u64) -> Result<Option<Arc<Entry<H>>>, ReadError> {
        let state = self.state.read();
        check_kept(at, state.log.floor(), state.revision)?;
        let mut entry = state.tree.get(key);
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
        let (revision, tree) = self.tree_at(range.at, folder)?;
        let page = page_of(&tree, revision, range);
        if page.remaining > 0 {
            // A state made by undoing is right for its folder alone; so is this claim.
            let folder = if range.at.is_none() { "" } else { folder };
            self.pin(revision, folder, &tree);
        }
        Ok(page)
    }

    /// A tree that is the state as of a revision for the keys in a folder.
    fn tree_at(&self, at: Option<u64>, folder: &str) -> Result<(u64, Tree<H>), ReadError> {
        let (newest, floor, tree) = {
            let state = self.state.read();
            (state.revision, state.log.floor(), state.tree.clone())
        };
        let Some(asked) = at else { return Ok((newest, tree)) };
        check_kept(asked, floor, newest)?;
        if asked == newest {
            return Ok((newest, tree));
        }
        let pinned = self.pins.lock().nearest(asked, folder);
        let (mut reached, mut tree) =
            pinned.filter(|(revision, _)| *revision < newest).unwrap_or((newest, tree));
        while reached > asked {
            let changes = self.changes_down(asked, reached, folder)?;
            for change in &changes {
                match &change.before {
                    Some(before) => tree.insert(before.clone()),
                    None => tree.remove(change.key()),
                };
            }
            reached = match changes.last() {
                Some(last) if changes.len() == UNDO_CHUNK => last.revision - 1,
                _ => asked,
            };
        }
        Ok((asked, tree))
    }

    /// The next changes of a folder after `after` and not after `from`, newest first.
    fn changes_down(&self, after: u64, from: u64, folder: &str) -> Result<Vec<Arc<Change<H>>>, ReadError> {
        let state = self.state.read();
        check_kept(after, state.log.floor(), state.revision)?;
        let revisions = state.log.scopes.folder(folder).map(|scope| scope.between(after, from));
        let changes = revisions.into_iter().flatten().take(UNDO_CHUNK);
        Ok(changes.filter_map(|revision| state.log.change(revision).cloned()).collect())
    }

    fn pin(&self, revision: u64, folder: &str, tree: &Tree<H>) {
        let state = self.state.read();
        if revision >= state.log.floor() {
            self.pins.lock().add(revision, folder, tree);
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

fn page_of<H>(tree: &Tree<H>, revision: u64, range: &Range) -> Page<H> {
    let after = range.after.as_ref().map(|after| [after.as_bytes(), &[0]].concat());
    let from = after.as_deref().map_or(range.prefix.as_bytes(), |after| after.max(range.prefix.as_bytes()));
    let to = end_of(&range.prefix);
    let entries = tree.slice(from, to.as_deref(), range.limit.unwrap_or(usize::MAX));
    let remaining = match range.limit {
        Some(limit) if entries.len() == limit => {
            let end = to.map_or_else(|| tree.len(), |to| tree.rank(&to));
            end.saturating_sub(tree.rank(from) + entries.len())
        }
        _ => 0,
    };
    Page { entries, revision, remaining }
}
