//! The cache of one watch: objects by key, and their indexes.
//!
//! Readers get `Arc`s. A read by key takes the same time however many objects there are, a read by index as long as
//! it finds objects, and [`Cache::snapshot`] copies a persistent map in constant time, once it was made for the first
//! of them: a writer waits for a lookup at most, never for somebody who goes through everything.

mod indexed;
mod store;

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

pub use store::Snapshot;
pub(crate) use store::Store;

use crate::{ContextError, Object, Request};

/// A reader of a cache. Cloning shares it.
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

    /// The object of this key, where it is known.
    pub fn get(&self, key: &Request) -> Option<Arc<K>> {
        self.store.read().get(key).cloned()
    }

    /// All objects, by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.snapshot().iter().cloned().collect()
    }

    /// The objects of one namespace, by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.snapshot().iter_in(namespace).cloned().collect()
    }

    /// The objects that have this value in the index of this name, by key. An index that nobody declared is an error.
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Arc<K>>, ContextError> {
        let store = self.store.read();
        let found = store.by_index(index, value);
        found.ok_or_else(|| ContextError::UndeclaredIndex { index: index.into(), kept: store.index_names() })
    }

    /// The objects that name this uid as an owner; needs [`Index::by_owner`](crate::Index::by_owner), which `owns`
    /// declares.
    pub fn owned_by(&self, uid: &str) -> Result<Vec<Arc<K>>, ContextError> {
        self.by_index(crate::index::BY_OWNER, uid)
    }

    /// Whether the cache keeps an index of this name.
    pub fn has_index(&self, index: &str) -> bool {
        self.store.read().has_index(index)
    }

    /// Everything as it is now; later changes do not show in it.
    pub fn snapshot(&self) -> Snapshot<K> {
        self.store.read().snapshot()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.store.read().len()
    }

    /// Whether there are none.
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
