//! Wakes a task when one of a few named objects changes.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::{Deadline, Env, Station, Work};
use kube::Client;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::informer::{Informer, Informers, Subscription};
use crate::source::Source;

/// Only metadata is watched: the task needs only to know of a change, and no Secret's data gets into a cache.
type Metadata = PartialObjectMeta<DynamicObject>;

/// Watches objects by name, and wakes its task when one of them is created, changed or deleted.
pub(crate) struct Wake {
    informers: Informers,
    told: Arc<Told>,
    /// Set while the task waits to retry after a failure.
    retry: Deadline,
    watches: Vec<(Informer<Metadata>, Subscription)>,
}

struct Told {
    station: Station,
    /// Pending work, held from a change until the task has handled it.
    work: Mutex<Option<Work>>,
    notify: Notify,
}

/// How long a task waits for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Until a retry after a failure, which counts as pending work.
    Retry(Duration),
    /// Until the next check of what is in order.
    Look(Duration),
}

impl Wake {
    /// Makes a value that watches nothing yet. The first check of the task counts as pending work from now on.
    pub(crate) fn new(client: Client, env: &Env, what: &str) -> Self {
        let station = env.ledger().station(what);
        let work = Mutex::new(Some(station.enter()));
        Self {
            informers: Informers::new(client, env.clone()),
            told: Arc::new(Told { station, work, notify: Notify::new() }),
            retry: env.ledger().deadline(format!("{what}: retry")),
            watches: Vec::new(),
        }
    }

    /// Also watches this object.
    pub(crate) fn watch(&mut self, resource: &ApiResource, namespace: Option<&str>, name: &str) {
        let source = Source::<Metadata>::of(resource.clone()).fields(format!("metadata.name={name}"));
        let source = match namespace {
            Some(namespace) => source.namespace(namespace),
            None => source,
        };
        let informer = self.informers.get(source);
        let told = self.told.clone();
        let subscription = informer.subscribe(move |_| {
            told.work.lock().get_or_insert_with(|| told.station.enter());
            told.notify.notify_one();
        });
        self.watches.push((informer, subscription));
    }

    /// Takes the pending work of the changes so far. The task holds it while it handles them.
    pub(crate) fn take(&self) -> Option<Work> {
        self.told.work.lock().take()
    }

    /// Waits for a change, or for the end of the pause. Returns `false` if the task is told to stop.
    pub(crate) async fn changed(&self, pause: Pause, stop: &CancellationToken) -> bool {
        let wait = match pause {
            Pause::Retry(wait) | Pause::Look(wait) => wait,
        };
        let end = Instant::now() + wait;
        self.retry.set(matches!(pause, Pause::Retry(_)).then_some(end));
        let go_on = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.told.notify.notified() => true,
            () = tokio::time::sleep_until(end) => {
                self.told.work.lock().get_or_insert_with(|| self.told.station.enter());
                true
            }
        };
        self.retry.set(None);
        go_on
    }
}
