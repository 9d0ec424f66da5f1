//! Clients that go away while their request is answered.
//!
//! With a data directory a write waits for the disk, and a client that goes away in the meantime took the rest of its
//! request with it: a policy was stored and not enforced, a definition never established, an address given out twice,
//! an eviction charged to a budget that never happened.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Header, User};
use evenkeel_env::Env;
use evenkeel_store::{Options, Store};
use serde_json::json;
use tower::ServiceExt as _;

use crate::consequences::{Case, cases, serve, set_up, state};

/// A server that was asked comes to rest within this, or never: it has a few writes to make.
const REST: Duration = Duration::from_secs(60);

/// More often than any of these requests waits: each makes a handful of writes.
const PENDING_MAX: usize = 64;

/// Lets a future be pending so many times and drops it then; gives what it made if it was ready before that.
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

/// Waits until the store has everything that was handed to it, and the server has done everything it will do.
async fn rest(server: &ApiServer) {
    server.store().write_all(Vec::new()).await;
    server.env().ledger().settled(REST).await.unwrap();
    server.store().write_all(Vec::new()).await;
}

/// Drops the write of a case after it was pending once, twice, and so on, until it comes to its end.
async fn check(case: &Case) -> usize {
    let env = Env::seeded(1);
    let reference = serve(Store::memory(env.clone(), Options::default()), &env);
    set_up(&reference, case).await;
    let never = state(&reference, case).await;
    let (status, body) = case.write.send(&reference).await;
    assert!(status < 300 || status == 409, "{}: {status} {body}", case.name);
    let done = state(&reference, case).await;
    for times in 1..PENDING_MAX {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::seeded(1);
        let store: Store<Header> = Store::open(dir.path(), env.clone(), Options::default()).await.unwrap();
        let server = serve(store, &env);
        set_up(&server, case).await;
        let answer = abandon(server.clone().oneshot(case.write.request()), times).await;
        rest(&server).await;
        let now = state(&server, case).await;
        assert!(
            now == done || now == never,
            "{}, dropped when it was pending for the {times}. time, left\n{now:#}\nneither\n{never:#}\nnor\n{done:#}",
            case.name
        );
        if answer.is_some() {
            assert_eq!(now, done, "{}", case.name);
            return times;
        }
    }
    panic!("{} never came to its end", case.name);
}

#[tokio::test]
async fn a_write_whose_client_goes_away_has_all_its_consequences_or_none() {
    for case in cases() {
        check(&case).await;
    }
}

/// A body that sends this much and then nothing.
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
