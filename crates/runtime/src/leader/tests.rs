//! Tests of one candidate with a server that has one lease and can be slow.

use std::sync::Arc;

use futures::FutureExt as _;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;

use super::*;

/// A server with one lease, the delay of its answers, and its requests.
#[derive(Clone)]
struct Server {
    lease: Arc<Mutex<Option<Lease>>>,
    asked: Arc<Mutex<Vec<Method>>>,
    delay: Arc<Mutex<Duration>>,
    /// How many of the next requests the server forbids.
    forbidden: Arc<Mutex<u32>>,
    env: Env,
}

impl Server {
    fn new() -> Self {
        Self {
            lease: Arc::default(),
            asked: Arc::default(),
            delay: Arc::default(),
            forbidden: Arc::default(),
            env: Env::seeded(1),
        }
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
        self.asked.lock().push(request.method().clone());
        let delay = *self.delay.lock();
        tokio::time::sleep(delay).await;
        let left = self.forbidden.lock().checked_sub(1);
        if let Some(left) = left {
            *self.forbidden.lock() = left;
            return Ok(Response::builder().status(StatusCode::FORBIDDEN).body(Body::empty()).unwrap());
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let code = match parts.method {
            Method::GET => None,
            _ => self.write(parts.method, serde_json::from_slice(&body).unwrap()),
        };
        let answer = match (code, &*self.lease.lock()) {
            (Some(code), _) => (code, b"{}".to_vec()),
            (None, Some(lease)) => (StatusCode::OK, serde_json::to_vec(lease).unwrap()),
            (None, None) => (StatusCode::NOT_FOUND, b"{}".to_vec()),
        };
        Ok(Response::builder().status(answer.0).body(Body::from(answer.1)).unwrap())
    }

    /// Writes the lease. Returns the error code if the lease is not as the writer expects.
    fn write(&self, method: Method, mut lease: Lease) -> Option<StatusCode> {
        let mut kept = self.lease.lock();
        match &*kept {
            None if method == Method::PUT => return Some(StatusCode::NOT_FOUND),
            Some(_) if method == Method::POST => return Some(StatusCode::CONFLICT),
            Some(found) if found.metadata.resource_version != lease.metadata.resource_version => {
                return Some(StatusCode::CONFLICT);
            }
            _ => {}
        }
        lease.metadata.resource_version = Some(self.env.uid());
        *kept = Some(lease);
        None
    }

    fn candidate(&self, identity: &str) -> Candidate {
        let election = LeaderElection::new("a", "b").identity(identity);
        Candidate::new(election, self.client(), self.env.clone(), Fence::default())
    }

    /// Lets another candidate take or renew the lease now.
    fn renewed_by(&self, identity: &str) {
        let found = self.lease.lock().clone();
        let method = if found.is_some() { Method::PUT } else { Method::POST };
        let refused = self.write(method, self.candidate(identity).claim(found.unwrap_or_default()));
        assert_eq!(refused, None);
    }
}

/// Whether the fence currently lets a request through.
fn sends(fence: &Fence) -> bool {
    matches!(fence.pass().now_or_never(), Some(Ok(_)))
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// With several threads, a test once saw rest between the response to the first attempt and the wait for the next one,
/// and missed what the leader did later.
#[tokio::test(start_paused = true)]
async fn an_election_is_pending_work_from_its_first_request_until_the_leader_works() {
    let server = Server::new();
    *server.delay.lock() = Duration::from_secs(1);
    let ledger = server.env.ledger().clone();
    let begin = Instant::now();
    let mut candidate = server.candidate("we");
    let stop = CancellationToken::new();
    let electing = candidate.acquire(&stop);
    let resting = async {
        ledger.idle(Duration::from_secs(60)).await.unwrap();
        assert_eq!(
            begin.elapsed(),
            Duration::from_secs(2),
            "a request to read the lease, and one to create it"
        );
    };
    let (work, ()) = tokio::join!(biased; electing, resting);
    assert_eq!(begin.elapsed(), Duration::from_secs(2 + 4 + 1), "the proving time, and a request to renew");
    assert!(!ledger.is_empty(), "the leader has not begun to work");
    drop(work);
    assert!(ledger.pending().is_empty(), "{:?}", ledger.pending());
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

/// The holder may have renewed while our request was on its way: the observation counts from the answer.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_shorten_the_lease_of_another() {
    let server = Server::new();
    *server.delay.lock() = Duration::from_secs(4);
    let mut candidate = server.candidate("we");
    let slow = async {
        seconds(3).await;
        server.renewed_by("other");
    };
    let (attempt, ()) = tokio::join!(candidate.attempt(), slow);
    assert!(!attempt.unwrap());
    *server.delay.lock() = Duration::ZERO;
    seconds(14).await;
    assert!(!candidate.attempt().await.unwrap(), "18 s after the question, 14 s after the answer");
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

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_back_is_taken_at_the_first_look() {
    let server = Server::new();
    let stop = CancellationToken::new();
    let mut first = server.candidate("first");
    first.acquire(&stop).await.unwrap();
    first.release().await;
    let start = Instant::now();
    server.candidate("second").acquire(&stop).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// After learning that another process holds the lease, no request is sent, even before the deadline.
#[tokio::test(start_paused = true)]
async fn who_is_no_leader_any_more_sends_nothing_before_its_time_is_over_either() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    let fence = candidate.fence.clone();
    assert!(candidate.attempt().await.unwrap() && sends(&fence));
    server.renewed_by("other");
    let lost = candidate.lead(&CancellationToken::new()).await.unwrap_err();
    assert_eq!(lost.cause, "another holds it");
    assert!(!sends(&fence));

    let server = Server::new();
    let mut candidate = server.candidate("we");
    let fence = candidate.fence.clone();
    assert!(candidate.attempt().await.unwrap() && sends(&fence));
    candidate.release().await;
    assert!(!sends(&fence), "it was given back");
}

/// Other candidates may see the lease change as soon as it is written, before the answer reaches its holder.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_does_not_lengthen_our_own_lease() {
    let server = Server::new();
    server.renewed_by("we");
    let mut candidate = server.candidate("we");
    let fence = candidate.fence.clone();
    // A read and a write.
    *server.delay.lock() = Duration::from_secs(4);
    assert!(candidate.attempt().await.unwrap());
    assert!(sends(&fence), "4 s after the write began");
    seconds(5).await;
    assert!(fence.pass().now_or_never().is_none(), "9 s after the write began, requests wait");
    seconds(1).await;
    assert!(fence.pass().await.is_err(), "10 s after the write began, and 6 s after its answer");

    let mut candidate = server.candidate("we");
    assert!(candidate.attempt().await.unwrap());
    let (start, stop) = (Instant::now(), CancellationToken::new());
    let silence = async {
        seconds(11).await;
        *server.delay.lock() = Duration::from_secs(1000);
    };
    let (led, ()) = tokio::join!(candidate.lead(&stop), silence);
    assert!(led.is_err());
    // Renewals began at once and after 4 and 8 s; the last one was answered after 12 s.
    assert_eq!(start.elapsed(), Duration::from_secs(18));
}

/// The time that winning the lease took is missing from the first renew deadline.
#[tokio::test(start_paused = true)]
async fn the_first_deadline_counts_from_the_write_that_won_too() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    *server.delay.lock() = Duration::from_secs(4);
    assert!(candidate.attempt().await.unwrap());
    let start = Instant::now();
    *server.delay.lock() = Duration::from_secs(1000);
    let lost = candidate.lead(&CancellationToken::new()).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(6));
    assert_eq!(lost.cause, "no answer by the deadline; before: ServiceError: no answer within 5s");
}

#[tokio::test(start_paused = true)]
async fn one_request_that_is_never_answered_costs_no_leader_its_lease() {
    let server = Server::new();
    server.renewed_by("we");
    let mut candidate = server.candidate("we");
    *server.delay.lock() = Duration::from_secs(1000);
    let (start, stop) = (Instant::now(), CancellationToken::new());
    let answered = async {
        seconds(1).await;
        *server.delay.lock() = Duration::ZERO;
    };
    tokio::join!(candidate.acquire(&stop), answered).0.unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "given up after 5 s, and asked again: {:?}",
        start.elapsed()
    );

    for _ in 0..10 {
        let stop = CancellationToken::new();
        let hangs = async {
            seconds(1).await;
            *server.delay.lock() = Duration::from_secs(1000);
            seconds(2).await;
            *server.delay.lock() = Duration::ZERO;
            seconds(10).await;
            stop.cancel();
        };
        let (led, ()) = tokio::join!(candidate.lead(&stop), hangs);
        assert!(led.is_ok(), "{led:?}");
    }
}

/// The holder knows what it wrote: a read before each renewal would be one more request that can fail.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_one_request() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    assert!(candidate.attempt().await.unwrap());
    assert_eq!(std::mem::take(&mut *server.asked.lock()), [Method::GET, Method::POST]);
    seconds(2).await;
    assert!(candidate.attempt().await.unwrap());
    assert_eq!(std::mem::take(&mut *server.asked.lock()), [Method::PUT]);
    *server.lease.lock() = None;
    assert!(candidate.attempt().await.unwrap(), "made anew");
    assert_eq!(*server.asked.lock(), [Method::PUT, Method::GET, Method::POST]);
}

/// A renewal by a process that is about to end would keep others from taking the lease.
#[tokio::test(start_paused = true)]
async fn who_wakes_after_the_deadline_renews_nothing() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    assert!(candidate.attempt().await.unwrap());
    server.asked.lock().clear();
    tokio::time::advance(Duration::from_secs(10)).await;
    let lost = candidate.lead(&CancellationToken::new()).await.unwrap_err();
    assert_eq!(lost.cause, "this process did not run for 8s; before: no attempt was made");
    assert!(server.asked.lock().is_empty());
}

/// A renewal without an answer may have been served: the lease is released as it is now, not as it was last seen.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_renewed_unseen_is_given_back() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    assert!(candidate.attempt().await.unwrap());
    server.renewed_by("we");
    candidate.release().await;
    let held_by = || server.lease.lock().clone().unwrap().spec.unwrap().holder_identity;
    assert_eq!(held_by().as_deref(), Some(""));

    assert!(candidate.attempt().await.unwrap());
    server.renewed_by("other");
    candidate.release().await;
    assert_eq!(held_by().as_deref(), Some("other"), "and left alone where it is another's");
}

/// A process that stops does not wait for ever for a server that does not answer.
#[tokio::test(start_paused = true)]
async fn giving_back_ends_when_nobody_answers() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    assert!(candidate.attempt().await.unwrap());
    *server.delay.lock() = Duration::from_secs(1000);
    let start = Instant::now();
    candidate.release().await;
    assert!(start.elapsed() <= Duration::from_secs(10));
}

/// A process that stops does not retry for ever if every release conflicts with another write.
#[tokio::test(start_paused = true)]
async fn giving_back_ends_when_another_always_comes_first() {
    let server = Server::new();
    let mut candidate = server.candidate("we");
    assert!(candidate.attempt().await.unwrap());
    *server.delay.lock() = Duration::from_secs(2);
    let namesake = {
        let server = server.clone();
        tokio::spawn(async move {
            loop {
                server.renewed_by("we");
                seconds(1).await;
            }
        })
    };
    let start = Instant::now();
    candidate.release().await;
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    namesake.abort();
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

/// Right after its installation, an operator may be forbidden to use its lease until its RBAC rules take effect. A
/// cluster once counted as settled while the operator waited for its retry.
#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_tried_again_before_the_cluster_settles() {
    let server = Server::new();
    *server.forbidden.lock() = 1;
    let (mut candidate, stop) = (server.candidate("we"), CancellationToken::new());
    let leads = std::cell::Cell::new(false);
    let acquire = async {
        candidate.acquire(&stop).await.unwrap();
        leads.set(true);
    };
    let settled = async {
        // Virtual time advances once the first attempt is over.
        tokio::time::sleep(Duration::from_millis(1)).await;
        server.env.ledger().settled(Duration::from_secs(60)).await.unwrap();
        assert!(leads.get());
    };
    tokio::join!(acquire, settled);
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

mod deleted;
