//! The objects of a cache and its indexes, without locks and without the type of the objects.
//!
//! The maps of a cache hold objects behind [`Entry`], whatever their kind, so that the compiler makes them once, here,
//! and not again in every crate that uses a kind.

use std::any::Any;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use evenkeel_env::{HashMap, HashSet};
use imbl::OrdMap;
use kube::core::ObjectMeta;

use super::indexed::Indexed;
use crate::request::KeyParts;
use crate::{Object, Request};

/// How many interned namespace names are kept before the unused ones are searched for and dropped.
pub(super) const NAMESPACES_KEPT: usize = 64;

/// An object in a cache, with its type erased.
pub(super) type Entry = Arc<dyn Stored>;

/// What the maps of a cache need to know of an object. `Arc<K>` implements it, the type that readers get.
pub(super) trait Stored: Any + Send + Sync {
    fn meta(&self) -> &ObjectMeta;
    fn as_any(&self) -> &dyn Any;
}

impl<K: Object> Stored for Arc<K> {
    fn meta(&self) -> &ObjectMeta {
        K::meta(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Returns the object of an entry as its type.
pub(super) fn typed<K: Object>(entry: &Entry) -> &Arc<K> {
    // The inner `Arc` must be dereferenced: a reference to it would itself coerce to an entry of another type.
    let object = (**entry).as_any().downcast_ref();
    object.expect("a cache holds objects of one type, because its store inserts no other")
}

/// Entries ordered by key.
pub(super) type Ordered = OrdMap<Request, Entry>;

/// Objects by key, with indexes that are updated with every change.
///
/// A read by key is one lookup in the hash map. Iteration uses the ordered map, which is persistent: a snapshot is
/// free, and the order of hashes never shows. The ordered map is built when the first snapshot is taken, and updated
/// with every change from then on. Many controllers read only by key and by index, and never pay for it.
pub(super) struct Entries {
    by_key: HashMap<Request, Entry>,
    /// The objects of `by_key`, ordered; built by the first snapshot.
    ordered: OnceLock<Ordered>,
    pub(super) indexes: Vec<Indexed>,
    /// One allocation for each namespace name, shared by the keys of all its objects.
    pub(super) namespaces: HashSet<Arc<str>>,
    /// The length of `namespaces` at which unused names are dropped.
    namespaces_limit: usize,
}

impl Entries {
    pub(super) fn new() -> Self {
        Self {
            by_key: HashMap::default(),
            ordered: OnceLock::new(),
            indexes: Vec::new(),
            namespaces: HashSet::default(),
            namespaces_limit: NAMESPACES_KEPT,
        }
    }

    pub(super) fn get(&self, key: &Request) -> Option<&Entry> {
        self.by_key.get(key)
    }

    /// Inserts an object. Returns its key and the object that was replaced.
    pub(super) fn insert(&mut self, entry: Entry) -> (Request, Option<Entry>) {
        let meta = entry.meta();
        let parts = (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
        let known = self.by_key.get_key_value(&parts as &dyn KeyParts);
        let key = match known {
            Some((key, _)) => key.clone(),
            None => self.new_key(parts.0, parts.1),
        };
        let old = self.by_key.insert(key.clone(), entry.clone());
        if let Some(ordered) = self.ordered.get_mut() {
            ordered.insert(key.clone(), entry.clone());
        }
        for indexed in &mut self.indexes {
            indexed.update(&key, old.as_ref(), Some(&entry));
        }
        (key, old)
    }

    pub(super) fn remove(&mut self, key: &Request) -> Option<Entry> {
        let old = self.by_key.remove(key)?;
        if let Some(ordered) = self.ordered.get_mut() {
            ordered.remove(key);
        }
        for indexed in &mut self.indexes {
            indexed.update(key, Some(&old), None);
        }
        Some(old)
    }

    /// Adds an index and fills it from the existing objects.
    pub(super) fn add_index(&mut self, mut indexed: Indexed) {
        for (key, entry) in &self.sorted() {
            indexed.update(key, None, Some(entry));
        }
        self.indexes.push(indexed);
    }

    pub(super) fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|indexed| indexed.name() == name)
    }

    pub(super) fn index_names(&self) -> Vec<String> {
        self.indexes.iter().map(|indexed| indexed.name().to_owned()).collect()
    }

    /// Returns the objects that have this value in an index, or `None` if there is no such index.
    pub(super) fn by_index(&self, name: &str, value: &str) -> Option<Vec<&Entry>> {
        let indexed = self.indexes.iter().find(|indexed| indexed.name() == name)?;
        Some(indexed.keys(value).filter_map(|key| self.by_key.get(key)).collect())
    }

    /// Counts the objects that have this value in an index. Returns `None` if there is no such index.
    pub(super) fn count_by_index(&self, name: &str, value: &str) -> Option<usize> {
        Some(self.indexes.iter().find(|indexed| indexed.name() == name)?.count(value))
    }

    pub(super) fn ordered(&self) -> Ordered {
        self.ordered.get_or_init(|| self.sorted().into_iter().collect()).clone()
    }

    /// Returns all objects in order, for a reader that iterates once and needs no snapshot.
    pub(super) fn sorted(&self) -> Vec<(Request, Entry)> {
        let entries = |(key, entry): (&Request, &Entry)| (key.clone(), entry.clone());
        if let Some(ordered) = self.ordered.get() {
            return ordered.iter().map(entries).collect();
        }
        let mut all: Vec<_> = self.by_key.iter().map(entries).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// Returns about `count` objects, spread over the whole cache, in no particular order.
    #[cfg(feature = "metrics")]
    pub(super) fn sample(&self, count: usize) -> impl Iterator<Item = &Entry> {
        self.by_key.values().step_by(self.by_key.len().div_ceil(count).max(1))
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Makes a key that shares the allocation of its namespace's name with all other keys in that namespace.
    fn new_key(&mut self, namespace: Option<&str>, name: &str) -> Request {
        let namespace = namespace.map(|namespace| match self.namespaces.get(namespace) {
            Some(known) => known.clone(),
            None => self.new_namespace(namespace),
        });
        Request { namespace, name: name.into() }
    }

    fn new_namespace(&mut self, namespace: &str) -> Arc<str> {
        if self.namespaces.len() >= self.namespaces_limit {
            // A name that only this set references is not used by any key.
            self.namespaces.retain(|namespace| Arc::strong_count(namespace) > 1);
            self.namespaces_limit = NAMESPACES_KEPT.max(2 * self.namespaces.len());
        }
        let namespace: Arc<str> = namespace.into();
        self.namespaces.insert(namespace.clone());
        namespace
    }
}

/// The entries of one namespace, ordered by name.
pub(super) fn entries_in<'a>(
    ordered: &'a Ordered,
    namespace: &str,
) -> Box<dyn Iterator<Item = (&'a Request, &'a Entry)> + 'a> {
    let namespace: Arc<str> = namespace.into();
    let first = Request { namespace: Some(namespace.clone()), name: "".into() };
    let range = ordered.range((Bound::Included(first), Bound::Unbounded));
    Box::new(range.take_while(move |(key, _)| key.namespace.as_ref() == Some(&namespace)))
}
