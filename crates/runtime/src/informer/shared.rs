//! The state that an informer's reflectors, readers and subscribers share.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_record::{Watch, WatchState};
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::SyncError;
use super::progress::Progress;
use super::registry::{Listed, Stats};
use super::waiting::{Waiting, is_shown};
use crate::cache::Store;
use crate::event::{Event, Origin};
use crate::flight::error_text;
use crate::own_writes::{Expected, Written};
use crate::source::Source;
use crate::{Object, Request};

/// Receives the events of an informer.
pub(crate) trait Listener<K>: Send + Sync {
    /// Takes one event and the key of its object. The key shares its allocations with the cache.
    fn event(&self, event: &Event<K>, key: &Request);

    /// Acts on the events since the last call: there are no more for now.
    fn rest(&self) {}
}

/// A listener that calls a function for each event at once.
pub(super) struct Each<F>(pub(super) F);

impl<K, F: Fn(&Event<K>) + Send + Sync> Listener<K> for Each<F> {
    fn event(&self, event: &Event<K>, _: &Request) {
        (self.0)(event);
    }
}

/// How many events a listener takes at most before it acts on them.
const EVENTS_BEFORE_REST: usize = 1024;

pub(super) type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

pub(super) struct Shared<K: Object> {
    pub(super) source: Source<K>,
    pub(super) store: Arc<RwLock<Store<K>>>,
    /// Locked while an event is stored and sent, so that a new subscriber sees each object exactly once.
    audience: Mutex<Audience<K>>,
    pub(super) progress: Progress,
    /// For each reflector, the resource version up to which it has seen everything; in the order of the source's
    /// namespaces.
    observed: Box<[AtomicU64]>,
    pub(super) transform: Option<Transform<K>>,
    /// How many times a watch was opened again.
    pub(super) restarts: AtomicU64,
}

/// The subscribers, and those who wait for a write.
pub(super) struct Audience<K> {
    listeners: Vec<(u64, Arc<dyn Listener<K>>)>,
    next_id: u64,
    waiting: Waiting,
}

/// A subscription to the events of an informer. Dropping it ends the subscription.
///
/// ```no_run
/// # fn example(pods: evenkeel_runtime::Informer<k8s_openapi::api::core::v1::Pod>) {
/// use evenkeel_runtime::Subscription;
///
/// let subscription: Subscription = pods.subscribe(|event| println!("{}", event.change()));
/// drop(subscription); // nothing is told from here on
/// # }
/// ```
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    cancel: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

impl<K: Object> Shared<K> {
    pub(super) fn new(source: Source<K>, reflectors: usize, transform: Option<Transform<K>>) -> Self {
        let mut store = Store::new();
        source.indexes.iter().for_each(|index| store.add_index(index));
        let audience = Audience { listeners: Vec::new(), next_id: 0, waiting: Waiting::default() };
        Self {
            source,
            store: Arc::new(RwLock::new(store)),
            audience: Mutex::new(audience),
            progress: Progress::new(reflectors),
            observed: (0..reflectors).map(|_| AtomicU64::new(0)).collect(),
            transform,
            restarts: AtomicU64::new(0),
        }
    }

    pub(super) fn subscribe(this: &Arc<Self>, listener: Arc<dyn Listener<K>>) -> Subscription {
        let mut audience = this.audience.lock();
        let all = this.store.read().sorted();
        let created = |new| Event::Created { new, origin: Origin::List };
        tell_all(&*listener, all.into_iter().map(|(key, object)| (created(object), key)));
        let id = audience.next_id;
        audience.next_id += 1;
        audience.listeners.push((id, listener));
        let weak: Weak<Self> = Arc::downgrade(this);
        let cancel = move || {
            if let Some(shared) = weak.upgrade() {
                shared.audience.lock().listeners.retain(|(other, _)| *other != id);
            }
        };
        Subscription { cancel: Some(Box::new(cancel)) }
    }

    /// Locks the audience. Nothing changes in the cache while the lock is held.
    pub(super) fn audience(&self) -> MutexGuard<'_, Audience<K>> {
        self.audience.lock()
    }

    /// Stores an object in the cache and sends the event that follows.
    pub(super) fn put(&self, audience: &mut Audience<K>, mut object: K, origin: Origin) -> Request {
        if let Some(transform) = &self.transform {
            transform(&mut object);
        }
        let new = Arc::new(object);
        let (key, old) = self.store.write().insert(new.clone());
        audience.waiting.changed(&key, Some(new.meta()));
        match old {
            None => audience.tell(&Event::Created { new, origin }, &key),
            Some(old) if old.meta().uid != new.meta().uid => {
                // The watch missed that the object was deleted and another one was created with its name.
                audience.tell(&Event::Deleted { old, origin }, &key);
                audience.tell(&Event::Created { new, origin }, &key);
            }
            Some(old) if old.meta().resource_version == new.meta().resource_version => {}
            Some(old) => audience.tell(&Event::Updated { old, new, origin }, &key),
        }
        key
    }

    /// Removes an object from the cache and sends the event; `last` is the object as the server sent it, if it did.
    pub(super) fn remove(&self, audience: &mut Audience<K>, key: &Request, last: Option<K>, origin: Origin) {
        let Some(cached) = self.store.write().remove(key) else { return };
        let old = last.map_or(cached, |mut last| {
            if let Some(transform) = &self.transform {
                transform(&mut last);
            }
            Arc::new(last)
        });
        audience.waiting.changed(key, None);
        audience.tell(&Event::Deleted { old, origin }, key);
    }

    /// Sends every object in the cache to one listener, as resynced.
    pub(super) fn replay(&self, listener: &dyn Listener<K>) {
        let all = self.store.read().sorted();
        let reminder =
            |object: Arc<K>| Event::Updated { old: object.clone(), new: object, origin: Origin::Resync };
        tell_all(listener, all.into_iter().map(|(key, object)| (reminder(object), key)));
    }

    /// Notes that the reflector with this number has seen everything up to this version.
    pub(super) fn observe(&self, scope: usize, version: &str) {
        let Ok(version) = version.parse::<u64>() else { return };
        if self.observed[scope].fetch_max(version, Ordering::AcqRel) < version {
            self.audience.lock().waiting.passed(scope, version);
        }
    }

    /// The number of the reflector that sees this key.
    fn scope_of(&self, key: &Request) -> usize {
        let before = |namespace: &String| Some(namespace.as_str()) < key.namespace();
        let scope = self.source.key.namespaces.iter().take_while(|namespace| before(namespace)).count();
        scope.min(self.observed.len() - 1)
    }

    pub(super) async fn wait_synced(&self, timeout: Duration) -> Result<(), SyncError> {
        if tokio::time::timeout(timeout, self.progress.wait()).await.is_ok() {
            return Ok(());
        }
        let cause = self.progress.last_error();
        let cause = cause.as_deref().unwrap_or("the server has not answered the list").to_owned();
        Err(SyncError { source_name: self.source.to_string(), timeout, cause })
    }

    pub(super) async fn wait_written(&self, written: &Written, within: Duration) -> bool {
        let told = {
            // The lock keeps events out between the check and the registration.
            let mut audience = self.audience.lock();
            if self.shows(written) {
                return true;
            }
            audience.waiting.enter(self.scope_of(&written.key), written)
        };
        tokio::time::timeout(within, told).await.is_ok_and(|told| told.is_ok())
    }

    /// Whether the cache shows a write, or something newer.
    pub(super) fn shows(&self, written: &Written) -> bool {
        let observed = || self.observed[self.scope_of(&written.key)].load(Ordering::Acquire);
        if let (Expected::Version(_), Some(version)) = (&written.expected, written.version_number())
            && observed() >= version
        {
            return true;
        }
        let store = self.store.read();
        is_shown(written, store.get(&written.key).map(|object| object.meta()))
    }
}

impl<K: Object> Listed for Shared<K> {
    fn wait_synced(&self, timeout: Duration) -> BoxFuture<'_, Result<(), SyncError>> {
        Box::pin(self.wait_synced(timeout))
    }

    fn stats(&self) -> Stats {
        Stats {
            source: self.source.to_string(),
            objects: self.store.read().len(),
            restarts: self.restarts.load(Ordering::Relaxed),
            synced: self.progress.is_synced(),
            bytes: 0,
        }
    }

    fn watch(&self) -> Watch {
        let (lists, heard) = self.progress.so_far();
        let error = self.progress.last_error();
        let state = match (&error, self.progress.is_synced()) {
            (Some(_), _) => WatchState::Failing,
            (None, true) => WatchState::Synced,
            (None, false) => WatchState::Starting,
        };
        let silent = heard.and_then(|heard| u64::try_from(heard.elapsed().as_micros()).ok());
        Watch {
            source: self.source.to_string(),
            operator: String::new(),
            state,
            objects: self.store.read().len(),
            restarts: self.restarts.load(Ordering::Relaxed),
            lists,
            revision: self.observed.iter().map(|seen| seen.load(Ordering::Relaxed)).max().unwrap_or_default(),
            silent,
            error: error.map(|error| error_text(&error).into()),
        }
    }

    #[cfg(feature = "metrics")]
    fn stats_with_size(&self) -> Stats {
        Stats { bytes: self.estimated_bytes(), ..self.stats() }
    }
}

impl<K> Audience<K> {
    fn tell(&self, event: &Event<K>, key: &Request) {
        for (_, listener) in &self.listeners {
            listener.event(event, key);
        }
    }

    /// Tells all listeners that there are no more events for now.
    pub(super) fn rest(&self) {
        self.listeners.iter().for_each(|(_, listener)| listener.rest());
    }
}

/// Sends many events to one listener, which acts on them every [`EVENTS_BEFORE_REST`] events.
fn tell_all<K>(listener: &dyn Listener<K>, events: impl Iterator<Item = (Event<K>, Request)>) {
    for (at, (event, key)) in events.enumerate() {
        listener.event(&event, &key);
        if at % EVENTS_BEFORE_REST == EVENTS_BEFORE_REST - 1 {
            listener.rest();
        }
    }
    listener.rest();
}
