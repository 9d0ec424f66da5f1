//! Counts the requests of a manager's client, with the names of client-go's metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

use super::Encoded;
use crate::error::BoxError;
use crate::fence::{Fence, Pass};
use crate::flight;

/// The code of a request that was never answered, as in client-go.
const NO_ANSWER: &str = "<error>";

/// The buckets of client-go's histogram, from 5 ms to a minute.
const LATENCY_BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// The counters of requests. There are few codes and methods, so that one lock is enough.
#[derive(Default)]
pub(super) struct Requests {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// The number of requests by code, host and method.
    totals: BTreeMap<(String, Arc<str>, String), u64>,
    /// The time until the head of the answer, by host and method.
    latencies: BTreeMap<(Arc<str>, String), Histogram>,
}

impl Requests {
    /// A client whose requests are counted here, as requests to this host. A request that the fence holds back is not
    /// counted.
    pub(super) fn around(self: &Arc<Self>, client: Client, host: Arc<str>, fence: Option<Fence>) -> Client {
        let requests = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (requests, host, client) = (requests.clone(), host.clone(), client.clone());
            let fence = fence.clone();
            async move {
                let pass = match fence {
                    Some(fence) => fence.pass().await?,
                    None => Pass::FREE,
                };
                let (start, method) = (Instant::now(), request.method().as_str().to_owned());
                let asked = flight::asked(&request);
                let answer = pass.hold(client.send(request)).await;
                let code = answer.as_ref().ok().and_then(|answer| answer.as_ref().ok());
                if let Some(asked) = asked {
                    asked.answered(code.map_or(0, |answer| answer.status().as_u16()));
                }
                let code = code.map(|answer| answer.status().as_u16().to_string());
                requests.count(host, method, code, start.elapsed());
                answer?.map_err(BoxError::from)
            }
        });
        Client::new(service, namespace)
    }

    fn count(&self, host: Arc<str>, method: String, code: Option<String>, took: Duration) {
        let mut counts = self.counts.lock();
        let code = code.unwrap_or_else(|| NO_ANSWER.to_owned());
        *counts.totals.entry((code, host.clone(), method.clone())).or_default() += 1;
        let latency = counts.latencies.entry((host, method));
        latency.or_insert_with(|| Histogram::new(LATENCY_BUCKETS)).observe(took.as_secs_f64());
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Encoded {
        let counts = self.counts.lock();
        let help = "Requests to the API server by code, method and host";
        let mut metric =
            encoder.encode_descriptor("rest_client_requests", help, None, MetricType::Counter)?;
        for ((code, host, method), count) in &counts.totals {
            let labels = [("code", code.as_str()), ("host", host), ("method", method)];
            ConstCounter::new(*count as f64).encode(metric.encode_family(&labels)?)?;
        }
        let (name, help) = ("rest_client_request_duration_seconds", "Time until the head of an answer");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for ((host, verb), latency) in &counts.latencies {
            let labels = [("host", &**host), ("verb", verb.as_str())];
            latency.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Requests")
    }
}

#[cfg(test)]
mod tests {
    use http::{Response, StatusCode};

    use super::super::Metrics;
    use super::*;
    use crate::fence::Terms;

    #[tokio::test(start_paused = true)]
    async fn requests_are_counted_by_code_and_method() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if request.uri().path() == "/broken" {
                return Err("cut".into());
            }
            let code =
                if request.uri().path() == "/missing" { StatusCode::NOT_FOUND } else { StatusCode::OK };
            Ok::<_, BoxError>(Response::builder().status(code).body(Body::empty()).unwrap())
        });
        let metrics = Metrics::new();
        let client = metrics.around(Client::new(service, "team"), "api.example.com".into(), None);
        for path in ["/", "/", "/missing", "/broken"] {
            let _ = client.send(Request::get(path).body(Body::empty()).unwrap()).await;
        }
        let text = metrics.encode();
        assert_eq!(client.default_namespace(), "team");
        let broken = client.send(Request::get("/broken").body(Body::empty()).unwrap()).await.unwrap_err();
        assert!(matches!(&broken, kube::Error::Service(inner) if inner.to_string() == "cut"), "{broken:?}");
        for line in [
            "rest_client_requests_total{code=\"200\",host=\"api.example.com\",method=\"GET\"} 2",
            "rest_client_requests_total{code=\"404\",host=\"api.example.com\",method=\"GET\"} 1",
            "rest_client_requests_total{code=\"<error>\",host=\"api.example.com\",method=\"GET\"} 1",
            "rest_client_request_duration_seconds_count{host=\"api.example.com\",verb=\"GET\"} 4",
            "rest_client_request_duration_seconds_bucket{le=\"0.25\",host=\"api.example.com\",verb=\"GET\"} 0",
            "rest_client_request_duration_seconds_bucket{le=\"0.5\",host=\"api.example.com\",verb=\"GET\"} 4",
        ] {
            assert!(text.lines().any(|found| found.replace(".0", "") == line), "{line} in\n{text}");
        }
    }

    /// A request that the fence holds back is not counted.
    #[tokio::test(start_paused = true)]
    async fn what_is_not_sent_is_not_counted() {
        let service =
            tower::service_fn(|_: Request<Body>| async { Ok::<_, BoxError>(Response::new(Body::empty())) });
        let (metrics, fence) = (Metrics::new(), Fence::default());
        let client = Client::new(service, "default");
        let client = metrics.around(client, "api.example.com".into(), Some(fence.clone()));
        let get = || Request::get("/").body(Body::empty()).unwrap();
        fence.close();
        assert!(client.send(get()).await.is_err());
        assert!(!metrics.encode().contains("api.example.com"));
        let [fresh, after_answer, renew_deadline, lease_duration] = [3, 1, 10, 15].map(Duration::from_secs);
        fence.renewed(Instant::now(), Terms { fresh, after_answer, renew_deadline, lease_duration });
        assert!(client.send(get()).await.is_ok());
        assert!(metrics.encode().contains("api.example.com"));
    }
}
