//! The numbers of the API server, under the names that dashboards of kube-apiserver know.
//!
//! A series is found by its labels as one text, so that a request allocates nothing for it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_env::HashMap;
use evenkeel_request_info::ApiPath;
use futures::Stream;
use http::Method;
use parking_lot::{Mutex, RwLock};

use crate::registry::Registry;
use crate::request::Request;

/// The bounds of the buckets of durations in seconds: kube-apiserver's.
const BOUNDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// How many series there may be. Each verb of each resource has one or two; requests beyond are not counted.
const SERIES_MAX: usize = 16_384;

thread_local! {
    /// The labels of the request that this thread counts.
    static LABELS: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What a request was, as its labels say it. Every text must be from a bounded set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Labels<'a> {
    pub(crate) verb: &'a str,
    pub(crate) dry_run: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) scope: &'a str,
}

impl Labels<'_> {
    /// Writes the labels that all metrics have.
    fn write(&self, out: &mut String, with_dry_run: bool) {
        out.push_str("component=\"apiserver\",");
        if with_dry_run {
            let _ = write!(out, "dry_run=\"{}\",", self.dry_run);
        }
        let _ = write!(
            out,
            "group=\"{}\",resource=\"{}\",scope=\"{}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"",
            self.group, self.resource, self.scope, self.subresource, self.verb, self.version
        );
    }
}

/// The numbers of one server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: RwLock<HashMap<Box<str>, Arc<Series>>>,
    /// The open watches by their labels.
    long_running: Mutex<HashMap<Box<str>, Arc<AtomicI64>>>,
    reads: AtomicI64,
    writes: AtomicI64,
}

/// The requests with the same labels.
#[derive(Debug, Default)]
struct Series {
    codes: Mutex<Vec<(u16, u64)>>,
    /// How many requests fall into each bucket, and into none of them.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct InFlight<'a>(&'a AtomicI64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a request as in flight until the value is dropped.
    pub(crate) fn enter(&self, reads_only: bool) -> InFlight<'_> {
        let count = if reads_only { &self.reads } else { &self.writes };
        count.fetch_add(1, Ordering::Relaxed);
        InFlight(count)
    }

    /// Counts an answered request.
    pub(crate) fn count(&self, labels: Labels<'_>, code: u16, took: Duration) {
        LABELS.with_borrow_mut(|text| {
            text.clear();
            labels.write(text, true);
            let known = self.requests.read().get(text.as_str()).cloned();
            let Some(series) = known.or_else(|| self.add(text)) else { return };
            series.count(code, took);
        });
    }

    fn add(&self, labels: &str) -> Option<Arc<Series>> {
        let mut requests = self.requests.write();
        if requests.len() >= SERIES_MAX && !requests.contains_key(labels) {
            return None;
        }
        Some(requests.entry(labels.into()).or_default().clone())
    }

    /// Counts a watch as open until the stream is dropped.
    pub(crate) fn watched<S>(&self, labels: Labels<'_>, stream: S) -> Watched<S> {
        let mut text = String::new();
        labels.write(&mut text, false);
        let mut open = self.long_running.lock();
        let count = match open.get(text.as_str()) {
            Some(count) => count.clone(),
            None if open.len() < SERIES_MAX => open.entry(text.into()).or_default().clone(),
            None => Arc::default(),
        };
        count.fetch_add(1, Ordering::Relaxed);
        Watched { stream, count }
    }

    /// Writes all metrics in Prometheus' text format.
    pub(crate) fn write(&self, out: &mut String) {
        self.write_requests(out);
        head(
            out,
            "apiserver_current_inflight_requests",
            "gauge",
            "The requests that are being answered, by kind.",
        );
        for (kind, count) in [("mutating", &self.writes), ("readOnly", &self.reads)] {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {count}");
        }
        head(out, "apiserver_longrunning_requests", "gauge", "The open watches.");
        let open: Vec<_> =
            self.long_running.lock().iter().map(|(labels, it)| (labels.clone(), it.clone())).collect();
        for (labels, count) in sorted(open) {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(out, "apiserver_longrunning_requests{{{labels}}} {count}");
        }
    }

    fn write_requests(&self, out: &mut String) {
        let series: Vec<_> =
            self.requests.read().iter().map(|(labels, it)| (labels.clone(), it.clone())).collect();
        let series = sorted(series);
        head(
            out,
            "apiserver_request_total",
            "counter",
            "Answered requests, by what they asked for and their status.",
        );
        for (labels, series) in &series {
            let mut codes = series.codes.lock().clone();
            codes.sort_unstable();
            for (code, count) in codes {
                let _ = writeln!(out, "apiserver_request_total{{code=\"{code}\",{labels}}} {count}");
            }
        }
        head(
            out,
            "apiserver_request_duration_seconds",
            "histogram",
            "How long requests took until their response began.",
        );
        for (labels, series) in &series {
            series.write_durations(labels, out);
        }
    }
}

impl Series {
    fn count(&self, code: u16, took: Duration) {
        let mut codes = self.codes.lock();
        match codes.iter_mut().find(|it| it.0 == code) {
            Some((_, count)) => *count += 1,
            None => codes.push((code, 1)),
        }
        drop(codes);
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = took.as_nanos().try_into().unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn write_durations(&self, labels: &str, out: &mut String) {
        const NAME: &str = "apiserver_request_duration_seconds";
        let mut sum = 0;
        for (at, bucket) in self.buckets.iter().enumerate() {
            sum += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS.get(at).map_or("+Inf".to_owned(), ToString::to_string);
            let _ = writeln!(out, "{NAME}_bucket{{{labels},le=\"{bound}\"}} {sum}");
        }
        let seconds = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(out, "{NAME}_sum{{{labels}}} {seconds}\n{NAME}_count{{{labels}}} {sum}");
    }
}

fn sorted<T>(mut series: Vec<(Box<str>, T)>) -> Vec<(Box<str>, T)> {
    series.sort_by(|a, b| a.0.cmp(&b.0));
    series
}

/// Writes what a metric is.
pub(crate) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// The stream of an open watch, which is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    count: Arc<AtomicI64>,
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: Stream + Unpin> Stream for Watched<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        Pin::new(&mut self.stream).poll_next(cx)
    }
}

/// The labels of a request. Only resources that are served have names, so that clients cannot make series.
pub(crate) fn labels<'a>(registry: &Registry, request: &'a Request<'_>) -> Labels<'a> {
    let dry_run = if request.query.get("dryRun").is_some_and(|it| it == "All") { "All" } else { "" };
    let ApiPath::Resource(path) = &request.route else {
        return Labels { verb: method(request.method), ..Labels::default() };
    };
    let Some(info) = registry.look_up(&path.group, &path.version, &path.resource) else {
        return Labels { verb: method(request.method), ..Labels::default() };
    };
    let subresource = if info.subresource(&path.subresource).is_some() { &*path.subresource } else { "" };
    let scope = match (path.name.is_empty(), path.is_in_namespace()) {
        (false, _) => "resource",
        (true, true) => "namespace",
        (true, false) => "cluster",
    };
    Labels {
        verb: verb(request),
        dry_run,
        group: &path.group,
        version: &path.version,
        resource: &path.resource,
        subresource,
        scope,
    }
}

/// Whether a request changes nothing.
pub(crate) fn is_read(request: &Request<'_>) -> bool {
    matches!(*request.method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn verb(request: &Request<'_>) -> &'static str {
    match request.verb() {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" => "POST",
        "update" => "PUT",
        "patch" if request.header("content-type").starts_with("application/apply-patch") => "APPLY",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: Labels<'static> = Labels {
        verb: "GET",
        dry_run: "",
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        scope: "resource",
    };

    #[test]
    fn requests_are_counted_by_labels_and_code() {
        let metrics = Metrics::default();
        metrics.count(PODS, 200, Duration::from_millis(1));
        metrics.count(PODS, 200, Duration::from_secs(100));
        metrics.count(PODS, 404, Duration::from_millis(30));
        let mut text = String::new();
        metrics.write(&mut text);
        let labels = r#"component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1""#;
        for line in [
            format!("apiserver_request_total{{code=\"200\",{labels}}} 2"),
            format!("apiserver_request_total{{code=\"404\",{labels}}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.005\"}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.05\"}} 2"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"60\"}} 2"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("apiserver_request_duration_seconds_count{{{labels}}} 3"),
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn what_is_open_is_counted_until_it_ends() {
        let metrics = Metrics::default();
        let text = |metrics: &Metrics| {
            let mut text = String::new();
            metrics.write(&mut text);
            text
        };
        let read = metrics.enter(true);
        let watch = metrics.watched(PODS, futures::stream::empty::<()>());
        let shown = text(&metrics);
        assert!(
            shown.contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1"),
            "{shown}"
        );
        assert!(shown.contains("verb=\"GET\",version=\"v1\"} 1"), "{shown}");
        drop((read, watch));
        let shown = text(&metrics);
        assert!(
            shown.contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0"),
            "{shown}"
        );
        assert!(shown.contains("verb=\"GET\",version=\"v1\"} 0"), "{shown}");
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let metrics = Metrics::default();
        for index in 0..SERIES_MAX + 10 {
            let resource = index.to_string();
            metrics.count(Labels { resource: &resource, ..PODS }, 200, Duration::ZERO);
        }
        assert_eq!(metrics.requests.read().len(), SERIES_MAX);
    }
}
