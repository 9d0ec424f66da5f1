//! The state of a cache and its rules, without locks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use crate::index::Index;
use crate::{Object, Request};

/// Objects by key, with indexes that every change keeps up.
#[derive(Debug)]
pub(crate) struct Store<K> {
    objects: OrdMap<Request, Arc<K>>,
    indexes: Vec<Indexed<K>>,
}

#[derive(Debug)]
struct Indexed<K> {
    index: Index<K>,
    /// From value to keys; a value without keys has no entry.
    keys: BTreeMap<String, BTreeSet<Request>>,
}

/// A cache as it was at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot<K> {
    objects: OrdMap<Request, Arc<K>>,
}

impl<K> Snapshot<K> {
    /// The object of this key.
    pub fn get(&self, key: &Request) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// All objects, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// All keys, in the same order.
    pub fn keys(&self) -> impl Iterator<Item = &Request> {
        self.objects.keys()
    }

    /// The objects of one namespace, by name.
    pub fn iter_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        let namespace: Arc<str> = namespace.into();
        let first = Request { namespace: Some(namespace.clone()), name: "".into() };
        let range = self.objects.range((Bound::Included(first), Bound::Unbounded));
        range.take_while(move |(key, _)| key.namespace.as_ref() == Some(&namespace)).map(|(_, object)| object)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl<K: Object> Store<K> {
    pub(crate) fn new() -> Self {
        Self { objects: OrdMap::new(), indexes: Vec::new() }
    }

    pub(crate) fn get(&self, key: &Request) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// Puts an object in; gives the one that was there.
    pub(crate) fn insert(&mut self, key: Request, object: Arc<K>) -> Option<Arc<K>> {
        let old = self.objects.insert(key.clone(), object.clone());
        for indexed in &mut self.indexes {
            indexed.update(&key, old.as_deref(), Some(&object));
        }
        old
    }

    pub(crate) fn remove(&mut self, key: &Request) -> Option<Arc<K>> {
        let old = self.objects.remove(key)?;
        for indexed in &mut self.indexes {
            indexed.update(key, Some(&old), None);
        }
        Some(old)
    }

    /// Keeps one more index, filled from what is there. One of the same name is left as it is.
    pub(crate) fn add_index(&mut self, index: &Index<K>) {
        if self.has_index(index.name()) {
            return;
        }
        let mut indexed = Indexed { index: index.clone(), keys: BTreeMap::new() };
        for (key, object) in &self.objects {
            indexed.update(key, None, Some(object));
        }
        self.indexes.push(indexed);
    }

    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|indexed| indexed.index.name() == name)
    }

    pub(crate) fn by_index(&self, name: &str, value: &str) -> Vec<Arc<K>> {
        let indexed = self.indexes.iter().find(|indexed| indexed.index.name() == name);
        let keys = indexed.and_then(|indexed| indexed.keys.get(value));
        keys.into_iter().flatten().filter_map(|key| self.objects.get(key).cloned()).collect()
    }

    pub(crate) fn snapshot(&self) -> Snapshot<K> {
        Snapshot { objects: self.objects.clone() }
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }
}

impl<K> Indexed<K> {
    fn update(&mut self, key: &Request, old: Option<&K>, new: Option<&K>) {
        let before = old.map(|old| self.index.values(old)).unwrap_or_default();
        let after = new.map(|new| self.index.values(new)).unwrap_or_default();
        if before == after {
            return;
        }
        for value in before.iter().filter(|value| !after.contains(value)) {
            if let Some(keys) = self.keys.get_mut(value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(value);
                }
            }
        }
        for value in after.into_iter().filter(|value| !before.contains(value)) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;

    use super::*;

    fn pod(namespace: &str, name: &str, app: &str) -> (Request, Arc<Pod>) {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some(namespace.into());
        pod.metadata.name = Some(name.into());
        pod.labels_mut().insert("app".into(), app.into());
        (Request::of(&pod), Arc::new(pod))
    }

    #[test]
    fn an_index_follows_every_change() {
        let mut store = Store::new();
        let index = Index::by_label("app");
        let insert = |store: &mut Store<Pod>, (key, pod)| {
            store.insert(key, pod);
        };
        insert(&mut store, pod("a", "one", "web"));
        store.add_index(&index);
        insert(&mut store, pod("a", "two", "web"));
        insert(&mut store, pod("b", "three", "db"));
        let found = |store: &Store<Pod>, app| {
            store.by_index(index.name(), app).iter().map(|pod| pod.name_any()).collect::<Vec<_>>()
        };
        assert_eq!(found(&store, "web"), ["one", "two"]);
        insert(&mut store, pod("a", "one", "db"));
        assert_eq!(found(&store, "web"), ["two"]);
        assert_eq!(found(&store, "db"), ["one", "three"]);
        store.remove(&pod("a", "two", "").0);
        assert!(found(&store, "web").is_empty());
        assert_eq!(store.indexes[0].keys.len(), 1, "values without objects take no memory");
    }

    #[test]
    fn a_snapshot_stays_and_lists_by_namespace() {
        let mut store = Store::new();
        for (key, pod) in [pod("a", "one", "x"), pod("b", "two", "x"), pod("bb", "three", "x")] {
            store.insert(key, pod);
        }
        let snapshot = store.snapshot();
        store.remove(&pod("b", "two", "").0);
        assert_eq!(snapshot.iter_in("b").map(|pod| pod.name_any()).collect::<Vec<_>>(), ["two"]);
        assert_eq!((snapshot.len(), store.len()), (3, 2));
    }
}
