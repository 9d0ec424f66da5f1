//! What an informer's reflectors, readers and subscribers share.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::SyncError;
use super::registry::{HasStats, Stats};
use crate::cache::Store;
use crate::context::Written;
use crate::event::{Event, Origin};
use crate::source::Source;
use crate::{Object, Request};

pub(super) type Handler<K> = Arc<dyn Fn(&Event<K>) + Send + Sync>;
pub(super) type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

pub(super) struct Shared<K: Object> {
    pub(super) source: Source<K>,
    pub(super) store: Arc<RwLock<Store<K>>>,
    /// Held while an event is stored and handed on, so that a new subscriber sees each object exactly once.
    subscribers: Mutex<Subscribers<K>>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) transform: Option<Transform<K>>,
    /// How many times a watch was opened after the first.
    pub(super) restarts: AtomicU64,
}

struct Subscribers<K> {
    handlers: Vec<(u64, Handler<K>)>,
    next_id: u64,
}

/// How far the watches of an informer have come.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// Reflectors that have not finished their first list.
    pub(super) unsynced: usize,
    /// The highest resource version seen, over all reflectors of this source.
    pub(super) observed: u64,
    /// Counts applied events, so that waiters without comparable versions look again.
    pub(super) events: u64,
    /// What the last attempt failed with.
    pub(super) last_error: Option<Arc<str>>,
}

impl Progress {
    pub(super) fn is_synced(&self) -> bool {
        self.unsynced == 0
    }
}

/// Receives the events of an informer until it is dropped.
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
        let progress = Progress { unsynced: reflectors, observed: 0, events: 0, last_error: None };
        Self {
            source,
            store: Arc::new(RwLock::new(store)),
            subscribers: Mutex::new(Subscribers { handlers: Vec::new(), next_id: 0 }),
            progress: watch::Sender::new(progress),
            transform,
            restarts: AtomicU64::new(0),
        }
    }

    pub(super) fn subscribe(this: &Arc<Self>, handler: Handler<K>) -> Subscription {
        let mut subscribers = this.subscribers.lock();
        let snapshot = this.store.read().snapshot();
        for object in snapshot.iter() {
            handler(&Event::Created { new: object.clone(), origin: Origin::List });
        }
        let id = subscribers.next_id;
        subscribers.next_id += 1;
        subscribers.handlers.push((id, handler));
        let weak: Weak<Self> = Arc::downgrade(this);
        let cancel = move || {
            if let Some(shared) = weak.upgrade() {
                shared.subscribers.lock().handlers.retain(|(other, _)| *other != id);
            }
        };
        Subscription { cancel: Some(Box::new(cancel)) }
    }

    /// Puts an object in the cache and tells the subscribers what that changed.
    pub(super) fn put(&self, mut object: K, origin: Origin) -> Request {
        if let Some(transform) = &self.transform {
            transform(&mut object);
        }
        let key = Request::of(&object);
        let new = Arc::new(object);
        let subscribers = self.subscribers.lock();
        let old = self.store.write().insert(key.clone(), new.clone());
        match old {
            None => subscribers.tell(&Event::Created { new, origin }),
            Some(old) if old.meta().uid != new.meta().uid => {
                // The watch missed that the name was given to another object.
                subscribers.tell(&Event::Deleted { old, origin });
                subscribers.tell(&Event::Created { new, origin });
            }
            Some(old) if old.meta().resource_version == new.meta().resource_version => {}
            Some(old) => subscribers.tell(&Event::Updated { old, new, origin }),
        }
        key
    }

    /// Takes an object out of the cache and tells the subscribers, with the last form where the server sent one.
    pub(super) fn remove(&self, key: &Request, last: Option<K>, origin: Origin) {
        let subscribers = self.subscribers.lock();
        let Some(cached) = self.store.write().remove(key) else { return };
        let old = last.map_or(cached, |mut last| {
            if let Some(transform) = &self.transform {
                transform(&mut last);
            }
            Arc::new(last)
        });
        subscribers.tell(&Event::Deleted { old, origin });
    }

    /// Replays the cache to one handler, as nothing but a reminder.
    pub(super) fn replay(&self, handler: &(dyn Fn(&Event<K>) + Send + Sync)) {
        let snapshot = self.store.read().snapshot();
        for object in snapshot.iter() {
            handler(&Event::Updated { old: object.clone(), new: object.clone(), origin: Origin::Resync });
        }
    }

    /// Notes that everything up to this version was applied.
    pub(super) fn observe(&self, version: Option<&str>) {
        let version = version.and_then(|version| version.parse::<u64>().ok()).unwrap_or(0);
        self.progress.send_modify(|progress| {
            progress.observed = progress.observed.max(version);
            progress.events += 1;
        });
    }

    pub(super) async fn wait_synced(&self, timeout: Duration) -> Result<(), SyncError> {
        let mut progress = self.progress.subscribe();
        let synced = progress.wait_for(Progress::is_synced);
        let result = tokio::time::timeout(timeout, synced).await;
        if matches!(result, Ok(Ok(_))) {
            return Ok(());
        }
        let cause = self.progress.borrow().last_error.clone();
        let cause = cause.as_deref().unwrap_or("the server has not answered the list").to_owned();
        Err(SyncError { source_name: self.source.to_string(), timeout, cause })
    }

    pub(super) async fn wait_written(&self, written: &Written, within: Duration) -> bool {
        let mut progress = self.progress.subscribe();
        let shown = progress.wait_for(|progress| self.shows(written, progress.observed));
        tokio::time::timeout(within, shown).await.is_ok_and(|result| result.is_ok())
    }

    /// Whether the cache is at least as new as a write.
    fn shows(&self, written: &Written, observed: u64) -> bool {
        let store = self.store.read();
        let cached = store.get(&written.key);
        let cached_meta = cached.map(|object| object.meta());
        if written.deleted {
            // Gone, replaced, or marked: in each case the cache knows of the deletion.
            return cached_meta
                .is_none_or(|meta| meta.uid != written.uid || meta.deletion_timestamp.is_some());
        }
        match written.version_number() {
            Some(version) if observed >= version => true,
            Some(version) => cached_meta
                .and_then(|meta| meta.resource_version.as_ref()?.parse::<u64>().ok())
                .is_some_and(|cached| cached >= version),
            // Versions that are no numbers can only be compared for equality.
            None => cached_meta.is_some_and(|meta| meta.resource_version == written.version),
        }
    }
}

impl<K: Object> HasStats for Shared<K> {
    fn stats(&self) -> Stats {
        Stats {
            source: self.source.to_string(),
            objects: self.store.read().len(),
            restarts: self.restarts.load(Ordering::Relaxed),
            synced: self.progress.borrow().is_synced(),
            bytes: 0,
        }
    }

    fn stats_with_size(&self) -> Stats {
        Stats { bytes: self.estimated_bytes(), ..self.stats() }
    }
}

/// How many objects stand for all when the size of a cache is estimated.
const SIZE_SAMPLE: usize = 32;

impl<K: Object> Shared<K> {
    /// The size of all objects as JSON, from that of a few which are spread over the cache.
    fn estimated_bytes(&self) -> usize {
        let snapshot = self.store.read().snapshot();
        let step = snapshot.len().div_ceil(SIZE_SAMPLE).max(1);
        let sizes = snapshot.iter().step_by(step).map(|object| {
            let mut size = Size(0);
            // Counting cannot fail; an object that cannot be written counts as nothing.
            let _ = serde_json::to_writer(&mut size, &**object);
            size.0
        });
        let (sampled, bytes) = sizes.fold((0, 0), |(sampled, bytes), size| (sampled + 1, bytes + size));
        (bytes * snapshot.len()).checked_div(sampled).unwrap_or(0)
    }
}

/// Counts what is written to it.
struct Size(usize);

impl std::io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<K> Subscribers<K> {
    fn tell(&self, event: &Event<K>) {
        for (_, handler) in &self.handlers {
            handler(event);
        }
    }
}
