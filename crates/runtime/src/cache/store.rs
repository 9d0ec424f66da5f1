//! The objects of a cache and its indexes, without locks.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use evenkeel_env::{HashMap, HashSet};
use imbl::OrdMap;

use super::indexed::Indexed;
use crate::index::Index;
use crate::request::KeyParts;
use crate::{Object, Request};

/// How many interned namespace names are kept before the unused ones are searched for and dropped.
const NAMESPACES_KEPT: usize = 64;

/// Objects by key, with indexes that every change updates.
///
/// A read by key is one lookup in the hash map. Iteration uses the ordered map, which is persistent: a snapshot costs
/// nothing, and the order of hashes never shows. The ordered map is built when the first snapshot is taken and updated
/// with every change from then on; many controllers read by key and by index only, and never pay for it.
#[derive(Debug)]
pub(crate) struct Store<K> {
    by_key: HashMap<Request, Arc<K>>,
    /// The objects of `by_key` in order; built by the first snapshot.
    ordered: OnceLock<OrdMap<Request, Arc<K>>>,
    indexes: Vec<Indexed<K>>,
    /// One allocation for each namespace, shared by the keys of all its objects.
    namespaces: HashSet<Arc<str>>,
    /// The length of `namespaces` at which unused names are dropped.
    namespaces_limit: usize,
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
#[derive(Clone, Debug)]
pub struct Snapshot<K> {
    objects: OrdMap<Request, Arc<K>>,
}

impl<K> Snapshot<K> {
    /// The object with this key. A snapshot is a tree, so that this takes logarithmic time;
    /// [`Cache::get`](super::Cache::get) takes constant time.
    pub fn get(&self, key: &Request) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// All objects, ordered by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// All keys, ordered by namespace and name.
    pub fn keys(&self) -> impl Iterator<Item = &Request> {
        self.objects.keys()
    }

    /// The objects of one namespace, ordered by name.
    pub fn iter_in(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        self.entries_in(namespace).map(|(_, object)| object)
    }

    /// The keys and objects of one namespace, ordered by name.
    pub(crate) fn entries_in(&self, namespace: &str) -> impl Iterator<Item = (&Request, &Arc<K>)> {
        let namespace: Arc<str> = namespace.into();
        let first = Request { namespace: Some(namespace.clone()), name: "".into() };
        let range = self.objects.range((Bound::Included(first), Bound::Unbounded));
        range.take_while(move |(key, _)| key.namespace.as_ref() == Some(&namespace))
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
        Self {
            by_key: HashMap::default(),
            ordered: OnceLock::new(),
            indexes: Vec::new(),
            namespaces: HashSet::default(),
            namespaces_limit: NAMESPACES_KEPT,
        }
    }

    pub(crate) fn get(&self, key: &Request) -> Option<&Arc<K>> {
        self.by_key.get(key)
    }

    /// Inserts an object. Returns its key and the object that was replaced.
    pub(crate) fn insert(&mut self, object: Arc<K>) -> (Request, Option<Arc<K>>) {
        let meta = object.meta();
        let parts = (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
        let known = self.by_key.get_key_value(&parts as &dyn KeyParts);
        let key = match known {
            Some((key, _)) => key.clone(),
            None => self.new_key(parts.0, parts.1),
        };
        let old = self.by_key.insert(key.clone(), object.clone());
        if let Some(ordered) = self.ordered.get_mut() {
            ordered.insert(key.clone(), object.clone());
        }
        for indexed in &mut self.indexes {
            indexed.update(&key, old.as_deref(), Some(&object));
        }
        (key, old)
    }

    pub(crate) fn remove(&mut self, key: &Request) -> Option<Arc<K>> {
        let old = self.by_key.remove(key)?;
        if let Some(ordered) = self.ordered.get_mut() {
            ordered.remove(key);
        }
        for indexed in &mut self.indexes {
            indexed.update(key, Some(&old), None);
        }
        Some(old)
    }

    /// Adds an index and fills it from the objects that are there. Does nothing if there is an index with this name.
    pub(crate) fn add_index(&mut self, index: &Index<K>) {
        if self.has_index(index.name()) {
            return;
        }
        let mut indexed = Indexed::new(index.clone());
        for (key, object) in &self.sorted() {
            indexed.update(key, None, Some(object));
        }
        self.indexes.push(indexed);
    }

    pub(crate) fn has_index(&self, name: &str) -> bool {
        self.indexes.iter().any(|indexed| indexed.name() == name)
    }

    pub(crate) fn index_names(&self) -> Vec<String> {
        self.indexes.iter().map(|indexed| indexed.name().to_owned()).collect()
    }

    /// The objects that have this value in an index. Returns `None` if there is no such index.
    pub(crate) fn by_index(&self, name: &str, value: &str) -> Option<Vec<Arc<K>>> {
        let indexed = self.indexes.iter().find(|indexed| indexed.name() == name)?;
        Some(indexed.keys(value).filter_map(|key| self.by_key.get(key).cloned()).collect())
    }

    pub(crate) fn snapshot(&self) -> Snapshot<K> {
        let ordered = self.ordered.get_or_init(|| self.sorted().into_iter().collect());
        Snapshot { objects: ordered.clone() }
    }

    /// All objects in order, for a reader that iterates once and needs no snapshot.
    pub(crate) fn sorted(&self) -> Vec<(Request, Arc<K>)> {
        let entries = |(key, object): (&Request, &Arc<K>)| (key.clone(), object.clone());
        if let Some(ordered) = self.ordered.get() {
            return ordered.iter().map(entries).collect();
        }
        let mut all: Vec<_> = self.by_key.iter().map(entries).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        all
    }

    /// About `count` objects, spread over the whole cache, in no particular order.
    #[cfg(feature = "metrics")]
    pub(crate) fn sample(&self, count: usize) -> impl Iterator<Item = &Arc<K>> {
        self.by_key.values().step_by(self.by_key.len().div_ceil(count).max(1))
    }

    pub(crate) fn len(&self) -> usize {
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
            // A name that only this set references belongs to no key.
            self.namespaces.retain(|namespace| Arc::strong_count(namespace) > 1);
            self.namespaces_limit = NAMESPACES_KEPT.max(2 * self.namespaces.len());
        }
        let namespace: Arc<str> = namespace.into();
        self.namespaces.insert(namespace.clone());
        namespace
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;

    use super::*;

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
        store.insert(pod("a", "one", "db"));
        assert_eq!(found(&store, "web"), ["two"]);
        assert_eq!(found(&store, "db"), ["one", "three"]);
        store.remove(&Request::namespaced("a", "two"));
        assert!(found(&store, "web").is_empty());
        assert_eq!(store.indexes[0].len(), 1, "values without objects take no memory");
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

    /// A function that says the same twice, or another time something else, does no harm to other objects.
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
        assert!(store.by_index("same", "second").unwrap().is_empty() && store.indexes.len() == 1);
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
        assert!(store.namespaces.len() <= 2 * NAMESPACES_KEPT, "{}", store.namespaces.len());
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
