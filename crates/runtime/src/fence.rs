//! The fence around a leader's requests: none starts after the renew deadline, and each ends before another may lead.
//!
//! What remains: a request that has left the process can still be served after the lease has passed on, if the
//! network or the server held it for longer than its timeout. Kubernetes has no fencing tokens; whoever cannot bear
//! that writes with preconditions (a resource version), which the context's updates and finalizers do. A process that
//! is frozen between the check and the send is in the same case: at most the one request it was about to send, whose
//! timeout has long passed when it wakes.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::BoxError;

/// Until when requests may start and must end. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence {
    bounds: Arc<Mutex<Option<Bounds>>>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    start: Instant,
    end: Instant,
}

/// A request that was not sent, or was cut off, because the process may no longer be the leader.
#[derive(Debug, thiserror::Error)]
#[error("not the leader any more")]
pub(crate) struct Fenced;

impl Fence {
    /// The lease was renewed by a request that began at `renewed`.
    pub(crate) fn renewed(&self, renewed: Instant, renew_deadline: Duration, lease_duration: Duration) {
        let bounds = Bounds { start: renewed + renew_deadline, end: renewed + lease_duration };
        *self.bounds.lock() = Some(bounds);
    }

    /// No request starts from now on.
    pub(crate) fn close(&self) {
        *self.bounds.lock() = None;
    }

    /// When a request that starts now must have ended; an error if none may start.
    fn open(&self) -> Result<Instant, Fenced> {
        match *self.bounds.lock() {
            Some(bounds) if Instant::now() < bounds.start => Ok(bounds.end),
            _ => Err(Fenced),
        }
    }

    /// A client whose requests keep to this fence.
    pub(crate) fn around(&self, client: Client) -> Client {
        let fence = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (fence, client) = (fence.clone(), client.clone());
            async move { fence.send(&client, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(&self, client: &Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let end = self.open()?;
        match tokio::time::timeout_at(end, client.send(request)).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Fenced.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_start_before_the_deadline_and_end_before_the_lease() {
        let service = tower::service_fn(|_: Request<Body>| async {
            tokio::time::sleep(Duration::from_secs(8)).await;
            Ok::<_, BoxError>(Response::new(Body::empty()))
        });
        let fence = Fence::default();
        let client = fence.around(Client::new(service, "default"));
        let send = || client.send(Request::get("/").body(Body::empty()).unwrap());
        assert!(send().await.is_err(), "closed before the first renewal");
        let renewed = Instant::now();
        fence.renewed(renewed, Duration::from_secs(10), Duration::from_secs(15));
        assert!(send().await.is_ok());
        let cut = send().await.unwrap_err();
        assert!(matches!(cut, kube::Error::Service(error) if error.is::<Fenced>()));
        assert_eq!(renewed.elapsed(), Duration::from_secs(15));
        assert!(send().await.is_err(), "none starts after the renew deadline");
        fence.renewed(Instant::now(), Duration::from_secs(10), Duration::from_secs(15));
        assert!(send().await.is_ok());
        fence.close();
        assert!(send().await.is_err());
    }
}
