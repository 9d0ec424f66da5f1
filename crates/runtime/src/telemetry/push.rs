//! Sends the metrics of a manager to an OpenTelemetry collector, from time to time.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_env::Env;
use http::{Request, header};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::Resource;
use prost::Message as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::convert::converted;
use super::environment::Push;
use crate::Metrics;

/// Sends metrics until it is finished or dropped.
#[derive(Debug)]
pub struct MetricsExport {
    finish: CancellationToken,
    task: JoinHandle<()>,
}

impl MetricsExport {
    /// Begins to send. Does nothing without a destination.
    pub(super) fn start(push: Option<Push>, resource: &Resource, metrics: Metrics, env: &Env) -> Self {
        let finish = CancellationToken::new();
        let Some(push) = push else { return Self { finish, task: tokio::spawn(std::future::ready(())) } };
        let sender = Sender {
            client: Client::builder(TokioExecutor::new()).build_http(),
            resource: Arc::new(resource.clone()),
            start: env.now().as_nanosecond().try_into().unwrap_or_default(),
            env: env.clone(),
            push,
            metrics,
        };
        let finished = finish.clone();
        Self { finish, task: tokio::spawn(async move { sender.run(finished).await }) }
    }

    /// Sends the metrics a last time, and ends.
    pub async fn finish(mut self) {
        self.finish.cancel();
        // A task that has panicked has nothing left to send.
        let _ = (&mut self.task).await;
    }
}

impl Drop for MetricsExport {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Sender {
    client: Client<HttpConnector, Full<Bytes>>,
    push: Push,
    resource: Arc<Resource>,
    metrics: Metrics,
    env: Env,
    /// When the counters began, in nanoseconds since 1970.
    start: u64,
}

impl Sender {
    async fn run(self, finish: CancellationToken) {
        loop {
            let ends = tokio::select! {
                biased;
                () = finish.cancelled() => true,
                () = tokio::time::sleep(self.push.interval) => false,
            };
            if let Err(error) = self.send().await {
                // The next attempt sends the same counters, so nothing is lost while the collector is away.
                tracing::warn!(endpoint = self.push.endpoint, error, "cannot send metrics to the collector");
            }
            if ends {
                return;
            }
        }
    }

    async fn send(&self) -> Result<(), String> {
        let now = self.env.now().as_nanosecond().try_into().unwrap_or_default();
        let metrics = converted(&self.metrics.encode(), &self.resource, self.start, now);
        let body = ExportMetricsServiceRequest { resource_metrics: vec![metrics] }.encode_to_vec();
        let mut request =
            Request::post(&self.push.endpoint).header(header::CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &self.push.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body.into())).map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout(self.push.timeout, self.client.request(request)).await;
        let answer = answer.map_err(|_| format!("no answer within {:?}", self.push.timeout))?;
        let answer = answer.map_err(|error| crate::error::chain(&error))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answered with {status}")),
        }
    }
}
