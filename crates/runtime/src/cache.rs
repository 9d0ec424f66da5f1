//! The cache of one watch: objects by key, and their indexes.
//!
//! Readers get `Arc`s. A read by key takes constant time, a read by index takes time in proportion to the objects that
//! it finds, and [`Cache::snapshot`] copies a persistent map in constant time, after the first snapshot has built that
//! map. A writer waits for a single lookup at most, never for a reader that iterates over the whole cache.

mod entries;
mod indexed;
mod store;

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

pub use store::Snapshot;
pub(crate) use store::Store;

use crate::{ContextError, Object, Request};

/// A handle to read a cache. Clones read the same cache.
///
/// ```no_run
/// # fn read(pods: evenkeel_runtime::Cache<k8s_openapi::api::core::v1::Pod>) -> Result<(), evenkeel_runtime::ContextError> {
/// use evenkeel_runtime::Request;
///
/// let web = pods.get(&Request::namespaced("prod", "web"));
/// let all = pods.list();
/// let owned = pods.owned_by("8e3f…")?;
/// # Ok(())
/// # }
/// ```
pub struct Cache<K> {
    store: Arc<RwLock<Store<K>>>,
}

impl<K: Object> Cache<K> {
    pub(crate) fn new(store: Arc<RwLock<Store<K>>>) -> Self {
        Self { store }
    }

    /// The object with this key, if the cache has it.
    pub fn get(&self, key: &Request) -> Option<Arc<K>> {
        self.store.read().get(key).cloned()
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.snapshot().iter().cloned().collect()
    }

    /// The objects of one namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.snapshot().iter_in(namespace).cloned().collect()
    }

    /// The objects that have this value in the index with this name, ordered by key. An index that was not declared is
    /// an error.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<K>>, ContextError> {
        let store = self.store.read();
        let found = store.by_index(index, value);
        found.ok_or_else(|| ContextError::UndeclaredIndex { index: index.into(), kept: store.index_names() })
    }

    /// Counts the objects that have this value in the index with this name. Takes constant time.
    pub fn count_by_index(&self, index: &str, value: &str) -> Result<usize, ContextError> {
        let store = self.store.read();
        let count = store.count_by_index(index, value);
        count.ok_or_else(|| ContextError::UndeclaredIndex { index: index.into(), kept: store.index_names() })
    }

    /// Counts the objects that have an owner reference to this uid. Takes constant time. Needs
    /// [`Index::by_owner`](crate::Index::by_owner), which `Controller::owns` declares.
    pub fn count_owned_by(&self, uid: &str) -> Result<usize, ContextError> {
        self.count_by_index(crate::index::BY_OWNER, uid)
    }

    /// The objects with an owner reference to this uid. Needs [`Index::by_owner`](crate::Index::by_owner), which
    /// `Controller::owns` declares.
    pub fn owned_by(&self, uid: &str) -> Result<Vec<Arc<K>>, ContextError> {
        self.by_index(crate::index::BY_OWNER, uid)
    }

    /// Whether the cache has an index with this name.
    pub fn has_index(&self, index: &str) -> bool {
        self.store.read().has_index(index)
    }

    /// All objects as they are now. Later changes do not show in the snapshot.
    pub fn snapshot(&self) -> Snapshot<K> {
        self.store.read().snapshot()
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.store.read().len()
    }

    /// Whether the cache has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone() }
    }
}

impl<K: Object> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("len", &self.len()).finish_non_exhaustive()
    }
}
