//! Prometheus metrics with the names of controller-runtime and client-go, so that existing dashboards work, and a few of
//! our own.
//!
//! | names | origin |
//! |---|---|
//! | `workqueue_*`, `controller_runtime_*` | controller-runtime's, with its labels `name`, `controller`, `result` |
//! | `controller_runtime_webhook_*`, `controller_runtime_conversion_webhook_panics_total` | controller-runtime's, by the path of the `webhook` and `code` |
//! | `leader_election_master_status` | client-go's, by the name of the lease |
//! | `rest_client_requests_total`, `rest_client_request_duration_seconds` | client-go's, by `code`, `method` or `verb`, `host` |
//! | `evenkeel_cache_objects`, `evenkeel_cache_bytes`, `evenkeel_watch_restarts_total` | ours, by `source` |
//! | `evenkeel_event_to_reconcile_seconds` | ours: from a watch event to the start of its reconcile |
//! | `evenkeel_certificate_expiry_timestamp_seconds` | ours: when the certificate of a `server` expires, in seconds
//! since 1970 |
//! | `evenkeel_stale_read_waits_total`, `evenkeel_stale_reads_total` | ours: reconciles that waited until the caches showed their own last writes, and those that waited in vain and read from the server |
//!
//! Counters are kept where things happen and read when the metrics are encoded: a reconcile costs a few atomic additions.

mod requests;
#[cfg(feature = "webhooks")]
mod webhooks;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::cause::{Cause, Change};
use crate::fence::Fence;
use crate::informer::Informers;
use crate::queue::Item;
use crate::{Queue, Request};
use requests::Requests;
#[cfg(feature = "webhooks")]
pub(crate) use webhooks::Counted;

/// The metrics of one manager. Clones share them.
///
/// ```no_run
/// # use evenkeel_runtime::Manager;
/// # fn example(manager: &Manager) {
/// use prometheus_client::metrics::counter::Counter;
///
/// let backups = Counter::<u64>::default();
/// manager.metrics().register(|registry| registry.register("backups", "Backups taken", backups.clone()));
/// backups.inc();
/// assert!(manager.metrics().encode().contains("backups_total 1"));
/// # }
/// ```
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    controllers: Mutex<Vec<Arc<ControllerMetrics>>>,
    informers: Mutex<Option<Informers>>,
    /// The name of the lease, and whether this process leads.
    leader: Mutex<Option<(String, bool)>>,
    requests: Arc<Requests>,
    #[cfg(feature = "webhooks")]
    webhooks: webhooks::Webhooks,
    /// The servers with a certificate, and a function for its expiry.
    certificates: Mutex<Vec<(&'static str, CertificateEnd)>>,
    /// The metrics that the operator registered.
    own: Mutex<Registry>,
}

/// Returns when the certificate of a server expires, in seconds since 1970, or `None` if it has no certificate yet.
type CertificateEnd = Box<dyn Fn() -> Option<i64> + Send + Sync>;

impl Metrics {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            controllers: Mutex::default(),
            informers: Mutex::new(None),
            leader: Mutex::new(None),
            requests: Arc::default(),
            #[cfg(feature = "webhooks")]
            webhooks: webhooks::Webhooks::default(),
            certificates: Mutex::default(),
            own: Mutex::new(Registry::default()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Registers metrics of the operator.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.inner.own.lock());
    }

    /// All metrics in the text format that Prometheus reads.
    pub fn encode(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        // Writing to a string cannot fail; a metric whose encoder fails is left out.
        let _ = prometheus_client::encoding::text::encode_registry(&mut text, &registry);
        let _ = prometheus_client::encoding::text::encode_registry(&mut text, &self.inner.own.lock());
        let _ = prometheus_client::encoding::text::encode_eof(&mut text);
        text
    }

    /// A client whose requests to this host are counted here and respect the fence, if there is one.
    pub(crate) fn around(&self, client: Client, host: Arc<str>, fence: Option<Fence>) -> Client {
        self.inner.requests.around(client, host, fence)
    }

    pub(crate) fn watch_informers(&self, informers: &Informers) {
        *self.inner.informers.lock() = Some(informers.clone());
    }

    #[cfg(feature = "leader-election")]
    pub(crate) fn leader(&self, lease: &str, leads: bool) {
        *self.inner.leader.lock() = Some((lease.to_owned(), leads));
    }

    /// Adds the expiry of this server's certificate to the metrics.
    #[cfg(feature = "tls-server")]
    pub(crate) fn certificate(
        &self,
        server: &'static str,
        end: impl Fn() -> Option<i64> + Send + Sync + 'static,
    ) {
        self.inner.certificates.lock().push((server, Box::new(end)));
    }

    /// Counts a request to the webhook at this path as in flight until the returned value is dropped.
    #[cfg(feature = "webhooks")]
    pub(crate) fn webhook(&self, path: &str) -> Counted {
        self.inner.webhooks.begin(path)
    }

    /// Counts a panic of a webhook.
    #[cfg(feature = "webhooks")]
    pub(crate) fn webhook_panicked(&self, conversion: bool) {
        self.inner.webhooks.panicked(conversion);
    }

    pub(crate) fn controller(&self, name: Arc<str>, queue: Queue, workers: usize) -> Arc<ControllerMetrics> {
        let metrics = Arc::new(ControllerMetrics::new(name, queue, workers));
        self.inner.controllers.lock().push(metrics.clone());
        metrics
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// The result that a reconcile is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Result {
    Success,
    Error,
    Requeue,
    RequeueAfter,
}

impl Result {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Success, "success"),
        (Self::Error, "error"),
        (Self::Requeue, "requeue"),
        (Self::RequeueAfter, "requeue_after"),
    ];
}

/// The counters of one controller.
pub(crate) struct ControllerMetrics {
    name: Arc<str>,
    queue: Queue,
    workers: usize,
    results: [AtomicU64; 4],
    terminal: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
    stale_waits: AtomicU64,
    stale_reads: AtomicU64,
    /// Running reconciles and when they began.
    active: Mutex<BTreeMap<Request, Instant>>,
    work_time: Histogram,
    queue_time: Histogram,
    /// The time from ready to reconcile, of keys that a watch event queued.
    event_time: Histogram,
}

impl ControllerMetrics {
    fn new(name: Arc<str>, queue: Queue, workers: usize) -> Self {
        // From 100 µs to about 100 s: from a no-op reconcile to one that waits for a cloud provider.
        let buckets = || Histogram::new(exponential_buckets(0.0001, 4.0, 11));
        Self {
            name,
            queue,
            workers,
            results: Default::default(),
            terminal: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
            stale_waits: AtomicU64::new(0),
            stale_reads: AtomicU64::new(0),
            active: Mutex::default(),
            work_time: buckets(),
            queue_time: buckets(),
            event_time: buckets(),
        }
    }

    pub(crate) fn began(&self, item: &Item) {
        let now = Instant::now();
        let waited = now.saturating_duration_since(item.ready_at).as_secs_f64();
        self.queue_time.observe(waited);
        if item.causes.kept().first().is_some_and(is_live) {
            self.event_time.observe(waited);
        }
        self.active.lock().insert(item.key.clone(), now);
    }

    pub(crate) fn ended(&self, key: &Request, took: Duration, result: Result) {
        self.active.lock().remove(key);
        self.work_time.observe(took.as_secs_f64());
        self.results[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reconcile that panicked.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reconcile that was ended because it took too long.
    pub(crate) fn timed_out(&self) {
        self.timeouts.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reconcile that failed and is not retried.
    pub(crate) fn failed_for_good(&self) {
        self.terminal.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a key that had to wait until the caches show its own last writes.
    pub(crate) fn waited_for_own_writes(&self) {
        self.stale_waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a key whose writes the caches did not show in time, so that its object is read from the server.
    pub(crate) fn read_live(&self) {
        self.stale_reads.fetch_add(1, Ordering::Relaxed);
    }

    fn result(&self, result: Result) -> u64 {
        self.results[result as usize].load(Ordering::Relaxed)
    }

    /// How long the active reconciles have been running, in seconds: the sum, and the longest.
    fn unfinished(&self) -> (f64, f64) {
        let now = Instant::now();
        let active = self.active.lock();
        let times = active.values().map(|since| now.saturating_duration_since(*since).as_secs_f64());
        times.fold((0.0, 0.0), |(sum, longest), time| (sum + time, f64::max(longest, time)))
    }
}

/// Whether the cause is a watch event, and not the first list, a resync or a timer.
fn is_live(cause: &Cause) -> bool {
    match cause {
        Cause::Object { change, .. } => matches!(change, Change::Created | Change::Updated | Change::Deleted),
        _ => false,
    }
}

type Encoded = std::result::Result<(), fmt::Error>;

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Encoded {
        let controllers = self.inner.controllers.lock().clone();
        self.encode_queues(&mut encoder, &controllers)?;
        self.encode_controllers(&mut encoder, &controllers)?;
        self.encode_informers(&mut encoder)?;
        self.inner.requests.encode(&mut encoder)?;
        #[cfg(feature = "webhooks")]
        self.inner.webhooks.encode(&mut encoder)?;
        if let Some((lease, leads)) = &*self.inner.leader.lock() {
            let labels = [("name", lease.as_str())];
            let rows = [(labels, f64::from(u8::from(*leads)))];
            gauge(&mut encoder, "leader_election_master_status", "Whether this process leads", rows)?;
        }
        let certificates = self.inner.certificates.lock();
        if !certificates.is_empty() {
            let ends = certificates.iter().filter_map(|(server, end)| Some((*server, end()?)));
            let rows = ends.map(|(server, end)| ([("server", server)], end as f64));
            let name = "evenkeel_certificate_expiry_timestamp_seconds";
            gauge(&mut encoder, name, "When the certificate of a server expires", rows)?;
        }
        Ok(())
    }
}

impl Metrics {
    fn encode_queues(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        controllers: &[Arc<ControllerMetrics>],
    ) -> Encoded {
        let rows = |value: fn(&ControllerMetrics) -> f64| {
            controllers
                .iter()
                .map(move |m| (QUEUE_LABELS.map(|label| (label, &*m.name)), value(m)))
                .collect::<Vec<_>>()
        };
        gauge(encoder, "workqueue_depth", "Keys that are ready", rows(|m| m.queue.len() as f64))?;
        counter(encoder, "workqueue_adds", "Keys that became ready", rows(|m| m.queue.adds() as f64))?;
        counter(encoder, "workqueue_retries", "Adds for later", rows(|m| m.queue.retries() as f64))?;
        let help = "How long running reconciles have been running, all together";
        gauge(encoder, "workqueue_unfinished_work_seconds", help, rows(|m| m.unfinished().0))?;
        let help = "How long the longest running reconcile has been running";
        gauge(encoder, "workqueue_longest_running_processor_seconds", help, rows(|m| m.unfinished().1))?;
        let help = "From ready to being worked on";
        histogram(encoder, "workqueue_queue_duration_seconds", help, QUEUE_LABELS, controllers, |m| {
            &m.queue_time
        })?;
        let help = "Time of work on a key";
        histogram(encoder, "workqueue_work_duration_seconds", help, QUEUE_LABELS, controllers, |m| {
            &m.work_time
        })
    }

    fn encode_controllers(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        controllers: &[Arc<ControllerMetrics>],
    ) -> Encoded {
        let totals = controllers.iter().flat_map(|metrics| {
            Result::ALL.map(|(result, word)| {
                ([("controller", &*metrics.name), ("result", word)], metrics.result(result) as f64)
            })
        });
        counter(encoder, "controller_runtime_reconcile", "Reconciles by result", totals)?;
        let rows = |value: fn(&ControllerMetrics) -> u64| {
            controllers.iter().map(move |m| ([("controller", &*m.name)], value(m) as f64)).collect::<Vec<_>>()
        };
        let errors = rows(|m| m.result(Result::Error));
        counter(encoder, "controller_runtime_reconcile_errors", "Reconciles that failed", errors)?;
        let terminal = rows(|m| m.terminal.load(Ordering::Relaxed));
        let help = "Reconciles that failed and are not retried";
        counter(encoder, "controller_runtime_terminal_reconcile_errors", help, terminal)?;
        let panics = rows(|m| m.panics.load(Ordering::Relaxed));
        counter(encoder, "controller_runtime_reconcile_panics", "Reconciles that panicked", panics)?;
        let timeouts = rows(|m| m.timeouts.load(Ordering::Relaxed));
        counter(encoder, "controller_runtime_reconcile_timeouts", "Reconciles that took too long", timeouts)?;
        let workers = rows(|m| m.workers as u64);
        gauge(encoder, "controller_runtime_max_concurrent_reconciles", "Workers", workers)?;
        let active = rows(|m| m.active.lock().len() as u64);
        gauge(encoder, "controller_runtime_active_workers", "Workers with work", active)?;
        let waits = rows(|m| m.stale_waits.load(Ordering::Relaxed));
        let help = "Reconciles that waited for their own last writes";
        counter(encoder, "evenkeel_stale_read_waits", help, waits)?;
        let reads = rows(|m| m.stale_reads.load(Ordering::Relaxed));
        let help = "Reconciles that read live because the cache was behind";
        counter(encoder, "evenkeel_stale_reads", help, reads)?;
        let (name, help) =
            ("evenkeel_event_to_reconcile_seconds", "From a change to the begin of its reconcile");
        histogram(encoder, name, help, ["controller"], controllers, |m| &m.event_time)?;
        let name = "controller_runtime_reconcile_time_seconds";
        histogram(encoder, name, "Time of a reconcile", ["controller"], controllers, |m| &m.work_time)
    }

    fn encode_informers(&self, encoder: &mut DescriptorEncoder<'_>) -> Encoded {
        let Some(informers) = self.inner.informers.lock().clone() else { return Ok(()) };
        let stats = informers.stats_with_sizes();
        let rows = stats.iter().map(|stat| ([("source", stat.source.as_str())], stat.objects as f64));
        gauge(encoder, "evenkeel_cache_objects", "Objects in a cache", rows)?;
        let rows = stats.iter().map(|stat| ([("source", stat.source.as_str())], stat.bytes as f64));
        let help = "Size of a cache as JSON, estimated from a sample";
        gauge(encoder, "evenkeel_cache_bytes", help, rows)?;
        let rows = stats.iter().map(|stat| ([("source", stat.source.as_str())], stat.restarts as f64));
        counter(encoder, "evenkeel_watch_restarts", "Watches that were opened again", rows)
    }
}

fn gauge<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = ([(&'static str, &'a str); N], f64)>,
) -> Encoded {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn counter<'a, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = ([(&'static str, &'a str); N], f64)>,
) -> Encoded {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in rows {
        ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// The labels of a queue. The value of both is the name of its controller.
const QUEUE_LABELS: [&str; 2] = ["name", "controller"];

fn histogram<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    labels: [&'static str; N],
    controllers: &[Arc<ControllerMetrics>],
    of: impl Fn(&ControllerMetrics) -> &Histogram,
) -> Encoded {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for metrics in controllers {
        let labels = labels.map(|label| (label, &*metrics.name));
        of(metrics).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
