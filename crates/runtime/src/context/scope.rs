//! What all reconciles of one controller share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_env::Env;
use kube::Client;
use kube::core::ApiResource;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Object;
use crate::flight::Sensitive;
use crate::informer::{AnyInformer, Informer, Informers};
use crate::own_writes::{Writes, Written};
use crate::rate_limit::RateLimit;
use crate::recorder::Recorder;

/// What all reconciles of one controller share: its client, caches, recorder and limits.
pub(crate) struct ControllerScope {
    pub(crate) name: Arc<str>,
    pub(crate) field_manager: Arc<str>,
    pub(crate) client: Client,
    pub(crate) env: Env,
    pub(crate) informers: Informers,
    /// The informers of the kinds that the controller declared, its primary kind first.
    pub(crate) declared: Vec<Arc<dyn AnyInformer>>,
    pub(crate) cancelled: CancellationToken,
    pub(crate) recorder: Recorder,
    /// Whether the flight recorder is on.
    pub(crate) records: bool,
    /// The fields whose values the flight recorder must not keep.
    pub(crate) sensitive: Arc<RwLock<Sensitive>>,
    pub(crate) write_limit: Option<Mutex<RateLimit>>,
    pub(crate) ids: Ids,
    /// The state of contexts that have none.
    pub(crate) no_state: Arc<()>,
}

/// Ids of reconciles: a random prefix for each start of a controller, then a count. The prefix is drawn whether or not
/// an id is read, so that the log level does not change the random numbers of a run.
pub(crate) struct Ids {
    prefix: String,
    next: AtomicU64,
}

impl Ids {
    pub(crate) fn new(env: &Env) -> Self {
        Self { prefix: env.suffix(8), next: AtomicU64::new(1) }
    }

    /// The common prefix of the ids of all reconciles.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl ControllerScope {
    /// Counts one more reconcile.
    pub(crate) fn next_number(&self) -> u64 {
        self.ids.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The id of the reconcile of this number.
    pub(crate) fn reconcile_id(&self, number: u64) -> String {
        format!("{}-{number}", self.ids.prefix)
    }

    /// The controller's primary kind, or an empty string if it has none.
    pub(crate) fn kind(&self) -> &str {
        self.declared.first().map_or("", |informer| &informer.key().resource.kind)
    }

    /// The informer of the controller's primary kind.
    pub(crate) fn primary<K: Object>(&self) -> Option<&Informer<K>> {
        self.declared.first()?.as_any().downcast_ref()
    }

    /// The declared informer of a kind; among several, the one with the widest scope.
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

    /// Waits until the controller's write limit permits one more write.
    pub(crate) async fn throttle(&self) {
        let Some(limit) = &self.write_limit else { return };
        let wait = limit.lock().take(Instant::now());
        tokio::time::sleep(wait).await;
    }

    /// Whether the caches that cover these writes show them.
    pub(crate) fn shows(&self, writes: &Writes) -> bool {
        writes.iter().all(|written| {
            let mut covering = self.declared.iter().filter(|informer| covers(informer.as_ref(), written));
            covering.all(|informer| informer.shows(written))
        })
    }

    /// Waits until the caches that cover these writes show them. Returns `false` if they do not in time.
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

/// Whether the informer is certain to see the object. An informer with selectors may not, and is not waited for.
fn covers(informer: &dyn AnyInformer, written: &Written) -> bool {
    let key = informer.key();
    let same_kind =
        key.resource.group == written.resource.group && key.resource.plural == written.resource.plural;
    let in_scope = key.namespaces.is_empty()
        || written.key.namespace().is_some_and(|namespace| key.namespaces.contains(namespace));
    same_kind && in_scope && key.labels.is_none() && key.fields.is_none()
}
