//! Stands in for the metrics in a build without the feature `metrics`: nothing is counted.

use std::sync::Arc;
use std::time::Duration;

use http::Request as HttpRequest;
use kube::Client;
use kube::client::Body;

use crate::error::BoxError;
use crate::fence::Fence;
use crate::flight;
use crate::informer::Informers;
use crate::queue::Item;
use crate::{Queue, Request};

#[derive(Clone, Debug)]
pub(crate) struct Metrics;

impl Metrics {
    pub(crate) fn new() -> Self {
        Self
    }

    /// A client whose requests keep to the fence, if there is one.
    pub(crate) fn around(&self, client: Client, _: Arc<str>, fence: Option<Fence>) -> Client {
        let Some(fence) = fence else { return client };
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: HttpRequest<Body>| {
            let (client, fence) = (client.clone(), fence.clone());
            async move {
                let pass = fence.pass().await?;
                let asked = flight::asked(&request);
                let answer = pass.hold(client.send(request)).await?;
                if let Some(asked) = asked {
                    asked.answered(answer.as_ref().map_or(0, |answer| answer.status().as_u16()));
                }
                answer.map_err(BoxError::from)
            }
        });
        Client::new(service, namespace)
    }

    pub(crate) fn watch_informers(&self, _: &Informers) {}

    #[cfg(feature = "leader-election")]
    pub(crate) fn leader(&self, _: &str, _: bool) {}

    #[cfg(feature = "tls-server")]
    pub(crate) fn certificate(&self, _: &'static str, _: impl Fn() -> Option<i64> + Send + Sync + 'static) {}

    #[cfg(feature = "webhooks")]
    pub(crate) fn webhook(&self, _: &str) -> Counted {
        Counted
    }

    #[cfg(feature = "webhooks")]
    pub(crate) fn webhook_panicked(&self, _: bool) {}

    pub(crate) fn controller(&self, _: Arc<str>, _: Queue, _: usize) -> Arc<ControllerMetrics> {
        Arc::new(ControllerMetrics)
    }
}

/// How a reconcile would be counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Result {
    Success,
    Error,
    Requeue,
    RequeueAfter,
}

pub(crate) struct ControllerMetrics;

impl ControllerMetrics {
    pub(crate) fn began(&self, _: &Item) {}

    pub(crate) fn ended(&self, _: &Request, _: Duration, _: Result) {}

    pub(crate) fn panicked(&self) {}

    pub(crate) fn timed_out(&self) {}

    pub(crate) fn failed_for_good(&self) {}

    pub(crate) fn waited_for_own_writes(&self) {}

    pub(crate) fn read_live(&self) {}
}

/// A request to a webhook, which this build does not count.
#[cfg(feature = "webhooks")]
pub(crate) struct Counted;

#[cfg(feature = "webhooks")]
impl Counted {
    pub(crate) fn ended(self, _: http::StatusCode) {}
}
