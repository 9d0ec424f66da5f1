//! Counts the requests to webhooks, under the names of controller-runtime's metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use super::Encoded;

/// The buckets of the latency histogram, in seconds: three for each power of ten, from 1 ms to 10 s, the default
/// timeout of a webhook. controller-runtime's classic buckets are the powers of ten from 10 ns to 1000 s, which is too
/// coarse for a quantile.
const LATENCY_BUCKETS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The counters of all webhooks of a manager.
#[derive(Default)]
pub(super) struct Webhooks {
    by_path: Mutex<BTreeMap<String, Arc<Path>>>,
    panics: AtomicU64,
    conversion_panics: AtomicU64,
}

/// The counters of one path.
struct Path {
    in_flight: AtomicU64,
    totals: Mutex<BTreeMap<u16, u64>>,
    latency: Histogram,
}

/// A webhook request in progress. If it is dropped without a response, it only stops counting as in flight.
pub(crate) struct Counted {
    path: Arc<Path>,
    start: Instant,
}

impl Counted {
    /// Counts the response.
    pub(crate) fn ended(self, code: StatusCode) {
        *self.path.totals.lock().entry(code.as_u16()).or_default() += 1;
        self.path.latency.observe(self.start.elapsed().as_secs_f64());
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.path.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Webhooks {
    pub(super) fn begin(&self, path: &str) -> Counted {
        let mut paths = self.by_path.lock();
        let path = match paths.get(path) {
            Some(path) => path.clone(),
            None => {
                let latency = Histogram::new(LATENCY_BUCKETS);
                let new = Path { in_flight: AtomicU64::new(0), totals: Mutex::default(), latency };
                paths.entry(path.to_owned()).or_insert(Arc::new(new)).clone()
            }
        };
        path.in_flight.fetch_add(1, Ordering::Relaxed);
        Counted { path, start: Instant::now() }
    }

    pub(super) fn panicked(&self, conversion: bool) {
        let counter = if conversion { &self.conversion_panics } else { &self.panics };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the metrics, if the manager has webhooks.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Encoded {
        let paths = self.by_path.lock();
        if paths.is_empty() {
            return Ok(());
        }
        let (name, help) = ("controller_runtime_webhook_requests", "Requests to webhooks by status code");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (path, counts) in &*paths {
            for (code, count) in &*counts.totals.lock() {
                let code = code.to_string();
                let labels = [("code", code.as_str()), ("webhook", path)];
                ConstCounter::new(*count as f64).encode(metric.encode_family(&labels)?)?;
            }
        }
        let (name, help) =
            ("controller_runtime_webhook_requests_in_flight", "Requests that webhooks work on");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (path, counts) in &*paths {
            let in_flight = ConstGauge::new(counts.in_flight.load(Ordering::Relaxed) as f64);
            in_flight.encode(metric.encode_family(&[("webhook", path.as_str())])?)?;
        }
        let (name, help) = ("controller_runtime_webhook_latency_seconds", "Time of a request to a webhook");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (path, counts) in &*paths {
            counts.latency.encode(metric.encode_family(&[("webhook", path.as_str())])?)?;
        }
        drop(paths);
        let panics = [
            ("controller_runtime_webhook_panics", "Admission webhooks that panicked", &self.panics),
            (
                "controller_runtime_conversion_webhook_panics",
                "Conversions that panicked",
                &self.conversion_panics,
            ),
        ];
        for (name, help, count) in panics {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count.load(Ordering::Relaxed) as f64).encode(metric)?;
        }
        Ok(())
    }
}
