//! The fence around a leader's requests: no request starts while the lease is in doubt, and each ends before another
//! process can lead.
//!
//! A request is checked twice: when it is sent ([`Fence::pass`]), and whenever its bytes are written to a socket
//! (`socket.rs`). The documentation of the module `leader` says what is guaranteed and what is not.

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
use tokio::sync::watch;
use tokio::time::Instant;

/// Holds until when requests may start and must end. Clones share one fence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence {
    /// The current bounds. Requests that wait for a renewal subscribe to changes of them.
    bounds: Arc<watch::Sender<Bounds>>,
}

/// How long a renewal of the lease is valid, counted from when the renewal was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How long requests may start without another renewal. After that they wait for one.
    pub(crate) fresh: Duration,
    /// How long requests may start after a renewal whose response took longer than `fresh`, so that the leader can
    /// still work with a slow server.
    pub(crate) after_answer: Duration,
    /// How long requests wait for another renewal before they fail.
    pub(crate) renew_deadline: Duration,
    /// How long no other candidate takes the lease. After that, running requests are cut off.
    pub(crate) lease_duration: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
enum Bounds {
    /// There is no leader election: every request passes.
    #[default]
    None,
    /// This process does not lead: no request passes.
    Closed,
    /// This process leads. Requests may start and be written to sockets until `fresh`; until `start` they wait for a
    /// renewal; and they must end before `end`.
    Open { fresh: Instant, start: Instant, end: Instant },
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
    /// Opens the fence after a renewal of the lease, which was sent at `renewed` and has just been answered.
    pub(crate) fn renewed(&self, renewed: Instant, terms: Terms) {
        let start = renewed + terms.renew_deadline;
        let fresh = (renewed + terms.fresh).max(Instant::now() + terms.after_answer).min(start);
        self.bounds.send_replace(Bounds::Open { fresh, start, end: renewed + terms.lease_duration });
    }

    /// Closes the fence: no request starts from now on.
    pub(crate) fn close(&self) {
        self.bounds.send_replace(Bounds::Closed);
    }

    /// Whether there is a leader election.
    #[cfg(all(feature = "leader-election", feature = "rustls-tls"))]
    fn is_used(&self) -> bool {
        !matches!(*self.bounds.borrow(), Bounds::None)
    }

    #[cfg(all(feature = "leader-election", feature = "rustls-tls"))]
    fn bounds(&self) -> Bounds {
        *self.bounds.borrow()
    }

    /// Asks for permission to send a request, which must start at once. If the last renewal is no longer fresh, waits
    /// for the next one.
    pub(crate) async fn pass(&self) -> Result<Pass, Fenced> {
        loop {
            let bounds = *self.bounds.borrow();
            match bounds {
                Bounds::None => return Ok(Pass::FREE),
                Bounds::Open { fresh, end, .. } if Instant::now() < fresh => {
                    return Ok(Pass { end: Some(end) });
                }
                Bounds::Open { start, .. } if Instant::now() < start => self.renewal(start).await,
                Bounds::Open { .. } | Bounds::Closed => return Err(Fenced),
            }
        }
    }

    /// Waits until the lease is renewed, the fence is closed, or `start` has come.
    async fn renewal(&self, start: Instant) {
        let is_waited_for = |bounds: &Bounds| match bounds {
            Bounds::Open { fresh, .. } => Instant::now() < *fresh,
            Bounds::None | Bounds::Closed => true,
        };
        let mut bounds = self.bounds.subscribe();
        tokio::select! {
            biased;
            // This fence owns the sender, so the channel cannot be closed.
            _ = bounds.wait_for(is_waited_for) => {}
            () = tokio::time::sleep_until(start) => {}
        }
    }
}

#[cfg(all(feature = "leader-election", feature = "rustls-tls"))]
impl Bounds {
    /// Whether the bytes of a request that has started may be written to a socket now.
    fn may_send(self) -> bool {
        match self {
            Self::None => true,
            Self::Closed => false,
            Self::Open { fresh, .. } => Instant::now() < fresh,
        }
    }

    /// Whether another process may have become the leader by now.
    fn may_be_over(self) -> bool {
        matches!(self, Self::Open { end, .. } if Instant::now() >= end)
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

    pub(super) const TERMS: Terms = Terms {
        fresh: Duration::from_secs(3),
        after_answer: Duration::from_secs(1),
        renew_deadline: Duration::from_secs(10),
        lease_duration: Duration::from_secs(15),
    };

    /// A process that was frozen while it sent a request does not continue with it.
    #[tokio::test(start_paused = true)]
    async fn a_request_does_not_go_on_after_its_time() {
        let fence = Fence::default();
        fence.renewed(Instant::now(), TERMS);
        let polls = std::cell::Cell::new(0);
        let sending = std::future::poll_fn(|_| {
            polls.set(polls.get() + 1);
            if polls.get() == 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut request = std::pin::pin!(fence.pass().await.unwrap().hold(sending));
        assert!(futures::poll!(request.as_mut()).is_pending());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(matches!(futures::poll!(request.as_mut()), Poll::Ready(Err(Fenced))));
        assert_eq!(polls.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_start_before_the_deadline_and_end_before_the_lease() {
        let service = tower::service_fn(|_: Request<Body>| async {
            tokio::time::sleep(Duration::from_secs(14)).await;
            Ok::<_, BoxError>(Response::new(Body::empty()))
        });
        let fence = Fence::default();
        let client = Client::new(service, "default");
        let client = Metrics::new().around(client, "".into(), Some(fence.clone()));
        let send = || client.send(Request::get("/").body(Body::empty()).unwrap());
        assert!(send().await.is_ok(), "nobody is elected");
        fence.close();
        assert!(send().await.is_err(), "closed before the first renewal");
        fence.renewed(Instant::now(), TERMS);
        assert!(send().await.is_ok());
        let renewed = Instant::now();
        fence.renewed(renewed, TERMS);
        tokio::time::advance(Duration::from_secs(2)).await;
        let cut = send().await.unwrap_err();
        assert!(matches!(cut, kube::Error::Service(error) if error.is::<Fenced>()));
        assert_eq!(renewed.elapsed(), Duration::from_secs(15));
        assert!(send().await.is_err(), "none starts after the renew deadline");
        fence.renewed(Instant::now(), TERMS);
        assert!(send().await.is_ok());
        fence.close();
        assert!(send().await.is_err());
    }

    /// While the last renewal is not fresh, another process may have recreated a deleted lease and become the leader.
    /// Requests wait until a renewal shows whether that happened.
    #[tokio::test(start_paused = true)]
    async fn requests_wait_while_the_lease_is_in_doubt() {
        let fence = Fence::default();
        let begin = Instant::now();
        fence.renewed(begin, TERMS);
        tokio::time::advance(TERMS.fresh).await;
        let mut renewed = std::pin::pin!(fence.pass());
        assert!(futures::poll!(renewed.as_mut()).is_pending());
        fence.renewed(Instant::now(), TERMS);
        assert!(matches!(futures::poll!(renewed), Poll::Ready(Ok(_))));

        tokio::time::advance(TERMS.fresh).await;
        let mut refused = std::pin::pin!(fence.pass());
        assert!(futures::poll!(refused.as_mut()).is_pending());
        fence.close();
        assert!(matches!(futures::poll!(refused), Poll::Ready(Err(Fenced))));

        let renewed = Instant::now();
        fence.renewed(renewed, TERMS);
        tokio::time::advance(TERMS.fresh).await;
        assert!(fence.pass().await.is_err());
        assert_eq!(renewed.elapsed(), TERMS.renew_deadline, "requests wait until the renew deadline");
    }

    /// A server that takes longer to answer than a renewal stays fresh must not stop the leader from working.
    #[tokio::test(start_paused = true)]
    async fn requests_start_after_a_slow_renewal_too() {
        let fence = Fence::default();
        let sent = Instant::now();
        tokio::time::advance(TERMS.fresh + Duration::from_secs(2)).await;
        fence.renewed(sent, TERMS);
        assert!(fence.pass().await.is_ok());
        tokio::time::advance(TERMS.after_answer).await;
        assert!(futures::poll!(std::pin::pin!(fence.pass())).is_pending());
        tokio::time::advance(TERMS.renew_deadline).await;
        fence.renewed(sent, TERMS);
        assert!(fence.pass().await.is_err(), "the renew deadline counts from when the renewal was sent");
    }
}
