//! Clients that disconnect before their request is answered.
//!
//! With a data directory a write waits for the disk. A client that disconnected in the meantime used to
//! cancel the rest of its request: a policy was stored but not enforced, a CRD never established, an address
//! allocated twice, an eviction that never happened counted against a budget.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Header, User};
use evenkeel_env::Env;
use evenkeel_store::{Options, Store};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::consequences::{Case, asks_of_everything, cases, lifecycles, serve, set_up, state};

/// A server that has a few writes to make settles within this time or never.
const REST: Duration = Duration::from_secs(60);

/// The upper bound for how often one of these requests is pending: each makes a handful of writes.
const PENDING_MAX: usize = 64;

/// Polls a future until it has been pending `times` times, then drops it. Returns its output if it completes
/// before that.
async fn abandon<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = times;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

/// Waits until the store has committed everything and the server has nothing left to do.
async fn rest(server: &ApiServer) {
    server.store().write_all(Vec::new()).await;
    server.env().ledger().settled(REST).await.unwrap();
    server.store().write_all(Vec::new()).await;
}

/// What a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// The disk: each write to the store is pending.
    Disk,
    /// A webhook that is called for every write; writes to the store complete at once.
    Webhook,
}

/// A server prepared for a case, and the directory of its store.
async fn prepared(case: &Case, waits: Waits) -> (ApiServer, Option<tempfile::TempDir>) {
    let env = Env::seeded(1);
    let folder = (waits == Waits::Disk).then(|| tempfile::tempdir().unwrap());
    let store: Store<Header> = match &folder {
        Some(folder) => Store::open(folder.path(), env.clone(), Options::default()).await.unwrap(),
        None => Store::memory(env.clone(), Options::default()),
    };
    let server = serve(store, &env);
    set_up(&server, case).await;
    (server, folder)
}

/// The state without the write of a case, and the state with it.
async fn outcomes(case: &Case) -> (Value, Value) {
    let (reference, _) = prepared(case, Waits::Webhook).await;
    let never = state(&reference, case).await;
    let (status, body) = case.write.send(&reference).await;
    assert!(status < 300 || status == 409, "{}: {status} {body}", case.name);
    (never, state(&reference, case).await)
}

fn is_one_of(case: &Case, times: usize, now: &Value, (never, done): &(Value, Value)) {
    assert!(
        now == done || now == never,
        "{}, dropped when it was pending for the {times}. time, left\n{now:#}\nneither\n{never:#}\nnor\n{done:#}",
        case.name
    );
}

/// Drops the write of a case after it has been pending once, twice, and so on, until it completes.
async fn check(case: &Case, waits: Waits) {
    let outcomes = outcomes(case).await;
    for times in 1..PENDING_MAX {
        let (server, _folder) = prepared(case, waits).await;
        let answer = abandon(server.clone().oneshot(case.write.request()), times).await;
        rest(&server).await;
        let now = state(&server, case).await;
        is_one_of(case, times, &now, &outcomes);
        if answer.is_some() {
            return assert_eq!(now, outcomes.1, "{}", case.name);
        }
    }
    panic!("{} never came to its end", case.name);
}

#[tokio::test]
async fn a_write_whose_client_goes_away_has_all_its_consequences_or_none() {
    for case in cases() {
        check(&case, Waits::Disk).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_dropped_while_a_webhook_is_asked_has_all_its_consequences_or_none() {
    for mut case in cases() {
        case.setup.push(asks_of_everything());
        check(&case, Waits::Webhook).await;
    }
}

/// The process ends while a write waits for the disk: its tasks end with the runtime, and the next server
/// completes what they left unfinished.
#[test]
fn a_lifecycle_whose_process_ends_goes_on_in_the_next() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for case in lifecycles() {
        let outcomes = runtime().block_on(outcomes(&case));
        for times in 1..PENDING_MAX {
            let first = runtime();
            let (answer, folder) = first.block_on(async {
                let (server, folder) = prepared(&case, Waits::Disk).await;
                (abandon(server.clone().oneshot(case.write.request()), times).await, folder.unwrap())
            });
            drop(first);
            let now = runtime().block_on(async {
                let env = Env::seeded(2);
                let store = Store::open(folder.path(), env.clone(), Options::default()).await.unwrap();
                let server = serve(store, &env);
                server.resume().await.unwrap();
                state(&server, &case).await
            });
            is_one_of(&case, times, &now, &outcomes);
            if answer.is_some() {
                break;
            }
        }
    }
}

/// A body that sends these bytes and then stalls.
struct Stalling(Option<Bytes>);

impl http_body::Body for Stalling {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(http_body::Frame::data(bytes)))),
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_while_its_body_is_read_has_written_nothing() {
    let env = Env::seeded(1);
    let server = serve(Store::memory(env.clone(), Options::default()), &env);
    let before = server.store().revision();
    let body = json!({"metadata": {"name": "n"}}).to_string();
    for (method, path) in [("POST", "/api/v1/namespaces"), ("DELETE", "/api/v1/namespaces/a/configmaps")] {
        let request = http::Request::builder().method(method).uri(path).extension(User::admin());
        let request = request.header("content-type", "application/json");
        let request = request.body(Stalling(Some(body.clone().into()))).unwrap();
        assert!(abandon(server.clone().oneshot(request), 3).await.is_none());
        env.ledger().settled(REST).await.unwrap();
    }
    assert_eq!(server.store().revision(), before);
}
