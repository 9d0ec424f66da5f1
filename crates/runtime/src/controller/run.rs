//! The life of a controller: starts its watches, waits for its caches and the lease, works, stops.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_env::{Env, Footprint, HashMap, Purpose, Turns, Work};
use futures::future::{FutureExt, join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::outcome::{Failure, Outcome, later_look};
use super::wiring::{Connected, Consumer, EventFilter, Feed, Wire, Wired, Wiring, watched};
use super::{Controller, ErasedReconcile, Options};
use crate::context::{CATCH_UP_MAX, ControllerScope, Ctx, Ids};
use crate::error::{BoxError, panic_text};
use crate::flight::{self, Flight, Flown, Ring};
use crate::informer::{AnyInformer, Informers, SyncError};
use crate::metrics::{ControllerMetrics, Metrics};
use crate::observe::{Observers, Stage};
use crate::own_writes::Writes;
use crate::queue::{Item, Queue};
use crate::rate_limit::RateLimit;
use crate::recorder::Recorder;
use crate::source::Source;
use crate::tasks::Tasks;
use crate::trigger::Trigger;
use crate::{Object, Predicate, Request};

/// What a manager provides to its controllers.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) informers: Informers,
    /// The client of reconciles, which respects the fence of the leader election.
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) metrics: Metrics,
    pub(crate) flight: Flight,
    pub(crate) observers: Observers,
    pub(crate) tasks: Tasks,
    /// Cancelled when no new work may start.
    pub(crate) stop: CancellationToken,
    /// Cancelled once the caches that were in use when the manager started are filled.
    pub(crate) filled: CancellationToken,
    /// Cancelled once the runnables that run always have started too.
    pub(crate) begun: CancellationToken,
    /// Cancelled once this process leads; from the start if there is no leader election.
    pub(crate) elected: CancellationToken,
    /// Has one receiver for each part that waits for the lease. When this process becomes the leader, the election
    /// counts as pending work until all receivers are dropped; by then, each part holds pending work of its own.
    pub(crate) standby: watch::Sender<()>,
    /// Whether later looks count as unfinished work; see [`Manager::later_looks_are_work`](crate::Manager::later_looks_are_work).
    pub(crate) later_looks_are_work: bool,
}

/// Runs a controller until the host stops it, then waits for running reconciles.
///
/// `started` is dropped when the workers run: until then, the start itself is pending work.
pub(crate) async fn run<K: Object>(
    controller: Controller<K>,
    host: Host,
    started: Work,
) -> Result<(), BoxError> {
    let Controller {
        name, primary, primary_filter, watches, feeds, event_filter, reconcile, options, ..
    } = controller.watching_listed()?;
    let wired = watch(&host.informers, primary, primary_filter, watches);
    run_wired(Wanted { name, feeds, event_filter, reconcile, options }, wired, host, started).await
}

/// A controller whose watches have started, without the type of its primary kind.
struct Wanted {
    name: Arc<str>,
    feeds: Vec<Feed>,
    event_filter: EventFilter,
    reconcile: ErasedReconcile<()>,
    options: Options,
}

/// Runs a controller whose watches have started. The compiler makes this function once, not for each primary kind.
async fn run_wired(wanted: Wanted, wired: Vec<Wired>, host: Host, started: Work) -> Result<(), BoxError> {
    let Wanted { name, feeds, event_filter, reconcile, options } = wanted;
    let ready = async {
        sync(&wired, options.sync_timeout).await?;
        host.begun.cancelled().await;
        Ok::<_, SyncError>(())
    };
    tokio::select! {
        biased;
        // A stop does not wait for caches, which may never fill.
        () = host.stop.cancelled() => return Ok(()),
        ready = ready => ready?,
    }
    // A standby keeps its caches up to date, which is not pending work.
    let standing_by = host.standby.subscribe();
    let started = host.elected.is_cancelled().then_some(started);
    tokio::select! {
        biased;
        () = host.stop.cancelled() => return Ok(()),
        () = host.elected.cancelled() => {}
    }

    let env = host.informers.env().clone();
    let queue = Queue::with_backoff(&name, &env, options.backoff.clone());
    let declared = wired.iter().map(|wired| wired.informer.clone()).collect();
    let scope = Arc::new(scope(name, &options, &host, declared));
    let connects = wired.into_iter().filter_map(|wired| wired.connect);
    let consumer = Consumer { controller: &scope.name, queue: &queue, filter: &event_filter };
    let connected: Vec<_> = connects.map(|connect| connect(consumer)).collect();
    let feeds = feeds.into_iter().map(|feed| feed(queue.clone(), event_filter.clone()));
    let feeding = feeds.map(|feed| host.tasks.spawn(feed)).collect();
    let resyncing = host.tasks.spawn(resync(connected, options.sync_period, env));
    let metrics = host.metrics.controller(scope.name.clone(), queue.clone(), options.max_concurrent);
    let own_writes = Mutex::default();
    let rings =
        host.flight.rings(&scope.name, scope.kind(), scope.ids.prefix(), options.max_concurrent, &queue);
    let turns = scope.env.ledger().turns(format!("reconciles by {}", scope.name));
    let (tasks, observers) = (host.tasks.clone(), host.observers.clone());
    let worker = Arc::new(Worker {
        scope,
        queue: queue.clone(),
        reconcile,
        options,
        metrics,
        tasks,
        observers,
        own_writes,
        turns,
        later_looks_are_work: host.later_looks_are_work,
    });
    let task = format!("{} worker", worker.scope.name);
    let workers = rings.into_iter().map(|ring| host.tasks.spawn_named(&task, worker.clone().work(ring)));
    let workers = workers.collect();
    drop((started, standing_by));
    Working { queue, feeding, resyncing, workers }.until(&host.stop).await
}

/// The tasks of a working controller.
struct Working {
    queue: Queue,
    feeding: Vec<JoinHandle<()>>,
    resyncing: JoinHandle<()>,
    workers: Vec<JoinHandle<()>>,
}

impl Working {
    /// Works until it is told to stop, then waits for running reconciles. A task that panics is a fatal error: without the
    /// task the controller would seem alive and miss events.
    async fn until(mut self, stop: &CancellationToken) -> Result<(), BoxError> {
        let all = self.feeding.iter_mut().chain(&mut self.workers).chain([&mut self.resyncing]);
        let panicked = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            panic = first_panic(all) => Some(panic),
        };
        self.queue.shut_down();
        self.feeding.iter().for_each(|feed| feed.abort());
        if let Some(panicked) = panicked {
            return Err(panicked.into());
        }
        join_all(self.workers).await;
        self.resyncing.abort();
        Ok(())
    }
}

/// Starts the declared watches, the primary kind first.
fn watch<K: Object>(
    informers: &Informers,
    primary: Option<Source<K>>,
    filter: Option<Predicate<K>>,
    watches: Vec<Wire<K>>,
) -> Vec<Wired> {
    let primary_informer = primary.clone().map(|source| informers.get(source));
    let trigger = match filter {
        Some(filter) => Trigger::same().filter(filter),
        None => Trigger::same(),
    };
    let first = primary_informer.clone().map(|informer| watched(informer, trigger));
    let wiring = Wiring { informers, primary, primary_informer };
    first.into_iter().chain(watches.into_iter().map(|wire| wire(&wiring))).collect()
}

fn scope(
    name: Arc<str>,
    options: &Options,
    host: &Host,
    declared: Vec<Arc<dyn AnyInformer>>,
) -> ControllerScope {
    ControllerScope {
        field_manager: options.field_manager.clone().unwrap_or_else(|| name.clone()),
        recorder: match &options.event_source {
            Some(component) => host.recorder.counted(component, ""),
            None => host.recorder.named(name.clone()),
        },
        records: host.flight.is_on(),
        sensitive: host.flight.sensitive(),
        name,
        client: host.client.clone(),
        env: host.informers.env().clone(),
        informers: host.informers.clone(),
        declared,
        cancelled: host.stop.clone(),
        write_limit: options.write_limit.map(|(rate, burst)| Mutex::new(RateLimit::new(rate, burst))),
        ids: Ids::new(host.informers.env()),
        no_state: Arc::default(),
    }
}

/// Waits for all caches of a controller.
async fn sync(wired: &[Wired], timeout: Duration) -> Result<(), SyncError> {
    let waits = wired.iter().map(|wired| wired.informer.wait_synced(timeout));
    join_all(waits).await.into_iter().collect()
}

/// Waits for the first of these tasks that panics; for ever if none does.
async fn first_panic(tasks: impl Iterator<Item = &mut JoinHandle<()>>) -> JoinError {
    let mut tasks: FuturesUnordered<_> = tasks.collect();
    while let Some(ended) = tasks.next().await {
        if let Some(panic) = ended.err().filter(JoinError::is_panic) {
            return panic;
        }
    }
    std::future::pending().await
}

/// Keeps the triggers connected, and resyncs the caches after each period, give or take a tenth. This is upkeep and not
/// in the ledger.
async fn resync(connected: Vec<Connected>, period: Option<Duration>, env: Env) {
    let Some(period) = period.filter(|period| !period.is_zero()) else { return std::future::pending().await };
    loop {
        tokio::time::sleep(spread(period, env.random_fraction())).await;
        connected.iter().for_each(|connected| (connected.replay)());
    }
}

/// The period, shorter or longer by up to a tenth. A period that is too long to compute with becomes the longest one.
pub(super) fn spread(period: Duration, fraction: f64) -> Duration {
    Duration::try_from_secs_f64(period.as_secs_f64() * (0.9 + 0.2 * fraction)).unwrap_or(Duration::MAX)
}

/// Takes keys from the queue and reconciles them. All workers of a controller share one value.
struct Worker {
    scope: Arc<ControllerScope>,
    queue: Queue,
    reconcile: ErasedReconcile<()>,
    options: Options,
    metrics: Arc<ControllerMetrics>,
    observers: Observers,
    tasks: Tasks,
    /// The writes that the next reconcile of a key must see; most keys have none.
    own_writes: Mutex<AllOwnWrites>,
    /// Detects a key that is reconciled again and again while no time passes, so that waiting for rest fails with its name.
    turns: Turns<Request>,
    /// Whether later looks count as unfinished work.
    later_looks_are_work: bool,
}

/// The keys with own writes.
#[derive(Default)]
struct AllOwnWrites {
    by_key: HashMap<Request, OwnWrites>,
    /// The number of keys at which those are dropped whose writes the caches show by now: a key that is never reconciled
    /// again must not keep its writes for ever.
    limit: usize,
}

/// How long a reconcile may hold its thread without awaiting, before it is reported: decoding and comparing objects takes
/// milliseconds, a blocking call such as `std::thread::sleep` or a request takes longer.
const HELD_MAX: Duration = Duration::from_millis(100);

/// The least number of keys at which shown writes are searched for and dropped.
const OWN_WRITES_KEPT: usize = 1024;

impl AllOwnWrites {
    fn take(&mut self, key: &Request) -> Option<OwnWrites> {
        if self.by_key.is_empty() { None } else { self.by_key.remove(key) }
    }

    fn insert(&mut self, key: Request, writes: OwnWrites, scope: &ControllerScope) {
        if self.by_key.len() >= self.limit.max(OWN_WRITES_KEPT) {
            self.by_key.retain(|_, own| !matches!(own, OwnWrites::Made(writes) if scope.shows(writes)));
            self.limit = 2 * self.by_key.len();
        }
        self.by_key.insert(key, writes);
    }
}

/// The writes of a key's last reconcile, which the caches may not show yet.
enum OwnWrites {
    /// The caches may not show these yet.
    Made(Writes),
    /// The caches were waited for; false if they did not show the writes in time.
    Awaited(bool),
}

impl Worker {
    async fn work(self: Arc<Self>, ring: Arc<Ring>) {
        while let Some(item) = self.queue.get().await {
            let Some((item, behind)) = self.caught_up(item) else { continue };
            let ctx = Ctx::new(self.scope.clone(), &item, behind);
            let span = tracing::info_span!(
                "reconcile",
                controller = %self.scope.name,
                object = %item.key,
                id = %ctx.reconcile_id(),
            );
            self.process(item, ctx, &ring).instrument(span).await;
        }
    }

    async fn process(&self, item: Item, ctx: Ctx, ring: &Ring) {
        self.metrics.began(&item);
        self.turns.count(&item.key);
        self.observers.tell(&self.scope.name, &item.key, &item.causes, || Stage::Began);
        let start = Instant::now();
        let (tally, number, behind) = (ctx.tally(), ctx.number(), ctx.is_behind());
        let footprint = Footprint::default();
        let attempt = self.attempt(ctx);
        let outcome = match self.scope.records {
            true => footprint.follow(flight::follow(tally.clone(), attempt)).await,
            false => footprint.follow(attempt).await,
        };
        let (writes, notes) = tally.lock().take();
        if !writes.is_empty() {
            self.own_writes.lock().insert(item.key.clone(), OwnWrites::Made(writes), &self.scope);
        }
        let took = start.elapsed();
        self.report_held(&item, footprint.held());
        self.observers.tell(&self.scope.name, &item.key, &item.causes, || outcome.stage(took));
        outcome.report(&item, took);
        outcome.count(&self.metrics, &item.key, took);
        let again = outcome.settle(&self.queue, &item, |delay| match self.later_looks_are_work {
            true => Purpose::Work,
            false => later_look(&item, footprint.writes() > 0, delay),
        });
        if !self.scope.records {
            return;
        }
        let Item { key, causes, ready_at, requeues: attempt, .. } = item;
        let (ended, trace) = (outcome.ended(), trace_id());
        ring.push(Flown {
            key,
            causes,
            ready_at,
            start,
            took,
            number,
            attempt,
            behind,
            trace,
            notes,
            ended,
            again,
        });
    }

    /// Reports a reconcile that held its thread.
    fn report_held(&self, item: &Item, held: Duration) {
        if held < HELD_MAX {
            return;
        }
        tracing::warn!(
            ?held,
            "the reconcile held its thread without awaiting, and nothing else could run there; sleep with tokio::time::sleep, \
             and put blocking calls into tokio::task::spawn_blocking"
        );
        self.observers.tell(&self.scope.name, &item.key, &item.causes, || Stage::Blocked { held });
    }

    /// The key to work on, and whether the caches do not show its own last writes. Returns `None` for a key that must wait
    /// for the caches: it is parked, which means that it stays in flight, so that no worker gets it, while this worker
    /// takes another key.
    fn caught_up(self: &Arc<Self>, item: Item) -> Option<(Item, bool)> {
        let own_writes = self.own_writes.lock().take(&item.key);
        match own_writes {
            None => Some((item, false)),
            Some(OwnWrites::Awaited(shown)) => Some((item, !shown)),
            Some(OwnWrites::Made(writes)) if self.scope.shows(&writes) => Some((item, false)),
            Some(OwnWrites::Made(writes)) => {
                self.metrics.waited_for_own_writes();
                self.tasks.spawn(self.clone().park(item, writes));
                None
            }
        }
    }

    /// Waits until the caches show these writes, then puts the key back into the queue.
    async fn park(self: Arc<Self>, item: Item, writes: Writes) {
        let shown = self.scope.catch_up(&writes, CATCH_UP_MAX).await;
        if !shown {
            self.metrics.read_live();
        }
        self.own_writes.lock().insert(item.key.clone(), OwnWrites::Awaited(shown), &self.scope);
        self.queue.put_back(item);
    }

    /// Calls the reconcile function. A panic or a timeout counts as a failure.
    async fn attempt(&self, ctx: Ctx) -> Outcome {
        let caught = AssertUnwindSafe(async move { (self.reconcile)(ctx).await }).catch_unwind();
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

/// The id of the current trace, if reconciles are traced.
#[cfg(feature = "otel")]
fn trace_id() -> Option<[u8; 16]> {
    use opentelemetry::trace::TraceContextExt as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    let span = tracing::Span::current();
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    let id = context.span().span_context().trace_id();
    (id != opentelemetry::trace::TraceId::INVALID).then(|| id.to_bytes())
}

/// Without the feature `otel`, there are no traces.
#[cfg(not(feature = "otel"))]
fn trace_id() -> Option<[u8; 16]> {
    None
}
