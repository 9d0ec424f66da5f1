//! Informers: one list-then-watch for each source, feeding a cache and its subscribers.
//!
//! [`Informers`] shares them: equal [`Source`]s get the same watch and the same cache. An informer lives as long as
//! something holds a clone of it, so that watches can start and end at run time.
//!
//! Events go to subscribers synchronously, in the order of the watch: a key that a subscriber enqueues is in the ledger
//! before the event's own work ends. Events that arrive together are applied together, and their keys are queued
//! together. A worker that takes the first of these keys may find the cache ahead of it, as it may at any time.

mod batch;
mod progress;
mod reflector;
mod registry;
mod shared;
#[cfg(feature = "metrics")]
mod size;
mod waiting;

pub use registry::Informers;
pub(crate) use shared::Listener;
pub use shared::Subscription;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::task::JoinSet;

use crate::cache::Cache;
use crate::event::Event;
use crate::own_writes::Written;
use crate::source::{Source, SourceKey};
use crate::{Object, Request};
use shared::{Each, Shared};

/// A watch of one source, with its cache. Clones share the watch, which ends with the last of them.
///
/// ```no_run
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use evenkeel_runtime::{Env, Informers, Source};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let informers = Informers::new(client, Env::system());
/// let pods = informers.get(Source::<Pod>::new().namespace("prod"));
/// let _subscription = pods.subscribe(|event| println!("{} {:?}", event.change(), event.object().metadata.name));
/// pods.wait_synced(Duration::from_secs(120)).await?;
/// println!("{} pods", pods.cache().len());
/// # Ok(())
/// # }
/// ```
pub struct Informer<K: Object> {
    handle: Arc<Handle<K>>,
}

/// The part of an informer that its last clone drops.
struct Handle<K: Object> {
    shared: Arc<Shared<K>>,
    /// The tasks that list and watch, one for each namespace of the source. Dropping the set ends them.
    _reflectors: JoinSet<()>,
}

/// A cache did not fill in time.
///
/// ```no_run
/// # async fn example(pods: evenkeel_runtime::Informer<k8s_openapi::api::core::v1::Pod>) {
/// use std::time::Duration;
///
/// if let Err(error) = pods.wait_synced(Duration::from_secs(5)).await {
///     // "sync the cache of Pod within 5s: list: pods is forbidden: …"
///     eprintln!("{error} ({})", error.cause);
/// }
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("sync the cache of {source_name} within {timeout:?}: {cause}")]
#[non_exhaustive]
pub struct SyncError {
    /// The description of the source.
    pub source_name: String,
    /// How long the caller waited.
    pub timeout: Duration,
    /// The error of the last attempt to list or watch.
    pub cause: String,
}

impl<K: Object> Informer<K> {
    /// The cache that this informer fills.
    pub fn cache(&self) -> Cache<K> {
        Cache::new(self.handle.shared.store.clone())
    }

    /// The object with this key from the cache.
    pub(crate) fn get(&self, key: &Request) -> Option<Arc<K>> {
        self.handle.shared.store.read().get(key).cloned()
    }

    /// Calls `handler` for every object in the cache, as created, and then for every later event, until the subscription
    /// is dropped.
    ///
    /// The handler is called on the task of the watch and must return quickly. It must not subscribe to the same informer.
    pub fn subscribe(&self, handler: impl Fn(&Event<K>) + Send + Sync + 'static) -> Subscription {
        Shared::subscribe(&self.handle.shared, Arc::new(Each(handler)))
    }

    /// Subscribes a listener that acts on several events at once.
    pub(crate) fn subscribe_listener(&self, listener: Arc<dyn Listener<K>>) -> Subscription {
        Shared::subscribe(&self.handle.shared, listener)
    }

    /// Whether the first list is complete and its watch established.
    pub fn has_synced(&self) -> bool {
        self.handle.shared.progress.is_synced()
    }

    /// Waits for [`Informer::has_synced`]. The error names the source and the error of the last attempt.
    pub async fn wait_synced(&self, timeout: Duration) -> Result<(), SyncError> {
        self.handle.shared.wait_synced(timeout).await
    }

    /// Calls `handler` for every object in the cache, as resynced, though nothing changed.
    pub fn replay(&self, handler: &(dyn Fn(&Event<K>) + Send + Sync)) {
        self.handle.shared.replay(&Each(handler));
    }

    /// Subscribes a listener that acts on several events at once.
    pub(crate) fn replay_to(&self, listener: &dyn Listener<K>) {
        self.handle.shared.replay(listener);
    }

    /// What it watches.
    pub fn source(&self) -> &Source<K> {
        &self.handle.shared.source
    }

    /// Keeps one more index in the cache.
    pub fn add_index(&self, index: crate::Index<K>) {
        self.handle.shared.store.write().add_index(&index);
    }
}

impl<K: Object> Clone for Informer<K> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<K: Object> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Informer({}, {} objects)", self.source(), self.cache().len())
    }
}

/// An informer with its type erased, so that informers of several kinds can be kept together.
pub(crate) trait AnyInformer: Send + Sync {
    fn key(&self) -> &SourceKey;
    fn as_any(&self) -> &dyn Any;
    fn wait_synced(&self, timeout: Duration) -> BoxFuture<'_, Result<(), SyncError>>;
    /// Whether the cache shows a write.
    fn shows(&self, written: &Written) -> bool;
    /// Waits until the cache shows a write; says whether it did within the bound.
    fn wait_written<'a>(&'a self, written: &'a Written, within: Duration) -> BoxFuture<'a, bool>;
}

impl<K: Object> AnyInformer for Informer<K> {
    fn key(&self) -> &SourceKey {
        &self.handle.shared.source.key
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn wait_synced(&self, timeout: Duration) -> BoxFuture<'_, Result<(), SyncError>> {
        Box::pin(self.handle.shared.wait_synced(timeout))
    }

    fn shows(&self, written: &Written) -> bool {
        self.handle.shared.shows(written)
    }

    fn wait_written<'a>(&'a self, written: &'a Written, within: Duration) -> BoxFuture<'a, bool> {
        Box::pin(self.handle.shared.wait_written(written, within))
    }
}
