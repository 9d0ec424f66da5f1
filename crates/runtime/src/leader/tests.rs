//! One candidate against a server that holds one lease and can be slow.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;

use super::*;

/// A lease on a server, and how long its answers take.
#[derive(Clone)]
struct Server {
    lease: Arc<Mutex<Option<Lease>>>,
    delay: Arc<Mutex<Duration>>,
    env: Env,
}

impl Server {
    fn new() -> Self {
        Self { lease: Arc::default(), delay: Arc::default(), env: Env::seeded(1) }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request).await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> kube::Result<Response<Body>> {
        let delay = *self.delay.lock();
        tokio::time::sleep(delay).await;
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        if parts.method != Method::GET {
            *self.lease.lock() = Some(serde_json::from_slice(&body).unwrap());
        }
        let (code, body) = match &*self.lease.lock() {
            Some(lease) => (StatusCode::OK, serde_json::to_vec(lease).unwrap()),
            None => (StatusCode::NOT_FOUND, b"{}".to_vec()),
        };
        Ok(Response::builder().status(code).body(Body::from(body)).unwrap())
    }

    fn candidate(&self, identity: &str) -> Candidate {
        let election = LeaderElection::new("a", "b").identity(identity);
        Candidate::new(election, self.client(), self.env.clone(), Fence::default())
    }

    /// Somebody else takes or renews the lease at this moment.
    fn renewed_by(&self, identity: &str) {
        let found = self.lease.lock().clone().unwrap_or_default();
        *self.lease.lock() = Some(self.candidate(identity).claim(found));
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_when_it_has_not_changed_for_its_duration() {
    let server = Server::new();
    server.renewed_by("other");
    let mut candidate = server.candidate("we");
    assert!(!candidate.attempt().await.unwrap());
    seconds(14).await;
    server.renewed_by("other");
    assert!(!candidate.attempt().await.unwrap(), "it changed, so that its time begins anew");
    seconds(14).await;
    assert!(!candidate.attempt().await.unwrap());
    seconds(1).await;
    assert!(candidate.attempt().await.unwrap());
    let spec = server.lease.lock().clone().unwrap().spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("we"), Some(1)));
    assert_eq!(spec.lease_duration_seconds, Some(15));
}

/// The holder may have renewed while our question was under way: what was seen counts from the answer.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_shorten_the_lease_of_another() {
    let server = Server::new();
    *server.delay.lock() = Duration::from_secs(8);
    let mut candidate = server.candidate("we");
    let slow = async {
        seconds(7).await;
        server.renewed_by("other");
    };
    let (attempt, ()) = tokio::join!(candidate.attempt(), slow);
    assert!(!attempt.unwrap());
    *server.delay.lock() = Duration::ZERO;
    seconds(14).await;
    assert!(!candidate.attempt().await.unwrap(), "22 s after the question, 14 s after the answer");
    seconds(1).await;
    assert!(candidate.attempt().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_not_free_before_its_time_but_for_its_holder() {
    let server = Server::new();
    let (mut holder, mut other) = (server.candidate("we"), server.candidate("they"));
    assert!(holder.attempt().await.unwrap());
    assert!(!other.attempt().await.unwrap());
    seconds(2).await;
    *server.lease.lock() = None;
    assert!(!other.attempt().await.unwrap(), "the holder does not know yet that it is gone");
    assert!(holder.attempt().await.unwrap(), "the holder makes it anew");
    *server.lease.lock() = None;
    seconds(15).await;
    assert!(other.attempt().await.unwrap());
}

/// Who comes first to an empty place waits for nobody.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_back_or_never_was_is_free() {
    let server = Server::new();
    let mut first = server.candidate("first");
    assert!(first.attempt().await.unwrap());
    first.release().await;
    assert!(server.candidate("second").attempt().await.unwrap());
}

/// Whoever is told that another holds the lease sends nothing more, though its own time has not run out.
#[tokio::test(start_paused = true)]
async fn who_is_no_leader_any_more_sends_nothing_before_its_time_is_over_either() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    let fence = candidate.fence.clone();
    assert!(candidate.attempt().await.unwrap() && fence.pass().is_ok());
    server.renewed_by("other");
    let lost = candidate.lead(&CancellationToken::new()).await.unwrap_err();
    assert_eq!(lost.cause, "another holds it");
    assert!(fence.pass().is_err());

    let server = Server::new();
    let mut candidate = server.candidate("we");
    let fence = candidate.fence.clone();
    assert!(candidate.attempt().await.unwrap() && fence.pass().is_ok());
    candidate.release().await;
    assert!(fence.pass().is_err(), "it was given back");
}

/// The server counts the lease from when it was asked at the latest: so does its holder.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_lengthen_our_own_lease() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    let fence = candidate.fence.clone();
    // A look and a write.
    *server.delay.lock() = Duration::from_secs(4);
    assert!(candidate.attempt().await.unwrap());
    seconds(1).await;
    assert!(fence.pass().is_ok(), "9 s after it began to renew");
    seconds(1).await;
    assert!(fence.pass().is_err(), "10 s after it began to renew, and 2 s after it knew");

    let (start, stop) = (Instant::now(), CancellationToken::new());
    let silence = async {
        seconds(11).await;
        *server.delay.lock() = Duration::from_secs(1000);
    };
    let (led, ()) = tokio::join!(candidate.lead(&stop), silence);
    assert!(led.is_err());
    // The last renewal began after 2 s and was answered after 10 s.
    assert_eq!(start.elapsed(), Duration::from_secs(12));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_for_longer_is_left_for_longer() {
    let server = Server::new();
    server.renewed_by("other");
    if let Some(spec) = server.lease.lock().as_mut().and_then(|lease| lease.spec.as_mut()) {
        spec.lease_duration_seconds = Some(60);
    }
    let mut candidate = server.candidate("we");
    assert!(!candidate.attempt().await.unwrap());
    seconds(59).await;
    assert!(!candidate.attempt().await.unwrap());
    seconds(1).await;
    assert!(candidate.attempt().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_moves_the_time_of_the_renewal_alone() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    let spec = || server.lease.lock().clone().unwrap().spec.unwrap();
    assert!(candidate.attempt().await.unwrap());
    let taken = spec();
    seconds(2).await;
    assert!(candidate.attempt().await.unwrap());
    let renewed = spec();
    assert!(renewed.renew_time > taken.renew_time);
    assert_eq!(
        (renewed.acquire_time, renewed.lease_transitions),
        (taken.acquire_time, taken.lease_transitions)
    );
}

#[tokio::test(start_paused = true)]
async fn an_identity_is_random_unless_set() {
    let server = Server::new();
    let unnamed = || {
        Candidate::new(LeaderElection::new("a", "b"), server.client(), server.env.clone(), Fence::default())
    };
    assert_ne!(unnamed().identity, unnamed().identity);
    assert_eq!(server.candidate("we").identity, "we");
}

#[test]
fn times_keep_their_order() {
    let second = Duration::from_secs(1);
    let election = LeaderElection::new("a", "b").times(second, second, second);
    assert!(election.retry_period < election.renew_deadline);
    assert!(election.renew_deadline < election.lease_duration);
}
