//! What a running operator reports about itself: the log on stderr and, with the feature `otel`, spans and metrics to an
//! OpenTelemetry collector.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::Manager;
#[cfg(feature = "otel")]
use crate::telemetry::Telemetry;

/// The variable that names a collector for everything.
#[cfg(not(feature = "otel"))]
const COLLECTOR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The reports of one process.
pub(super) struct Reporting {
    #[cfg(feature = "otel")]
    telemetry: Option<Telemetry>,
}

impl Reporting {
    /// Writes the log of this filter to stderr, and sends to the collector that the environment names.
    pub(super) fn start(operator: &str, filter: &str) -> anyhow::Result<Self> {
        let filter = EnvFilter::try_new(filter).with_context(|| format!("cannot read --log {filter}"))?;
        // Colours only on a terminal, and not if NO_COLOR is set (https://no-color.org).
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colours = std::io::stderr().is_terminal() && !refused;
        let log = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
        let subscriber = tracing_subscriber::registry().with(log.with_filter(filter));
        #[cfg(feature = "otel")]
        {
            let telemetry = Telemetry::from_env(operator)?;
            let spans = telemetry.as_ref().map(|telemetry| telemetry.layer().with_filter(is_reported()));
            subscriber.with(spans).init();
            Ok(Self { telemetry })
        }
        #[cfg(not(feature = "otel"))]
        {
            subscriber.init();
            if std::env::var_os(COLLECTOR).is_some_and(|value| !value.is_empty()) {
                tracing::warn!(
                    operator,
                    "{COLLECTOR} is set, but this build sends nothing: enable the feature `otel`"
                );
            }
            Ok(Self {})
        }
    }

    /// Runs a manager, and sends its metrics meanwhile and at the end.
    pub(super) async fn run(&self, manager: Manager) -> anyhow::Result<()> {
        #[cfg(feature = "otel")]
        let metrics = self.telemetry.as_ref().map(|telemetry| telemetry.export_metrics(manager.metrics()));
        let ended = manager.run().await;
        #[cfg(feature = "otel")]
        if let Some(metrics) = metrics {
            metrics.finish().await;
        }
        Ok(ended?)
    }

    /// Sends the spans that wait. Must not be called on a runtime.
    pub(super) fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(Err(error)) = self.telemetry.map(Telemetry::shutdown) {
            // The operator has ended its work, so lost spans are worth only a warning.
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Which spans go to the collector: ours and the operator's, but not those about sending them.
#[cfg(feature = "otel")]
fn is_reported() -> tracing_subscriber::filter::Targets {
    use tracing::level_filters::LevelFilter;
    let senders = [
        "h2",
        "hyper",
        "hyper_util",
        "opentelemetry",
        "opentelemetry_sdk",
        "opentelemetry_otlp",
        "reqwest",
        "tower",
    ];
    tracing_subscriber::filter::Targets::new()
        .with_default(LevelFilter::INFO)
        .with_targets(senders.map(|target| (target, LevelFilter::OFF)))
}
