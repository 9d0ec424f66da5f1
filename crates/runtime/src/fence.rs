//! The fence around a leader's requests: no request starts after the renew deadline, and each ends before another
//! process can lead.
//!
//! A request is checked twice: when it is sent ([`Fence::pass`]), and whenever its bytes are written to a socket
//! (`socket.rs`). The documentation of the module `leader` says what that promises and what it does not.

#![cfg_attr(
    not(feature = "leader-election"),
    expect(dead_code, reason = "without an election, the fence lets every request pass")
)]

#[cfg(all(feature = "leader-election", feature = "rustls-tls"))]
mod socket;

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kube::{Client, Config};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Holds until when requests may start and must end. Clones share one fence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence {
    bounds: Arc<Mutex<Bounds>>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Bounds {
    /// There is no leader election: every request passes.
    #[default]
    None,
    /// This process does not lead: no request passes.
    Closed,
    /// This process leads: requests may start until `start`, and must end before `end`.
    Open { start: Instant, end: Instant },
}

/// The request was not sent, or was cut off, because this process may not be the leader any more.
#[derive(Debug, thiserror::Error)]
#[error("not the leader any more")]
pub(crate) struct Fenced;

/// The permission to send one request now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// When the request must have ended.
    end: Option<Instant>,
}

/// A client like the one that `kube` makes of this configuration, whose requests on the wire keep to the fence.
#[cfg(all(feature = "leader-election", feature = "rustls-tls"))]
pub(crate) fn client(config: Config, fence: Fence) -> kube::Result<Client> {
    socket::client(config, fence)
}

/// The client that `kube` makes of this configuration: without TLS or an election, its sockets know no fence.
#[cfg(not(all(feature = "leader-election", feature = "rustls-tls")))]
pub(crate) fn client(config: Config, _: Fence) -> kube::Result<Client> {
    Client::try_from(config)
}

impl Fence {
    /// Opens the fence: the lease was renewed by a request that was sent at `renewed`.
    pub(crate) fn renewed(&self, renewed: Instant, renew_deadline: Duration, lease_duration: Duration) {
        let bounds = Bounds::Open { start: renewed + renew_deadline, end: renewed + lease_duration };
        *self.bounds.lock() = bounds;
    }

    /// Closes the fence: no request starts from now on.
    pub(crate) fn close(&self) {
        *self.bounds.lock() = Bounds::Closed;
    }

    /// Whether there is a leader election.
    #[cfg(all(feature = "leader-election", feature = "rustls-tls"))]
    fn is_used(&self) -> bool {
        !matches!(*self.bounds.lock(), Bounds::None)
    }

    /// Whether a request that has started may still be on its way.
    #[cfg(all(feature = "leader-election", feature = "rustls-tls"))]
    fn may_end(&self) -> bool {
        match *self.bounds.lock() {
            Bounds::None => true,
            Bounds::Closed => false,
            Bounds::Open { end, .. } => Instant::now() < end,
        }
    }

    /// Asks for permission to send a request, which must start at once.
    pub(crate) fn pass(&self) -> Result<Pass, Fenced> {
        match *self.bounds.lock() {
            Bounds::None => Ok(Pass::FREE),
            Bounds::Open { start, end } if Instant::now() < start => Ok(Pass { end: Some(end) }),
            Bounds::Open { .. } | Bounds::Closed => Err(Fenced),
        }
    }
}

impl Pass {
    /// The permission for requests that need none.
    pub(crate) const FREE: Self = Self { end: None };

    /// Sends the request and waits for its answer while the permission is valid. The clock is checked before each poll, so
    /// that a process that was frozen does not continue with a request that is too late.
    pub(crate) async fn hold<T>(self, sending: impl Future<Output = T>) -> Result<T, Fenced> {
        let Some(end) = self.end else { return Ok(sending.await) };
        let mut sending = std::pin::pin!(sending);
        let checked = std::future::poll_fn(|cx| match Instant::now() < end {
            true => sending.as_mut().poll(cx).map(Ok),
            false => Poll::Ready(Err(Fenced)),
        });
        tokio::select! {
            biased;
            answer = checked => answer,
            () = tokio::time::sleep_until(end) => Err(Fenced),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;
    use crate::error::BoxError;
    use crate::metrics::Metrics;

    /// A process that was frozen while it sent a request does not continue with it.
    #[tokio::test(start_paused = true)]
    async fn a_request_does_not_go_on_after_its_time() {
        let fence = Fence::default();
        fence.renewed(Instant::now(), Duration::from_secs(10), Duration::from_secs(15));
        let polls = std::cell::Cell::new(0);
        let sending = std::future::poll_fn(|_| {
            polls.set(polls.get() + 1);
            if polls.get() == 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut request = std::pin::pin!(fence.pass().unwrap().hold(sending));
        assert!(futures::poll!(request.as_mut()).is_pending());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(matches!(futures::poll!(request.as_mut()), Poll::Ready(Err(Fenced))));
        assert_eq!(polls.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_start_before_the_deadline_and_end_before_the_lease() {
        let service = tower::service_fn(|_: Request<Body>| async {
            tokio::time::sleep(Duration::from_secs(8)).await;
            Ok::<_, BoxError>(Response::new(Body::empty()))
        });
        let fence = Fence::default();
        let client = Client::new(service, "default");
        let client = Metrics::new().around(client, "".into(), Some(fence.clone()));
        let send = || client.send(Request::get("/").body(Body::empty()).unwrap());
        assert!(send().await.is_ok(), "nobody is elected");
        fence.close();
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
