//! What all reconciles of a controller share.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::Env;
use kube::Client;
use kube::core::ApiResource;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Object;
use crate::bucket::Bucket;
use crate::context::{Writes, Written};
use crate::informer::{AnyInformer, Informer, Informers};
use crate::recorder::Recorder;

/// The place where a controller's reconciles happen.
pub(crate) struct Site {
    pub(crate) name: Arc<str>,
    pub(crate) field_manager: Arc<str>,
    pub(crate) client: Client,
    pub(crate) env: Env,
    pub(crate) informers: Informers,
    /// What the controller declared, its primary kind first.
    pub(crate) declared: Vec<Arc<dyn AnyInformer>>,
    pub(crate) cancelled: CancellationToken,
    pub(crate) recorder: Recorder,
    pub(crate) write_limit: Option<Mutex<Bucket>>,
}

impl Site {
    /// The declared informer of a kind; the one that sees most, where there are several.
    pub(crate) fn informer<K: Object>(&self, resource: &ApiResource) -> Option<Informer<K>> {
        let typed = |any: &Arc<dyn AnyInformer>| any.as_any().downcast_ref::<Informer<K>>().cloned();
        let same = self.declared.iter().filter(|informer| informer.key().resource == *resource);
        let mut found: Vec<Informer<K>> = same.filter_map(typed).collect();
        found.sort_by_key(|informer| {
            let key = &informer.source().key;
            (key.labels.is_some() || key.fields.is_some(), !key.namespaces.is_empty())
        });
        found.into_iter().next()
    }

    /// Waits for this controller's turn to write.
    pub(crate) async fn throttle(&self) {
        let Some(bucket) = &self.write_limit else { return };
        let wait = bucket.lock().take(Instant::now());
        tokio::time::sleep(wait).await;
    }

    /// Waits until the caches that cover these writes show them; says whether they do.
    pub(crate) async fn catch_up(&self, writes: &Writes, within: Duration) -> bool {
        let end = Instant::now() + within;
        for written in writes.iter() {
            for informer in self.declared.iter().filter(|informer| covers(informer.as_ref(), written)) {
                let left = end.saturating_duration_since(Instant::now());
                if !informer.wait_written(written, left).await {
                    return false;
                }
            }
        }
        true
    }
}

/// Whether the informer is sure to see the object. One with selectors may not, and is not waited for.
fn covers(informer: &dyn AnyInformer, written: &Written) -> bool {
    let key = informer.key();
    let same_kind =
        key.resource.group == written.resource.group && key.resource.plural == written.resource.plural;
    let in_scope = key.namespaces.is_empty()
        || written.key.namespace().is_some_and(|namespace| key.namespaces.contains(namespace));
    same_kind && in_scope && key.labels.is_none() && key.fields.is_none()
}
