//! An informer of one resource whose type is erased.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::informer::{Informer, Informers, Subscription};
use evenkeel_runtime::{EventMeta, Object, Source};
use futures::future::BoxFuture;
use kube::core::{ApiResource, ObjectMeta};

use super::Metadata;
use crate::kinds;

/// The function that is called for every event.
pub(super) type Tell = Arc<dyn Fn(&EventMeta<'_>) + Send + Sync>;

/// Resolves when the first list of an informer is complete.
pub(super) type Syncing = BoxFuture<'static, ()>;

/// An informer without its type. The subscription ends when it is dropped.
pub(super) trait ErasedInformer: Send + Sync {
    /// Returns how many objects the namespace has.
    fn count_in(&self, namespace: &str) -> usize;

    /// Whether the first list is complete.
    fn has_synced(&self) -> bool;

    /// Waits until the first list is complete.
    fn synced(&self) -> Syncing;

    /// Returns the metadata of all objects.
    fn metadata(&self) -> Vec<ObjectMeta>;
}

struct TypedInformer<K: Object> {
    informer: Informer<K>,
    _subscription: Subscription,
}

impl<K: Object> ErasedInformer for TypedInformer<K> {
    fn count_in(&self, namespace: &str) -> usize {
        self.informer.cache().snapshot().iter_in(namespace).count()
    }

    fn has_synced(&self) -> bool {
        self.informer.has_synced()
    }

    fn synced(&self) -> Syncing {
        let informer = self.informer.clone();
        // The wait has no limit of its own and ends with the controller. Before the list is complete, there is nothing
        // to report.
        Box::pin(async move { drop(informer.wait_synced(Duration::MAX).await) })
    }

    fn metadata(&self) -> Vec<ObjectMeta> {
        self.informer.cache().snapshot().iter().map(|object| object.meta().clone()).collect()
    }
}

/// Subscribes to a resource, through the informer of other controllers if one exists.
pub(super) fn watch(informers: &Informers, api: &ApiResource, tell: Tell) -> Box<dyn ErasedInformer> {
    // Kinds that other controllers watch as whole objects share those informers. All other kinds are watched as
    // metadata, so that whole objects are not decoded for nothing.
    let watched = kinds::WATCHED
        .iter()
        .find(|kind| api.plural == kind.plural && api.group == kind.group && api.version == kind.version);
    match watched {
        Some(kind) => subscribe(informers, kind.source(), tell),
        None => subscribe(informers, Source::<Metadata>::of(api.clone()), tell),
    }
}

fn subscribe<K: Object>(informers: &Informers, source: Source<K>, tell: Tell) -> Box<dyn ErasedInformer> {
    let informer = informers.get(source);
    let subscription = informer.subscribe(move |event| tell(&event.meta()));
    Box::new(TypedInformer { informer, _subscription: subscription })
}
