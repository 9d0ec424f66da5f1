//! Reads of a context: from the caches, and from the server where the name says so.

use std::sync::Arc;
use std::time::Duration;

use super::Ctx;
use crate::cache::Cache;
use crate::error::ContextError;
use crate::{Object, Request};

/// How long a reconcile waits for its own writes to come back through the watch before it reads live. A watch that
/// works delivers within milliseconds; one that is being reconnected takes its first retry's time.
pub(crate) const CATCH_UP_MAX: Duration = Duration::from_secs(3);

impl<S> Ctx<S> {
    /// The object of this name from the cache: in the namespace of the request, if its kind lives in namespaces.
    pub fn get<K: Object<DynamicType: Default>>(&self, name: &str) -> Result<Option<Arc<K>>, ContextError> {
        let objects = self.of::<K>();
        objects.get(&objects.key(name))
    }

    /// The object of this key from the cache.
    pub fn get_at<K: Object<DynamicType: Default>>(
        &self,
        key: &Request,
    ) -> Result<Option<Arc<K>>, ContextError> {
        self.of::<K>().get(key)
    }

    /// All objects of a kind from the cache, by namespace and name.
    pub fn list<K: Object<DynamicType: Default>>(&self) -> Result<Vec<Arc<K>>, ContextError> {
        Ok(self.cache::<K>()?.list())
    }

    /// The objects of a kind in one namespace from the cache, by name.
    pub fn list_in<K: Object<DynamicType: Default>>(
        &self,
        namespace: &str,
    ) -> Result<Vec<Arc<K>>, ContextError> {
        Ok(self.cache::<K>()?.list_in(namespace))
    }

    /// The objects of a kind that the reconciled object owns, from the cache.
    pub fn children<K: Object<DynamicType: Default>>(&self) -> Result<Vec<Arc<K>>, ContextError> {
        self.of::<K>().children()
    }

    /// The cache of a kind that this controller declared.
    pub fn cache<K: Object<DynamicType: Default>>(&self) -> Result<Cache<K>, ContextError> {
        self.of::<K>().cache()
    }

    /// The object of this name from the server.
    pub async fn fetch<K: Object<DynamicType: Default>>(
        &self,
        name: &str,
    ) -> Result<Option<K>, ContextError> {
        let objects = self.of::<K>();
        objects.fetch(&objects.key(name)).await
    }

    /// The object of this key from the server.
    pub async fn fetch_at<K: Object<DynamicType: Default>>(
        &self,
        key: &Request,
    ) -> Result<Option<K>, ContextError> {
        self.of::<K>().fetch(key).await
    }

    /// Waits until the caches show all that this reconcile wrote, so that a list after it is complete. Says whether
    /// they do; a kind that is in no cache is not waited for.
    pub async fn caught_up(&self) -> bool {
        let writes = self.inner.writes.lock().clone();
        self.inner.scope.catch_up(&writes, CATCH_UP_MAX).await
    }
}
