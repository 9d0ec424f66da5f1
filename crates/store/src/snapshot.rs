//! Pinned snapshots, for lists that are read in pages.
//!
//! A snapshot costs a pointer, but every tree node that is written while it exists is copied. So there is not one for each
//! revision. A snapshot is *pinned* when a page of a list does not reach the end, because the next page asks for the same
//! revision. A read of any other kept revision undoes the changes since that revision, for the requested folder only, on a
//! copy of the nearest later snapshot. The result is pinned too.

use std::collections::VecDeque;

use crate::keyspace::Keyspace;

/// How many snapshots are pinned; the least recently used one is dropped first. Each serves one paged list. One that is
/// dropped too early is made again.
const PINS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Pins<H> {
    /// The least recently used one is first.
    pins: VecDeque<Pin<H>>,
}

/// The state at a revision. It is valid for the keys in one folder.
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
    /// Drops snapshots of revisions whose history is gone, so that they keep no memory alive.
    pub(crate) fn forget_before(&mut self, revision: u64) {
        self.pins.retain(|pin| pin.revision >= revision);
    }

    pub(crate) fn add(&mut self, revision: u64, folder: &str, keys: &Keyspace<H>) {
        if self.pins.iter().any(|pin| pin.serves(revision, folder)) {
            return;
        }
        if self.pins.len() == PINS_MAX {
            self.pins.pop_front();
        }
        self.pins.push_back(Pin { revision, folder: folder.to_owned(), keys: keys.clone() });
    }

    /// Returns the earliest snapshot of the folder at or after the revision.
    pub(crate) fn nearest(&mut self, revision: u64, folder: &str) -> Option<(u64, Keyspace<H>)> {
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
