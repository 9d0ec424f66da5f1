//! An index over the change log, by the folders of the keys: which changes concern which watchers.
//!
//! A key is a path. A watch follows a *scope*: a folder (`/registry/apps/deployments/`) with every key below it, or a single
//! key. The revision of a change is entered in the scopes of all folders above its key. So a watcher that starts at an old
//! revision finds the changes of its scope without reading others, and a change finds its watchers without visiting others.
//! Changes leave the log in the order in which they came, so that they leave each scope from the front as well.
//!
//! A scope exists while it has changes, watchers or scopes below it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use evenkeel_env::HashMap;

use crate::listener::Listener;

/// The position of a scope in the index. It is valid while the scope has a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeId(usize);

#[derive(Debug)]
pub(crate) struct Scope {
    name: Arc<str>,
    /// The folder above; `None` for the root and for single keys.
    parent: Option<ScopeId>,
    /// How many scopes have this one as their parent.
    children: usize,
    /// The revisions of its changes in the log.
    revisions: VecDeque<u64>,
    /// How many revisions were dropped from the front. Position `n` of a watcher is `revisions[n - gone]`.
    gone: u64,
    /// The newest revision that was dropped.
    gone_to: u64,
    /// The listeners, in the order in which they were added.
    listeners: BTreeMap<u64, Arc<Listener>>,
}

#[derive(Debug, Default)]
pub(crate) struct Scopes {
    folders: HashMap<Arc<str>, ScopeId>,
    /// The single keys that are watched. Other keys have no scope of their own.
    keys: HashMap<Arc<str>, ScopeId>,
    slots: Vec<Option<Scope>>,
    free: Vec<usize>,
    next_listener: u64,
}

/// Returns the folder that contains a key or folder.
pub(crate) fn folder_of(path: &str) -> &str {
    let name_end = path.strip_suffix('/').unwrap_or(path);
    name_end.rfind('/').map_or("", |slash| &path[..=slash])
}

/// Whether a watched prefix selects everything below it; otherwise it selects one key.
pub(crate) fn is_folder(prefix: &str) -> bool {
    prefix.is_empty() || prefix.ends_with('/')
}

impl Scope {
    /// Returns the position after every change up to this revision.
    pub(crate) fn position_after(&self, revision: u64) -> u64 {
        self.gone + self.revisions.partition_point(|known| *known <= revision) as u64
    }

    /// Returns positions and revisions of the changes from `position` on with a revision above `start`; `None` if such a
    /// change has left the log.
    pub(crate) fn unread_from(&self, position: u64, start: u64) -> Option<impl Iterator<Item = (u64, u64)>> {
        if position < self.gone && self.gone_to > start {
            return None;
        }
        let skip = usize::try_from(position.saturating_sub(self.gone)).ok()?.min(self.revisions.len());
        let positions = self.gone + skip as u64..;
        let unread = positions.zip(self.revisions.range(skip..).copied());
        Some(unread.filter(move |(_, revision)| *revision > start))
    }

    /// Returns the revisions after `after` up to `from`, newest first.
    pub(crate) fn between(&self, after: u64, from: u64) -> impl Iterator<Item = u64> {
        let end = self.revisions.partition_point(|known| *known <= from);
        self.revisions.range(..end).rev().copied().take_while(move |revision| *revision > after)
    }

    pub(crate) fn newest(&self) -> Option<u64> {
        self.revisions.back().copied()
    }

    fn is_unused(&self) -> bool {
        self.revisions.is_empty() && self.listeners.is_empty() && self.children == 0
    }

    fn pop_front(&mut self) {
        if let Some(revision) = self.revisions.pop_front() {
            self.gone += 1;
            self.gone_to = revision;
        }
        if self.revisions.capacity() > 64 && self.revisions.len() < self.revisions.capacity() / 4 {
            self.revisions.shrink_to(self.revisions.len() * 2);
        }
    }
}

impl Scopes {
    pub(crate) fn scope(&self, id: ScopeId) -> &Scope {
        self.slots[id.0].as_ref().expect("a scope outlives its watchers, children and changes")
    }

    fn scope_mut(&mut self, id: ScopeId) -> &mut Scope {
        self.slots[id.0].as_mut().expect("a scope outlives its watchers, children and changes")
    }

    pub(crate) fn folder(&self, name: &str) -> Option<&Scope> {
        self.folders.get(name).map(|id| self.scope(*id))
    }

    /// Whether a single key is watched.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Enters a change of a key, and adds the wakers of its watchers to `wakers`.
    pub(crate) fn push(&mut self, key: &str, revision: u64, wakers: &mut Vec<Waker>) {
        let folder = self.make_folder(folder_of(key));
        let single = if self.keys.is_empty() { None } else { self.keys.get(key).copied() };
        let mut next = Some(folder);
        while let Some(id) = next {
            next = self.enter(id, revision, wakers);
        }
        if let Some(id) = single {
            self.enter(id, revision, wakers);
        }
    }

    /// Enters a revision in one scope. Returns the scope above.
    fn enter(&mut self, id: ScopeId, revision: u64, wakers: &mut Vec<Waker>) -> Option<ScopeId> {
        let scope = self.scope_mut(id);
        scope.revisions.push_back(revision);
        wakers.extend(scope.listeners.values().filter_map(|listener| listener.notify(revision)));
        scope.parent
    }

    /// Removes the oldest change, which is of this key.
    pub(crate) fn pop(&mut self, key: &str, revision: u64) {
        let mut next = self.folders.get(folder_of(key)).copied();
        while let Some(id) = next {
            let scope = self.scope_mut(id);
            debug_assert_eq!(scope.revisions.front(), Some(&revision));
            scope.pop_front();
            next = scope.parent;
            self.drop_if_unused(id);
        }
        if let Some(id) = self.keys.get(key).copied() {
            let scope = self.scope_mut(id);
            if scope.revisions.front() == Some(&revision) {
                scope.pop_front();
            }
        }
    }

    /// Adds a listener for a prefix. `history` has the kept revisions of a single key without a scope.
    pub(crate) fn listen(
        &mut self,
        prefix: &str,
        listener: Arc<Listener>,
        history: VecDeque<u64>,
    ) -> (ScopeId, u64) {
        let id = if is_folder(prefix) { self.make_folder(prefix) } else { self.make_key(prefix, history) };
        let number = self.next_listener;
        self.next_listener += 1;
        self.scope_mut(id).listeners.insert(number, listener);
        (id, number)
    }

    pub(crate) fn unlisten(&mut self, id: ScopeId, number: u64) {
        let scope = self.scope_mut(id);
        scope.listeners.remove(&number);
        if scope.listeners.is_empty() && !is_folder(&scope.name) {
            let name = scope.name.clone();
            self.keys.remove(&name);
            self.release(id);
        } else {
            self.drop_if_unused(id);
        }
    }

    /// Returns all listeners.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &Arc<Listener>> {
        self.slots.iter().flatten().flat_map(|scope| scope.listeners.values())
    }

    fn make_folder(&mut self, name: &str) -> ScopeId {
        if let Some(id) = self.folders.get(name) {
            return *id;
        }
        let parent = (!name.is_empty()).then(|| self.make_folder(folder_of(name)));
        if let Some(parent) = parent {
            self.scope_mut(parent).children += 1;
        }
        let id = self.occupy(Scope::new(name, parent, VecDeque::new()));
        let name = self.scope(id).name.clone();
        self.folders.insert(name, id);
        id
    }

    fn make_key(&mut self, key: &str, history: VecDeque<u64>) -> ScopeId {
        if let Some(id) = self.keys.get(key) {
            return *id;
        }
        let id = self.occupy(Scope::new(key, None, history));
        let name = self.scope(id).name.clone();
        self.keys.insert(name, id);
        id
    }

    fn drop_if_unused(&mut self, id: ScopeId) {
        let scope = self.scope(id);
        if !scope.is_unused() {
            return;
        }
        let (name, parent) = (scope.name.clone(), scope.parent);
        self.folders.remove(&name);
        self.release(id);
        if let Some(parent) = parent {
            self.scope_mut(parent).children -= 1;
            self.drop_if_unused(parent);
        }
    }

    fn occupy(&mut self, scope: Scope) -> ScopeId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(scope);
        ScopeId(slot)
    }

    fn release(&mut self, id: ScopeId) {
        self.slots[id.0] = None;
        self.free.push(id.0);
    }
}

impl Scope {
    fn new(name: &str, parent: Option<ScopeId>, revisions: VecDeque<u64>) -> Self {
        Self {
            name: name.into(),
            parent,
            children: 0,
            revisions,
            gone: 0,
            gone_to: 0,
            listeners: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_env::Ledger;

    use super::*;

    fn listener(start: u64) -> Arc<Listener> {
        Arc::new(Listener::new(start, Ledger::new().station("test")))
    }

    #[test]
    fn a_path_lies_in_its_folder() {
        for (path, folder) in [
            ("/a/b/c", "/a/b/"),
            ("/a/b/", "/a/"),
            ("/a", "/"),
            ("/", ""),
            ("a/b", "a/"),
            ("a/", ""),
            ("a", ""),
        ] {
            assert_eq!(folder_of(path), folder, "{path}");
        }
    }

    #[test]
    fn scopes_go_when_nobody_needs_them() {
        let mut scopes = Scopes::default();
        let mut wakers = Vec::new();
        for (revision, key) in [(2, "/a/x/1"), (3, "/a/y/1"), (4, "/a/x/1")] {
            scopes.push(key, revision, &mut wakers);
        }
        let (folder, first) = scopes.listen("/a/x/", listener(1), VecDeque::new());
        let (key, second) = scopes.listen("/a/x/1", listener(1), VecDeque::from([2, 4]));
        let (other, third) = scopes.listen("/b/", listener(1), VecDeque::new());
        assert_eq!(scopes.folders.len(), 6);
        for (revision, key) in [(2, "/a/x/1"), (3, "/a/y/1"), (4, "/a/x/1")] {
            scopes.pop(key, revision);
        }
        assert!(scopes.folder("/a/y/").is_none() && scopes.folder("/a/x/").is_some());
        assert!(scopes.scope(key).unread_from(0, 1).is_none(), "what it had not read is gone");
        scopes.unlisten(folder, first);
        scopes.unlisten(key, second);
        scopes.unlisten(other, third);
        assert!(scopes.folders.is_empty() && scopes.keys.is_empty());
        assert_eq!(scopes.free.len(), scopes.slots.len());
    }
}
