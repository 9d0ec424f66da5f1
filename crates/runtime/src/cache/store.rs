//! The objects of a cache and its indexes, without locks: a typed wrapper around [`Entries`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::entries::{Entries, Entry, Ordered, entries_in, typed};
use super::indexed::Indexed;
use crate::index::Index;
use crate::{Object, Request};

/// Objects of one type by key, with indexes that are updated with every change.
pub(crate) struct Store<K> {
    /// Holds objects of type `K` only.
    entries: Entries,
    kind: PhantomData<fn() -> K>,
}

/// All objects of a cache at one moment. A snapshot is cheap to take, and holding one does not block writers.
///
/// ```no_run
/// # fn read(pods: evenkeel_runtime::Cache<k8s_openapi::api::core::v1::Pod>) {
/// let now = pods.snapshot();
/// for pod in now.iter_in("prod") {
///     println!("{:?}", pod.metadata.name);
/// }
/// # }
/// ```
pub struct Snapshot<K> {
    objects: Ordered,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&self.objects.keys().collect::<Vec<_>>()).finish()
    }
}

impl<K: Object> Snapshot<K> {
    /// The object with this key. A snapshot is a tree, so that this takes logarithmic time;
    /// [`Cache::get`](super::Cache::get) takes constant time.
    pub fn get(&self, key: &Request) -> Option<&Arc<K>> {
        self.objects.get(key).map(typed)
    }

    /// All objects, ordered by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values().map(typed)
    }

    /// The objects of one namespace, ordered by name.
    pub fn iter_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        entries_in(&self.objects, namespace).map(|(_, entry)| typed(entry))
    }

    /// The keys of one namespace, ordered by name.
    pub(crate) fn keys_in(&self, namespace: &str) -> impl Iterator<Item = &Request> {
        entries_in(&self.objects, namespace).map(|(key, _)| key)
    }
}

impl<K> Snapshot<K> {
    /// All keys, ordered by namespace and name.
    pub fn keys(&self) -> impl Iterator<Item = &Request> {
        self.objects.keys()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether the snapshot has no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl<K: Object> Store<K> {
    pub(crate) fn new() -> Self {
        Self { entries: Entries::new(), kind: PhantomData }
    }

    pub(crate) fn get(&self, key: &Request) -> Option<&Arc<K>> {
        self.entries.get(key).map(typed)
    }

    /// Inserts an object. Returns its key and the object that was replaced.
    pub(crate) fn insert(&mut self, object: Arc<K>) -> (Request, Option<Arc<K>>) {
        let (key, old) = self.entries.insert(Arc::new(object));
        (key, old.as_ref().map(|old| typed::<K>(old).clone()))
    }

    pub(crate) fn remove(&mut self, key: &Request) -> Option<Arc<K>> {
        self.entries.remove(key).map(|old| typed::<K>(&old).clone())
    }

    /// Adds an index and fills it from the objects that are there. Does nothing if there is an index with this name.
    pub(crate) fn add_index(&mut self, index: &Index<K>) {
        if self.has_index(index.name()) {
            return;
        }
        let (name, index) = (index.name().into(), index.clone());
        self.entries.add_index(Indexed::new(name, Box::new(move |entry: &Entry| index.values(typed(entry)))));
    }

    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.entries.has_index(name)
    }

    pub(crate) fn index_names(&self) -> Vec<String> {
        self.entries.index_names()
    }

    /// The objects that have this value in an index. Returns `None` if there is no such index.
    pub(crate) fn by_index(&self, name: &str, value: &str) -> Option<Vec<Arc<K>>> {
        let found = self.entries.by_index(name, value)?;
        Some(found.into_iter().map(|entry| typed::<K>(entry).clone()).collect())
    }

    /// Counts the objects that have this value in an index. Returns `None` if there is no such index.
    pub(crate) fn count_by_index(&self, name: &str, value: &str) -> Option<usize> {
        self.entries.count_by_index(name, value)
    }

    pub(crate) fn snapshot(&self) -> Snapshot<K> {
        Snapshot { objects: self.entries.ordered(), kind: PhantomData }
    }

    /// All objects in order, for a reader that iterates once and needs no snapshot.
    pub(crate) fn sorted(&self) -> Vec<(Request, Arc<K>)> {
        self.entries.sorted().into_iter().map(|(key, entry)| (key, typed::<K>(&entry).clone())).collect()
    }

    /// About `count` objects, spread over the whole cache, in no particular order.
    #[cfg(feature = "metrics")]
    pub(crate) fn sample(&self, count: usize) -> impl Iterator<Item = &Arc<K>> {
        self.entries.sample(count).map(typed)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;

    use super::*;
    use crate::cache::entries::NAMESPACES_KEPT;

    fn pod(namespace: &str, name: &str, app: &str) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some(namespace.into());
        pod.metadata.name = Some(name.into());
        pod.labels_mut().insert("app".into(), app.into());
        Arc::new(pod)
    }

    #[test]
    fn an_index_follows_every_change() {
        let mut store = Store::new();
        let index = Index::by_label("app");
        store.insert(pod("a", "one", "web"));
        store.add_index(&index);
        store.insert(pod("a", "two", "web"));
        store.insert(pod("b", "three", "db"));
        let found = |store: &Store<Pod>, app| {
            store.by_index(index.name(), app).unwrap().iter().map(|pod| pod.name_any()).collect::<Vec<_>>()
        };
        assert_eq!(found(&store, "web"), ["one", "two"]);
        let counts = ["web", "none"].map(|value| store.count_by_index("evenkeel/label:app", value));
        assert_eq!((counts, store.count_by_index("other", "web")), ([Some(2), Some(0)], None));
        store.insert(pod("a", "one", "db"));
        assert_eq!(found(&store, "web"), ["two"]);
        assert_eq!(found(&store, "db"), ["one", "three"]);
        store.remove(&Request::namespaced("a", "two"));
        assert!(found(&store, "web").is_empty());
        assert_eq!(store.entries.indexes[0].len(), 1, "values without objects take no memory");
    }

    /// One object changes among very many: the function of an index is asked for that one, before and after.
    #[test]
    fn an_index_looks_at_the_object_that_changed_and_at_no_other() {
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = asked.clone();
        let mut store = Store::new();
        store.add_index(&Index::new("counted", move |pod: &Pod| {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            vec![pod.labels()["app"].clone()]
        }));
        let asked = move || asked.swap(0, std::sync::atomic::Ordering::SeqCst);
        for at in 0..1000 {
            store.insert(pod("a", &at.to_string(), "web"));
        }
        assert_eq!(asked(), 1000);
        store.insert(pod("a", "7", "db"));
        assert_eq!((asked(), store.by_index("counted", "web").unwrap().len()), (2, 999));
        store.remove(&Request::namespaced("a", "8"));
        assert_eq!((asked(), store.by_index("counted", "db").unwrap().len()), (1, 1));
        store.snapshot();
        assert_eq!(asked(), 0, "and who reads asks nothing");
    }

    #[test]
    fn a_snapshot_stays_and_lists_by_namespace() {
        let mut store = Store::new();
        for pod in [pod("a", "one", "x"), pod("b", "two", "x"), pod("bb", "three", "x")] {
            store.insert(pod);
        }
        let snapshot = store.snapshot();
        store.remove(&Request::namespaced("b", "two"));
        assert_eq!(snapshot.iter_in("b").map(|pod| pod.name_any()).collect::<Vec<_>>(), ["two"]);
        assert_eq!((snapshot.len(), store.len()), (3, 2));
        // The next one follows what changed since.
        store.insert(pod("a", "one", "y"));
        let later = store.snapshot();
        assert_eq!(later.keys().map(ToString::to_string).collect::<Vec<_>>(), ["a/one", "bb/three"]);
        let label = |snapshot: &Snapshot<Pod>| {
            snapshot.iter_in("a").map(|pod| pod.labels()["app"].clone()).collect::<Vec<_>>()
        };
        assert_eq!((label(&snapshot), label(&later)), (vec!["x".to_owned()], vec!["y".to_owned()]));
        assert!(later.get(&Request::namespaced("b", "two")).is_none() && later.iter_in("b").next().is_none());
    }

    /// An index function that returns a value twice, or changes its mind, does no harm to other objects.
    #[test]
    fn an_index_bears_with_its_function() {
        let changed = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mind = changed.clone();
        let mut store = Store::new();
        store.add_index(&Index::new("fickle", move |pod: &Pod| {
            let other = pod.name_any() == "two" && !mind.load(std::sync::atomic::Ordering::SeqCst);
            vec![if other { "b".to_owned() } else { "a".to_owned() }; 2]
        }));
        store.insert(pod("x", "one", "x"));
        store.insert(pod("x", "two", "x"));
        assert_eq!(
            (store.by_index("fickle", "a").unwrap().len(), store.by_index("fickle", "b").unwrap().len()),
            (1, 1)
        );
        changed.store(true, std::sync::atomic::Ordering::SeqCst);
        store.remove(&Request::namespaced("x", "two"));
        assert_eq!(store.by_index("fickle", "a").unwrap().len(), 1);
        assert!(store.by_index("fickle", "b").unwrap().is_empty(), "a key without an object is not found");
    }

    #[test]
    fn an_index_of_a_name_that_is_there_already_is_left_as_it_is() {
        let mut store = Store::new();
        store.add_index(&Index::new("same", |_: &Pod| vec!["first".into()]));
        store.add_index(&Index::new("same", |_: &Pod| vec!["second".into()]));
        store.insert(pod("a", "one", "x"));
        assert_eq!(store.by_index("same", "first").unwrap().len(), 1);
        assert!(store.by_index("same", "second").unwrap().is_empty() && store.entries.indexes.len() == 1);
    }

    /// Nothing may show the order of hashes, and both maps hold the same, whenever the second is asked for.
    #[test]
    fn iteration_is_by_namespace_and_name() {
        let mut store = Store::new();
        for at in 0..1000 {
            if at == 500 {
                assert!(store.sorted().is_sorted_by_key(|(key, _)| key.clone()));
                assert_eq!(store.snapshot().len(), 500);
            }
            let at = (at * 7919) % 1000;
            store.insert(pod(&format!("ns-{}", at % 7), &format!("{at:04}"), "x"));
        }
        let keys: Vec<Request> = store.snapshot().keys().cloned().collect();
        assert!(keys.is_sorted() && keys.len() == 1000);
        assert!(keys.iter().all(|key| store.get(key).is_some_and(|pod| Request::of(&**pod) == *key)));
    }

    #[test]
    fn keys_of_a_namespace_share_its_name_and_empty_namespaces_are_forgotten() {
        let mut store = Store::new();
        let (one, _) = store.insert(pod("a", "one", "x"));
        let (two, _) = store.insert(pod("a", "two", "x"));
        let (again, old) = store.insert(pod("a", "one", "y"));
        assert!(Arc::ptr_eq(one.namespace.as_ref().unwrap(), two.namespace.as_ref().unwrap()));
        assert!(Arc::ptr_eq(&one.name, &again.name) && old.is_some());
        for at in 0..10_000 {
            let (key, _) = store.insert(pod(&format!("passing-{at}"), "one", "x"));
            store.remove(&key);
        }
        assert!(store.entries.namespaces.len() <= 2 * NAMESPACES_KEPT, "{}", store.entries.namespaces.len());
    }

    /// Two hundred times as many objects: a read by key, and one by index that finds four, take about as long.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "how long reads take is what is measured")]
    fn reads_take_no_longer_where_there_are_very_many_objects() {
        let index = Index::by_label("app");
        let fastest = |count: usize| {
            let mut store = Store::new();
            store.add_index(&index);
            for at in 0..count {
                store.insert(pod("a", &at.to_string(), &(at / 4).to_string()));
            }
            let keys: Vec<Request> = (0..100).map(|at| Request::namespaced("a", at.to_string())).collect();
            let round = || {
                let start = std::time::Instant::now();
                let found: usize =
                    (0..25).map(|app| store.by_index(index.name(), &app.to_string()).unwrap().len()).sum();
                assert!(found == 100 && keys.iter().all(|key| store.get(key).is_some()));
                start.elapsed()
            };
            (0..20).map(|_| round()).min().unwrap()
        };
        let (few, many) = (fastest(100), fastest(20_000));
        assert!(many < 20 * few, "{few:?} among 100, {many:?} among 20,000");
    }
}
