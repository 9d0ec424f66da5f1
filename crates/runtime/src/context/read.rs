//! Reads of a context: from the caches, or from the server by methods with `fetch` in their name.

use std::sync::Arc;
use std::time::Duration;

use super::Ctx;
use crate::cache::Cache;
use crate::error::ContextError;
use crate::kinds::Reads;
use crate::{Object, Request};

/// How long a key waits until the caches show its own writes, before its object is read from the server. A healthy watch
/// delivers within milliseconds; a watch that reconnects needs the delay of its first retry.
pub(crate) const CATCH_UP_MAX: Duration = Duration::from_secs(3);

impl<S, D> Ctx<S, D> {
    /// Reads the object with this name from the cache: in the namespace of the request, or without one for a
    /// cluster-scoped kind.
    pub fn get<K: Object<DynamicType: Default>>(&self, name: &str) -> Result<Option<Arc<K>>, ContextError>
    where
        D: Reads<K>,
    {
        let objects = self.of::<K>();
        objects.get(&objects.key(name))
    }

    /// Reads the object with this key from the cache.
    pub fn get_at<K: Object<DynamicType: Default>>(
        &self,
        key: &Request,
    ) -> Result<Option<Arc<K>>, ContextError>
    where
        D: Reads<K>,
    {
        self.of::<K>().get(key)
    }

    /// Lists all objects of a kind from the cache, ordered by namespace and name.
    pub fn list<K: Object<DynamicType: Default>>(&self) -> Result<Vec<Arc<K>>, ContextError>
    where
        D: Reads<K>,
    {
        Ok(self.cache::<K>()?.list())
    }

    /// Lists the objects of a kind in one namespace from the cache, ordered by name.
    pub fn list_in<K: Object<DynamicType: Default>>(
        &self,
        namespace: &str,
    ) -> Result<Vec<Arc<K>>, ContextError>
    where
        D: Reads<K>,
    {
        Ok(self.cache::<K>()?.list_in(namespace))
    }

    /// Lists the objects of a kind with an owner reference to the reconciled object, from the cache.
    pub fn children<K: Object<DynamicType: Default>>(&self) -> Result<Vec<Arc<K>>, ContextError>
    where
        D: Reads<K>,
    {
        self.of::<K>().children()
    }

    /// The cache of a kind, if the controller declared one.
    pub fn cache<K: Object<DynamicType: Default>>(&self) -> Result<Cache<K>, ContextError>
    where
        D: Reads<K>,
    {
        self.of::<K>().cache()
    }

    /// Reads the object with this name from the server. Returns `None` if there is no such object.
    pub async fn fetch<K: Object<DynamicType: Default>>(
        &self,
        name: &str,
    ) -> Result<Option<K>, ContextError> {
        let objects = self.of::<K>();
        objects.fetch(&objects.key(name)).await
    }

    /// Reads the object with this key from the server. Returns `None` if there is no such object.
    pub async fn fetch_at<K: Object<DynamicType: Default>>(
        &self,
        key: &Request,
    ) -> Result<Option<K>, ContextError> {
        self.of::<K>().fetch(key).await
    }

    /// Waits until the caches show all writes of this reconcile, so that a list after it is complete. Returns `false` if
    /// they do not in time. Writes of kinds that are in no cache are not waited for.
    pub async fn caught_up(&self) -> bool {
        let writes = self.inner.tally.lock().writes.clone();
        self.inner.scope.catch_up(&writes, CATCH_UP_MAX).await
    }
}
