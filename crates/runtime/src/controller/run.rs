//! The life of a controller: connect, sync, work, stop.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::{Env, HashMap};
use futures::future::{FutureExt, join_all};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::outcome::{Failure, Outcome};
use super::site::Site;
use super::wiring::{Wired, Wiring, connect};
use super::{Controller, Options, Reconcile};
use crate::context::CATCH_UP_MAX;
use crate::context::{Context, Writes};
use crate::informer::{Informers, SyncError};
use crate::queue::{Item, Queue};
use crate::recorder::Recorder;
use crate::tasks::Tasks;
use crate::trigger::Trigger;
use crate::{Object, Request};

/// What a manager gives to its controllers.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) informers: Informers,
    pub(crate) recorder: Recorder,
    pub(crate) tasks: Tasks,
    /// No new work after this.
    pub(crate) stop: CancellationToken,
}

/// Runs a controller until the host stops it; running reconciles are then waited for.
///
/// `started` is let go when its workers run: until then the start itself is pending work.
pub(crate) async fn run<K: Object>(
    controller: Controller<K>,
    host: Host,
    started: evenkeel_env::Work,
) -> Result<(), SyncError> {
    let env = host.informers.env().clone();
    let queue = Queue::with_backoff(&controller.name, &env, controller.options.backoff.clone());
    let Controller { name, primary, primary_filter, watches, feeds, reconcile, options, .. } = controller;
    let primary_informer = primary.clone().map(|source| host.informers.get(source));
    let mut wired = Vec::new();
    if let Some(informer) = &primary_informer {
        let trigger = match primary_filter {
            Some(filter) => Trigger::same().filter(filter),
            None => Trigger::same(),
        };
        wired.push(connect(informer.clone(), trigger, &queue));
    }
    let wiring = Wiring { informers: &host.informers, queue: &queue, primary, primary_informer };
    wired.extend(watches.into_iter().map(|wire| wire(&wiring)));
    drop(wiring);
    sync(&wired, options.sync_timeout).await?;

    let recorder = host.recorder.named(name.clone());
    let site = Arc::new(Site {
        field_manager: options.field_manager.clone().unwrap_or_else(|| name.clone()),
        name,
        client: host.informers.client().clone(),
        env: env.clone(),
        informers: host.informers.clone(),
        declared: wired.iter().map(|wired| wired.informer.clone()).collect(),
        cancelled: host.stop.clone(),
        recorder,
    });
    let mut feeding: Vec<_> = feeds.into_iter().map(|feed| host.tasks.spawn(feed(queue.clone()))).collect();
    if let Some(period) = options.sync_period {
        feeding.push(host.tasks.spawn(resync(wired, period, env)));
    }
    let worker =
        Arc::new(Worker { site, queue: queue.clone(), reconcile, options, writes: Mutex::default() });
    let workers = (0..worker.options.max_concurrent).map(|_| host.tasks.spawn(worker.clone().work()));
    let workers: Vec<_> = workers.collect();
    drop(started);
    host.stop.cancelled().await;
    queue.shut_down();
    join_all(workers).await;
    drop(feeding);
    Ok(())
}

/// Waits for all caches of a controller at once.
async fn sync(wired: &[Wired], timeout: Duration) -> Result<(), SyncError> {
    let waits = wired.iter().map(|wired| wired.informer.wait_synced(timeout));
    join_all(waits).await.into_iter().collect()
}

/// Replays the caches for ever, each time after the period, give or take a tenth. Upkeep: not in the ledger.
async fn resync(wired: Vec<Wired>, period: Duration, env: Env) {
    loop {
        tokio::time::sleep(period.mul_f64(0.9 + 0.2 * env.random_fraction())).await;
        wired.iter().filter_map(|wired| wired.replay.as_ref()).for_each(|replay| replay());
    }
}

/// Takes keys from the queue and reconciles them. One value serves all workers of a controller.
struct Worker {
    site: Arc<Site>,
    queue: Queue,
    reconcile: Reconcile<()>,
    options: Options,
    /// What the last reconcile of a key wrote, until its next one has seen it in the caches.
    writes: Mutex<HashMap<Request, Writes>>,
}

impl Worker {
    async fn work(self: Arc<Self>) {
        while let Some(item) = self.queue.get().await {
            let span = tracing::info_span!(
                "reconcile",
                controller = %self.site.name,
                object = %item.key,
                id = tracing::field::Empty,
            );
            self.process(item).instrument(span).await;
        }
    }

    async fn process(&self, item: Item) {
        let key = item.key.clone();
        let behind = !self.caught_up(&key).await;
        let start = Instant::now();
        let ctx = Context::new(self.site.clone(), key.clone(), item.causes.clone(), item.requeues, behind);
        tracing::Span::current().record("id", ctx.reconcile_id());
        let outcome = self.attempt(ctx.clone()).await;
        let writes = ctx.take_writes();
        if !writes.is_empty() {
            self.writes.lock().insert(key.clone(), writes);
        }
        outcome.report(&item, start.elapsed());
        outcome.settle(&self.queue, &item);
        self.queue.done(&key);
    }

    /// Waits until the caches show what the last reconcile of this key wrote.
    async fn caught_up(&self, key: &Request) -> bool {
        let writes = self.writes.lock().remove(key);
        match writes {
            Some(writes) => self.site.catch_up(&writes, CATCH_UP_MAX).await,
            None => true,
        }
    }

    /// Calls the reconcile; a panic or a timeout is a failure like any other.
    async fn attempt(&self, ctx: Context) -> Outcome {
        let reconcile = self.reconcile.clone();
        let caught = AssertUnwindSafe(async move { reconcile(ctx).await }).catch_unwind();
        let result = match self.options.timeout {
            None => Ok(caught.await),
            Some(timeout) => tokio::time::timeout(timeout, caught).await.map_err(|_| timeout),
        };
        match result {
            Ok(Ok(Ok(action))) => Outcome::Done(action),
            Ok(Ok(Err(error))) => Outcome::Failed(Failure::Error(error)),
            Ok(Err(panic)) => Outcome::Failed(Failure::Panic(panic_text(&*panic))),
            Err(timeout) => Outcome::Failed(Failure::Timeout(timeout)),
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)").to_owned()
}
