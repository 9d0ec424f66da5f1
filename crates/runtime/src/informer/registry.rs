//! The informers of one manager: equal sources share one watch.

use std::any::{Any, TypeId};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use evenkeel_env::{Env, HashMap, Station};
use evenkeel_record::Watch;
use futures::future::{BoxFuture, join_all};
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::reflector::Reflector;
use super::shared::{Shared, Transform};
use super::{Handle, Informer, SyncError};
use crate::Object;
use crate::object::{Scoping, scoping};
use crate::resource_use::ResourceUse;
use crate::source::{Source, SourceKey};

/// The name of the ledger station for parts that sleep until a resource is used.
const ASLEEP: &str = "waking up";

/// Makes informers and shares them. Clones share one set of informers.
///
/// ```no_run
/// # async fn example(client: kube::Client) {
/// use evenkeel_runtime::{Env, Informers, Source};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let informers = Informers::new(client, Env::system());
/// informers.strip_managed_fields();
/// informers.transform(|pod: &mut Pod| pod.status = None);
/// let pods = informers.get(Source::<Pod>::new());
/// let same = informers.get(Source::<Pod>::new());
/// assert_eq!(informers.len(), 1);
/// # }
/// ```
#[derive(Clone)]
pub struct Informers {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    env: Env,
    /// Weak references, so that a watch ends with the last clone of its informer.
    live: Mutex<HashMap<SourceKey, Live>>,
    /// Transforms by the Rust type of their objects; the values are `Transform<K>`.
    transforms: Mutex<HashMap<TypeId, Box<dyn Any + Send + Sync>>>,
    keep_managed_fields: Mutex<bool>,
    /// The namespaces to watch for sources that name none; empty for all namespaces.
    namespaces: Mutex<BTreeSet<String>>,
    /// Whether lists are streamed, if the server can.
    streams: Mutex<bool>,
    /// Which resources of the server are in use, if that is known. Watches of unused resources sleep.
    uses: OnceLock<ResourceUse>,
    /// The ledger station at which sleeping parts enter the work of waking up.
    asleep: Station,
}

/// An informer that may still be in use: with its type erased, and as a trait object.
struct Live {
    handle: Weak<dyn Any + Send + Sync>,
    shared: Weak<dyn Listed>,
}

/// Statistics of one watch.
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "metrics show the numbers"))]
pub(crate) struct Stats {
    pub(crate) source: String,
    pub(crate) objects: usize,
    pub(crate) restarts: u64,
    pub(crate) synced: bool,
    /// The estimated size of the cache; zero in statistics without sizes.
    pub(crate) bytes: usize,
}

/// What [`Informers`] needs of each informer, whatever its type.
pub(super) trait Listed: Send + Sync {
    fn wait_synced(&self, timeout: Duration) -> BoxFuture<'_, Result<(), SyncError>>;

    fn stats(&self) -> Stats;

    /// The watch in the form of a record.
    fn watch(&self) -> Watch;

    /// Statistics with the size of the cache, which costs the serialization of a few objects.
    #[cfg(feature = "metrics")]
    fn stats_with_size(&self) -> Stats;
}

impl Informers {
    /// Informers that watch with this client.
    pub fn new(client: Client, env: Env) -> Self {
        let inner = Inner {
            client,
            uses: OnceLock::new(),
            asleep: env.ledger().station(ASLEEP),
            env,
            live: Mutex::default(),
            transforms: Mutex::default(),
            keep_managed_fields: Mutex::new(true),
            namespaces: Mutex::default(),
            streams: Mutex::new(true),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Informers with the same settings and another environment. No watch is carried over.
    pub(crate) fn with_env(&self, env: Env) -> Self {
        let inner = Inner {
            client: self.inner.client.clone(),
            uses: self.inner.uses.clone(),
            asleep: env.ledger().station(ASLEEP),
            env,
            live: Mutex::default(),
            transforms: Mutex::new(std::mem::take(&mut *self.inner.transforms.lock())),
            keep_managed_fields: Mutex::new(*self.inner.keep_managed_fields.lock()),
            namespaces: Mutex::new(self.default_namespaces()),
            streams: Mutex::new(*self.inner.streams.lock()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Changes objects of type `K` before they are stored, in informers that start later: to drop fields that are not
    /// needed and save memory.
    pub fn transform<K: Object>(&self, transform: impl Fn(&mut K) + Send + Sync + 'static) {
        let transform: Transform<K> = Arc::new(transform);
        self.inner.transforms.lock().insert(TypeId::of::<K>(), Box::new(transform));
    }

    /// Drops `metadata.managedFields` of every object before it is stored, in informers that start later.
    pub fn strip_managed_fields(&self) {
        *self.inner.keep_managed_fields.lock() = false;
    }

    /// Watches only these namespaces, in informers that start later and whose source names none.
    pub(crate) fn namespaces(&self, namespaces: BTreeSet<String>) {
        *self.inner.namespaces.lock() = namespaces;
    }

    pub(crate) fn default_namespaces(&self) -> BTreeSet<String> {
        self.inner.namespaces.lock().clone()
    }

    /// Lists in pages instead of streaming the list as the beginning of the watch, in informers that start later. By
    /// default, pages are the fallback for servers that do not stream lists.
    pub fn list_in_pages(&self) {
        *self.inner.streams.lock() = false;
    }

    /// Makes watches that start later sleep until their resources are used. Only the first call has an effect.
    pub(crate) fn let_sleep(&self, uses: ResourceUse) {
        let _ = self.inner.uses.set(uses);
    }

    /// Which resources of the server are in use, if that is known; see
    /// [`Manager::resource_use`](crate::Manager::resource_use).
    pub fn uses(&self) -> Option<&ResourceUse> {
        self.inner.uses.get()
    }

    /// The ledger station at which sleeping parts enter the work of waking up.
    pub(crate) fn asleep(&self) -> &Station {
        &self.inner.asleep
    }

    /// The informer of this source. Starts its watch if there is none. Must be called within a tokio runtime.
    pub fn get<K: Object>(&self, mut source: Source<K>) -> Informer<K> {
        if source.key.namespaces.is_empty() && scoping::<K>() == Scoping::Namespaced {
            source.key.namespaces = self.default_namespaces();
        }
        let mut live = self.inner.live.lock();
        let found = live.get(&source.key).and_then(|live| live.handle.upgrade());
        if let Some(handle) = found.and_then(|any| any.downcast::<Handle<K>>().ok()) {
            let informer = Informer { handle };
            source.indexes.into_iter().for_each(|index| informer.add_index(index));
            return informer;
        }
        live.retain(|_, live| live.handle.strong_count() > 0);
        let key = source.key.clone();
        let handle = Arc::new(self.start(source));
        let any: Arc<dyn Any + Send + Sync> = handle.clone();
        let shared: Arc<dyn Listed> = handle.shared.clone();
        live.insert(key, Live { handle: Arc::downgrade(&any), shared: Arc::downgrade(&shared) });
        Informer { handle }
    }

    /// The number of running watches.
    pub fn len(&self) -> usize {
        self.inner.live.lock().values().filter(|live| live.handle.strong_count() > 0).count()
    }

    /// Whether no watch is running.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first lists of all informers are complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.stats().iter().all(|watch| watch.synced)
    }

    /// Waits for the first lists of the informers that are in use now.
    pub(crate) async fn wait_synced(&self, timeout: Duration) -> Result<(), SyncError> {
        let held: Vec<_> = {
            let live = self.inner.live.lock();
            // Holding the informers keeps their watches alive until they are synced.
            live.values().filter_map(|live| Some((live.handle.upgrade()?, live.shared.upgrade()?))).collect()
        };
        let waits = held.iter().map(|(_, shared)| shared.wait_synced(timeout));
        join_all(waits).await.into_iter().collect()
    }

    /// Statistics of every watch, ordered by source.
    pub(crate) fn stats(&self) -> Vec<Stats> {
        self.stats_by(|watch| watch.stats())
    }

    /// Returns a function that returns the informers as long as another owner keeps them alive.
    pub(crate) fn downgrade(&self) -> impl Fn() -> Option<Self> + Send + Sync + 'static {
        let inner = Arc::downgrade(&self.inner);
        move || inner.upgrade().map(|inner| Self { inner })
    }

    /// Describes every watch for the flight recorder, ordered by source.
    pub(crate) fn watches(&self) -> Vec<Watch> {
        let live = self.inner.live.lock();
        let watches: Vec<_> = live.values().filter_map(|live| live.shared.upgrade()).collect();
        drop(live);
        let mut described: Vec<Watch> = watches.iter().map(|watch| watch.watch()).collect();
        described.sort_by(|a, b| a.source.cmp(&b.source));
        described
    }

    /// Statistics of every watch with the sizes of the caches, ordered by source.
    #[cfg(feature = "metrics")]
    pub(crate) fn stats_with_sizes(&self) -> Vec<Stats> {
        self.stats_by(|watch| watch.stats_with_size())
    }

    fn stats_by(&self, of: impl Fn(&dyn Listed) -> Stats) -> Vec<Stats> {
        let live = self.inner.live.lock();
        let watches: Vec<_> = live.values().filter_map(|live| live.shared.upgrade()).collect();
        drop(live);
        let mut stats: Vec<Stats> = watches.iter().map(|watch| of(&**watch)).collect();
        stats.sort_by(|a, b| a.source.cmp(&b.source));
        stats
    }

    /// The client that the informers watch with.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The environment of the informers: clock, randomness and ledger.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    fn start<K: Object>(&self, source: Source<K>) -> Handle<K> {
        let mut scopes: Vec<Option<String>> = source.key.namespaces.iter().cloned().map(Some).collect();
        if scopes.is_empty() {
            scopes.push(None);
        }
        let shared = Arc::new(Shared::new(source, scopes.len(), self.transform_of::<K>()));
        let mut reflectors = JoinSet::new();
        let streams = *self.inner.streams.lock();
        for scope in scopes.into_iter().enumerate() {
            let (client, env) = (self.inner.client.clone(), self.inner.env.clone());
            let asleep =
                self.uses().and_then(|uses| uses.sleep_of_watch(shared.source.resource(), self.asleep()));
            let reflector = Reflector::new(shared.clone(), scope, streams, client, env, asleep);
            reflectors.spawn(reflector.run());
        }
        Handle { shared, _reflectors: reflectors }
    }

    fn transform_of<K: Object>(&self) -> Option<Transform<K>> {
        let transforms = self.inner.transforms.lock();
        let own = transforms.get(&TypeId::of::<K>()).and_then(|any| any.downcast_ref::<Transform<K>>());
        let own = own.cloned();
        if *self.inner.keep_managed_fields.lock() {
            return own;
        }
        Some(Arc::new(move |object: &mut K| {
            object.meta_mut().managed_fields = None;
            if let Some(own) = &own {
                own(object);
            }
        }))
    }
}

impl fmt::Debug for Informers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informers").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// A process may start and end watches for as long as it lives.
    #[tokio::test(start_paused = true)]
    async fn what_nobody_holds_any_more_takes_no_memory() {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        let informers = Informers::new(Client::new(service, "default"), Env::seeded(1));
        let held = informers.get(Source::<ConfigMap>::new());
        for at in 0..100 {
            drop(informers.get(Source::<ConfigMap>::new().namespace(at.to_string())));
        }
        assert_eq!(informers.len(), 1);
        assert!(informers.inner.live.lock().len() <= 2);
        drop(held);
    }
}
