//! The current state: nested folders, each a tree of its own.
//!
//! A key is a path, and is found by walking down its folders. So the cost of an operation depends on the number of
//! neighbours along the path (namespaces of the kind, objects in the namespace), never on the number of other keys. Each
//! step compares one name, not the whole path.
//!
//! A folder's name includes its slash. Then the order of the names in each folder yields the order of whole keys: in one
//! folder, no name begins with the name of a subfolder.

use std::sync::Arc;

use crate::Entry;
use crate::scope::folder_of;
use crate::tree::{Item, Tree, start_of};

/// How deeply the folders of a key may be nested.
///
/// Functions that walk down the folders are recursive, so that this bounds the stack. The keys of the API server have at
/// most five folders (`/registry/GROUP/RESOURCE/NAMESPACE/`).
pub(crate) const FOLDERS_MAX: usize = 64;

/// Whether a key has more folders than [`FOLDERS_MAX`].
pub(crate) fn is_too_deep(key: &str) -> bool {
    key.bytes().filter(|byte| *byte == b'/').count() > FOLDERS_MAX
}

/// The entries by key. A clone is a snapshot.
#[derive(Debug)]
pub(crate) struct Keyspace<H> {
    root: Tree<Slot<H>>,
}

/// An entry or a subfolder, by its name in the folder.
#[derive(Debug)]
struct Slot<H> {
    /// The [`start_of`] the name.
    start: u64,
    held: Held<H>,
}

#[derive(Debug)]
enum Held<H> {
    Entry {
        /// The offset of the entry's own name in its key.
        name_at: usize,
        entry: Arc<Entry<H>>,
    },
    Folder(Arc<Folder<H>>),
}

#[derive(Debug)]
struct Folder<H> {
    /// The name, including the slash.
    name: Box<str>,
    slots: Tree<Slot<H>>,
    /// The number of entries below, at any depth. A folder without entries is removed.
    count: usize,
}

/// The part of a keyspace that a prefix selects: the names of one folder that begin with `name`.
struct Part<'a, H> {
    slots: &'a Tree<Slot<H>>,
    /// The length of the folder's path.
    depth: usize,
    /// The beginning of the names.
    name: &'a [u8],
}

impl<H> Clone for Keyspace<H> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<H> Clone for Slot<H> {
    fn clone(&self) -> Self {
        Self { start: self.start, held: self.held.clone() }
    }
}

impl<H> Clone for Held<H> {
    fn clone(&self) -> Self {
        match self {
            Self::Entry { name_at, entry } => Self::Entry { name_at: *name_at, entry: entry.clone() },
            Self::Folder(folder) => Self::Folder(folder.clone()),
        }
    }
}

impl<H> Clone for Folder<H> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), slots: self.slots.clone(), count: self.count }
    }
}

impl<H> From<Held<H>> for Slot<H> {
    fn from(held: Held<H>) -> Self {
        Self { start: start_of(held.name()), held }
    }
}

impl<H> Held<H> {
    fn name(&self) -> &[u8] {
        match self {
            Self::Entry { name_at, entry } => &entry.key.as_bytes()[*name_at..],
            Self::Folder(folder) => folder.name.as_bytes(),
        }
    }
}

impl<H> Item for Slot<H> {
    fn name(&self) -> &[u8] {
        self.held.name()
    }

    fn start(&self) -> u64 {
        self.start
    }

    fn weight(&self) -> usize {
        match &self.held {
            Held::Entry { .. } => 1,
            Held::Folder(folder) => folder.count,
        }
    }
}

/// Returns the end of the first folder name of a path, after its slash; `None` if the path has no folder.
fn folder_end(path: &[u8]) -> Option<usize> {
    path.iter().position(|byte| *byte == b'/').map(|slash| slash + 1)
}

/// Returns the smallest byte string that is larger than all strings with this prefix; `None` for an empty prefix.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    // UTF-8 has no byte 255, so that the last byte can be incremented.
    *end.last_mut()? += 1;
    Some(end)
}

impl<H> Keyspace<H> {
    pub(crate) fn new() -> Self {
        Self { root: Tree::new() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry<H>>> {
        let (mut slots, mut rest) = (&self.root, key.as_bytes());
        loop {
            let (name, below) = rest.split_at(folder_end(rest).unwrap_or(rest.len()));
            match &slots.get(name)?.held {
                Held::Folder(folder) => (slots, rest) = (&folder.slots, below),
                Held::Entry { entry, .. } => return Some(entry),
            }
        }
    }

    /// Inserts or replaces the entry of a key.
    pub(crate) fn insert(&mut self, entry: Arc<Entry<H>>) {
        insert(&mut self.root, 0, entry);
    }

    /// Removes the entry of a key.
    pub(crate) fn remove(&mut self, key: &str) {
        // Tree nodes are copied only if the key exists.
        if self.get(key).is_some() {
            remove(&mut self.root, key.as_bytes());
        }
    }

    /// Returns how many keys begin with a prefix.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.part(prefix).map_or(0, |part| part.before_end() - part.before_start())
    }

    /// Returns at most `limit` entries whose keys begin with a prefix and sort after a key, and how many more there are.
    pub(crate) fn page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> (Vec<Arc<Entry<H>>>, usize) {
        let Some(part) = self.part(prefix) else { return (Vec::new(), 0) };
        // A key before the prefix excludes nothing.
        let after = after.filter(|after| *after >= prefix);
        if after.is_some_and(|after| !after.starts_with(prefix)) {
            return (Vec::new(), 0);
        }
        let after = after.map(|after| &after.as_bytes()[part.depth..]);
        let before = after.map_or_else(|| part.before_start(), |after| up_to(part.slots, after));
        let count = part.before_end() - before;
        let mut entries = Vec::with_capacity(count.min(limit));
        part.collect(after, entries.capacity(), &mut entries);
        let remaining = count - entries.len();
        (entries, remaining)
    }

    fn part<'a>(&'a self, prefix: &'a str) -> Option<Part<'a, H>> {
        let depth = folder_end_of_key(prefix);
        let (folder, name) = prefix.as_bytes().split_at(depth);
        Some(Part { slots: self.folder(folder)?, depth, name })
    }

    fn folder(&self, path: &[u8]) -> Option<&Tree<Slot<H>>> {
        let mut slots = &self.root;
        let mut rest = path;
        while let Some(end) = folder_end(rest) {
            let (name, below) = rest.split_at(end);
            match &slots.get(name)?.held {
                Held::Folder(folder) => slots = &folder.slots,
                Held::Entry { .. } => return None,
            }
            rest = below;
        }
        Some(slots)
    }
}

/// Returns the offset at which the own name of a key, or the name part of a prefix, begins.
fn folder_end_of_key(key: &str) -> usize {
    if key.ends_with('/') { key.len() } else { folder_of(key).len() }
}

impl<H> Part<'_, H> {
    /// Returns how many keys of the folder come before the part.
    fn before_start(&self) -> usize {
        if self.name.is_empty() { 0 } else { self.slots.rank(self.name) }
    }

    /// Returns how many keys of the folder come before the end of the part.
    fn before_end(&self) -> usize {
        end_of(self.name).map_or_else(|| self.slots.weight(), |end| self.slots.rank(&end))
    }

    fn collect(&self, after: Option<&[u8]>, limit: usize, out: &mut Vec<Arc<Entry<H>>>) {
        match after {
            Some(after) => collect_after(self.slots, after, limit, out),
            None => collect(self.slots, self.name, limit, out),
        };
    }
}

fn insert<H>(slots: &mut Tree<Slot<H>>, at: usize, entry: Arc<Entry<H>>) {
    let key = entry.key.clone();
    let Some(end) = folder_end(&key.as_bytes()[at..]) else {
        slots.insert(Held::Entry { name_at: at, entry }.into());
        return;
    };
    let name = &key[at..at + end];
    let mut entry = Some(entry);
    slots.modify(name.as_bytes(), |slot| {
        if let (Held::Folder(folder), Some(entry)) = (&mut slot.held, entry.take()) {
            let folder = Arc::make_mut(folder);
            insert(&mut folder.slots, at + end, entry);
            folder.count = folder.slots.weight();
        }
    });
    if let Some(entry) = entry {
        let mut below = Tree::new();
        insert(&mut below, at + end, entry);
        slots.insert(Held::Folder(Arc::new(Folder { name: name.into(), slots: below, count: 1 })).into());
    }
}

fn remove<H>(slots: &mut Tree<Slot<H>>, path: &[u8]) {
    let Some(end) = folder_end(path) else {
        slots.remove(path);
        return;
    };
    let (name, below) = path.split_at(end);
    let left = slots.modify(name, |slot| {
        let Held::Folder(folder) = &mut slot.held else { return 1 };
        let folder = Arc::make_mut(folder);
        remove(&mut folder.slots, below);
        folder.count = folder.slots.weight();
        folder.count
    });
    if left == Some(0) {
        slots.remove(name);
    }
}

/// Returns how many keys come before a path, including the path itself.
fn up_to<H>(slots: &Tree<Slot<H>>, path: &[u8]) -> usize {
    match folder_end(path) {
        None => slots.rank(path) + usize::from(slots.get(path).is_some()),
        Some(end) => {
            let (name, below) = path.split_at(end);
            let within = match slots.get(name).map(|slot| &slot.held) {
                Some(Held::Folder(folder)) => up_to(&folder.slots, below),
                _ => 0,
            };
            slots.rank(name) + within
        }
    }
}

/// Collects the entries from a name on. Returns whether there is room for more.
fn collect<H>(slots: &Tree<Slot<H>>, from: &[u8], limit: usize, out: &mut Vec<Arc<Entry<H>>>) -> bool {
    if out.len() < limit {
        slots.walk(from, &mut |slot| {
            match &slot.held {
                Held::Entry { entry, .. } => out.push(entry.clone()),
                Held::Folder(folder) => return collect(&folder.slots, b"", limit, out),
            }
            out.len() < limit
        });
    }
    out.len() < limit
}

/// Collects the entries after a path. Returns whether there is room for more.
fn collect_after<H>(slots: &Tree<Slot<H>>, after: &[u8], limit: usize, out: &mut Vec<Arc<Entry<H>>>) -> bool {
    let (name, below) = after.split_at(folder_end(after).unwrap_or(after.len()));
    if !name.ends_with(b"/") {
        // The next possible name is this one followed by a zero byte.
        return collect(slots, &[name, &[0]].concat(), limit, out);
    }
    if let Some(Held::Folder(folder)) = slots.get(name).map(|slot| &slot.held)
        && !collect_after(&folder.slots, below, limit, out)
    {
        return false;
    }
    collect(slots, &[name, &[0]].concat(), limit, out)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Paths of up to three names, with characters that sort before and after a slash.
    fn path() -> impl Strategy<Value = String> {
        prop::string::string_regex("/?([-0a]{1,2}/){0,2}[-0a]{0,2}").unwrap()
    }

    fn entry(key: &str, revision: u64) -> Arc<Entry<()>> {
        Arc::new(Entry { key: key.into(), value: "".into(), header: (), create_revision: revision, revision })
    }

    fn check(
        keys: &Keyspace<()>,
        model: &BTreeMap<String, u64>,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) {
        let inside = model.iter().filter(|(key, _)| key.starts_with(prefix));
        assert_eq!(keys.count(prefix), inside.clone().count());
        let all: Vec<_> = inside.filter(|(key, _)| after.is_none_or(|after| key.as_str() > after)).collect();
        let (entries, remaining) = keys.page(prefix, after, limit);
        let taken = all.len().min(limit);
        assert!(
            entries
                .iter()
                .map(|entry| (&*entry.key, entry.revision))
                .eq(all[..taken].iter().map(|(key, revision)| (key.as_str(), **revision)))
        );
        assert_eq!(remaining, all.len() - taken);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn it_is_an_ordered_map_of_whole_keys(
            steps in prop::collection::vec((path(), prop::bool::weighted(0.7)), 1..400),
            looks in prop::collection::vec((path(), prop::option::of(path()), 0..60usize), 50),
        ) {
            let (mut keys, mut model) = (Keyspace::new(), BTreeMap::new());
            let mut held = None;
            for (revision, (key, is_put)) in (1..).zip(&steps) {
                if *is_put {
                    keys.insert(entry(key, revision));
                    model.insert(key.clone(), revision);
                } else {
                    keys.remove(key);
                    model.remove(key);
                }
                prop_assert_eq!(keys.get(key).map(|entry| entry.revision), model.get(key).copied());
                prop_assert_eq!(keys.count(""), model.len());
                if revision == steps.len() as u64 / 2 {
                    held = Some((keys.clone(), model.clone()));
                }
            }
            for (prefix, after, limit) in &looks {
                check(&keys, &model, prefix, after.as_deref(), *limit);
                if let Some((keys, model)) = &held {
                    check(keys, model, prefix, after.as_deref(), *limit);
                }
            }
        }
    }

    #[test]
    fn folders_go_with_their_last_entry() {
        let mut keys = Keyspace::new();
        keys.insert(entry("/a/b/c", 1));
        keys.remove("/a/b/c");
        assert!(keys.root.get(b"/").is_none());
    }
}
