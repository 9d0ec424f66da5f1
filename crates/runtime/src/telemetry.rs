//! OpenTelemetry traces and metrics, with the feature `otel`: every reconcile is a span with its controller, object and
//! id. The causes and the result are an event in the span; spans of the reconcile function are its children.
//!
//! The runtime uses [`tracing`]; this module sends its spans to an OTLP collector. It also sends the metrics of
//! `/metrics`, under the same names: an administrator who sets `OTEL_EXPORTER_OTLP_ENDPOINT` for all workloads of a
//! cluster expects both, and needs no list of endpoints to scrape.
//!
//! | variable | what it sets |
//! |---|---|
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | the collector, such as `http://collector.observability:4318`; without it nothing is sent |
//! | `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` | the whole URL for one signal |
//! | `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | the name of the service instead of the operator's, and more attributes |
//! | `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER` | `none` switches a signal off |
//! | `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT` | the headers and the timeout (in milliseconds) of requests |
//! | `OTEL_METRIC_EXPORT_INTERVAL` | how often metrics are sent, in milliseconds: 60000 unless set |
//! | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG`, `OTEL_BSP_*` | which spans are sent, and in which batches |
//! | `OTEL_SDK_DISABLED` | `true` switches everything off |
//!
//! The protocol is `http/protobuf`, without TLS. A setting that asks for something else is an error.
//!
//! ```no_run
//! use evenkeel_runtime::telemetry::Telemetry;
//! use tracing_subscriber::layer::SubscriberExt;
//! use tracing_subscriber::util::SubscriberInitExt;
//!
//! # async fn example(manager: evenkeel_runtime::Manager) -> Result<(), Box<dyn std::error::Error>> {
//! if let Some(telemetry) = Telemetry::from_env("my-operator")? {
//!     tracing_subscriber::registry().with(telemetry.layer()).init();
//!     let metrics = telemetry.export_metrics(manager.metrics());
//!     manager.run().await?;
//!     metrics.finish().await;
//!     telemetry.shutdown()?;                   // sends what is still waiting
//! }
//! # Ok(())
//! # }
//! ```

mod convert;
mod environment;
mod push;

use evenkeel_env::Env;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

use crate::Metrics;
use environment::{Push, Wanted};

pub use environment::TelemetryError;
pub use push::MetricsExport;

/// The instrumentation scope of our spans.
const SCOPE: &str = "evenkeel";

/// Sends spans and metrics to a collector.
///
/// ```no_run
/// use evenkeel_runtime::telemetry::Telemetry;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let telemetry = Telemetry::otlp("my-operator", "http://localhost:4318/v1/traces")?;
/// let subscriber = tracing_subscriber::registry().with(telemetry.layer());
/// tracing::subscriber::set_global_default(subscriber)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    resource: Resource,
    /// Where metrics are sent, if they are.
    push: Option<Push>,
}

impl Telemetry {
    /// Sends spans to this OTLP endpoint (protobuf over HTTP), in batches and in the background, as spans of this service.
    pub fn otlp(service: &str, endpoint: &str) -> Result<Self, ExporterBuildError> {
        let exporter = SpanExporter::builder().with_http().with_endpoint(endpoint).build()?;
        let resource = resource(service);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_batch_exporter(exporter)
            .build();
        Ok(Self { provider, resource, push: None })
    }

    /// What OpenTelemetry's environment variables ask for, or `None` if they name no collector. The service has this name
    /// unless they say another one. Must not be called within an async function.
    ///
    /// # Errors
    /// Fails if a variable cannot be read, or asks for what is not supported.
    pub fn from_env(service: &str) -> Result<Option<Self>, TelemetryError> {
        let Some(wanted) = Wanted::read(|name| std::env::var(name).ok())? else { return Ok(None) };
        let service = wanted.service.as_deref().unwrap_or(service);
        let telemetry = match wanted.traces {
            Some(endpoint) => Self::otlp(service, &endpoint)
                .map_err(|source| TelemetryError::Exporter { endpoint, source })?,
            None => {
                let resource = resource(service);
                let provider = SdkTracerProvider::builder().with_resource(resource.clone()).build();
                Self { provider, resource, push: None }
            }
        };
        Ok(Some(Self { push: wanted.metrics, ..telemetry }))
    }

    /// Sends these metrics from time to time, if the environment asks for that. Must be called on a tokio runtime.
    pub fn export_metrics(&self, metrics: &Metrics) -> MetricsExport {
        MetricsExport::start(self.push.clone(), &self.resource, metrics.clone(), &Env::system())
    }

    /// Passes each span to this exporter when it ends: for tests and other kinds of collectors.
    pub fn with_exporter(
        service: &str,
        exporter: impl opentelemetry_sdk::trace::SpanExporter + 'static,
    ) -> Self {
        let resource = resource(service);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_simple_exporter(exporter)
            .build();
        Self { provider, resource, push: None }
    }

    /// The layer to add to a `tracing` subscriber.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> OpenTelemetryLayer<S, SdkTracer> {
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer(SCOPE))
    }

    /// Sends the spans that are still waiting, and ends.
    pub fn shutdown(self) -> Result<(), OTelSdkError> {
        self.provider.shutdown()
    }
}

fn resource(service: &str) -> Resource {
    Resource::builder().with_service_name(service.to_owned()).build()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::SpanData;
    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::{Action, Controller, Ctx, Env, Error, Manager, Request};

    /// An exporter that keeps spans and the resource that they belong to.
    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>, Arc<Mutex<Option<Resource>>>);

    impl opentelemetry_sdk::trace::SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().extend(batch);
            Ok(())
        }

        fn set_resource(&mut self, resource: &Resource) {
            *self.1.lock() = Some(resource.clone());
        }
    }

    fn attribute(span: &SpanData, key: &str) -> String {
        let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        found.map(|attribute| attribute.value.to_string()).unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_is_a_span_and_what_it_does_is_below_it() {
        let kept = Kept::default();
        let telemetry = Telemetry::with_exporter("example", kept.clone());
        let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(telemetry.layer()));
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
        });
        let env = Env::seeded(1);
        let controller = Controller::without_primary("traced", |_: Request, _: Ctx| async {
            tracing::info_span!("step").in_scope(|| ());
            Ok::<_, Error>(Action::await_change())
        })
        .stream("keys", futures::stream::iter([Request::namespaced("prod", "web")]));
        let manager = Manager::new(kube::Client::new(service, "default")).with_env(env.clone());
        let running = tokio::spawn(manager.controller(controller).run_until(std::future::pending()));
        env.ledger().settled(std::time::Duration::from_secs(1)).await.unwrap();
        running.abort();
        telemetry.shutdown().unwrap();

        let resource = kept.1.lock().clone().unwrap();
        assert_eq!(resource.get(&"service.name".into()).unwrap().as_str(), "example");
        let spans = kept.0.lock().clone();
        let reconcile = spans.iter().find(|span| span.name == "reconcile").unwrap();
        assert_eq!(reconcile.instrumentation_scope.name(), "evenkeel");
        assert_eq!(attribute(reconcile, "controller"), "traced");
        assert_eq!(attribute(reconcile, "object"), "prod/web");
        assert!(!attribute(reconcile, "id").is_empty());
        let causes = |event: &opentelemetry::trace::Event| {
            let causes = event.attributes.iter().find(|attribute| attribute.key.as_str() == "causes");
            causes.map(|causes| causes.value.to_string())
        };
        let causes: Vec<String> = reconcile.events.events.iter().filter_map(causes).collect();
        assert_eq!(causes, ["keys"]);
        let step = spans.iter().find(|span| span.name == "step").unwrap();
        assert_eq!(step.parent_span_id, reconcile.span_context.span_id());
    }

    /// Serves as a collector for one request. Returns the bytes of the request.
    fn collect(listener: std::net::TcpListener) -> Vec<u8> {
        use std::io::{BufRead, BufReader, Read, Write};
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut request, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            let read = reader.read_line(&mut line).unwrap();
            request.extend_from_slice(line.as_bytes());
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if read == 0 || line == "\r\n" {
                break;
            }
        }
        reader.by_ref().take(length).read_to_end(&mut request).unwrap();
        let _ = reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        request
    }

    #[test]
    fn spans_go_to_the_collector_at_the_latest_at_the_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let collector = std::thread::spawn(move || collect(listener));
        let telemetry = Telemetry::otlp("my-operator", &format!("http://{address}/v1/traces")).unwrap();
        let subscriber = tracing_subscriber::registry().with(telemetry.layer());
        tracing::subscriber::with_default(subscriber, || tracing::info_span!("reconcile").in_scope(|| ()));
        telemetry.shutdown().unwrap();
        // If nothing was sent, this connection ends the wait of the collector.
        drop(std::net::TcpStream::connect(address));
        let request = String::from_utf8_lossy(&collector.join().unwrap()).into_owned();
        assert!(request.starts_with("POST /v1/traces HTTP/1.1"), "{request:?}");
        for said in ["my-operator", "reconcile"] {
            assert!(request.contains(said), "{said} in {request:?}");
        }
    }
}
