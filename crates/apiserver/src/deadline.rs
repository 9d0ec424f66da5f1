//! The deadline that a client sets with the query parameter `timeout`.
//!
//! Kubernetes gives every request that is not long-running a deadline: the client's, or a minute. This server
//! keeps only the client's, because nothing in it waits for a minute.

use std::future::Future;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Response};

use crate::body::Body;
use crate::request::{Caller, Request, limit};
use crate::respond;
use crate::status::Status;

/// The client's timeout; `None` if it sets none, or if the request is long-running.
pub(crate) fn of(head: &Parts, caller: &Caller) -> Option<Duration> {
    // Most requests have no timeout and need not be parsed here.
    head.uri.query().filter(|query| query.contains("timeout="))?;
    let request = Request::new(head, caller);
    let limit = limit(request.query.text("timeout"))?;
    (!request.is_long_running()).then_some(limit)
}

/// Runs `work` within the limit, if there is one; `None` if the limit is exceeded.
pub(crate) async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

/// The response to a request that missed its deadline.
pub(crate) fn missed(method: &Method) -> Response<Body> {
    let why = match *method {
        Method::GET | Method::HEAD => "request did not complete within the allotted timeout",
        _ => "request did not complete within requested timeout - context deadline exceeded",
    };
    respond::json(504, Status::timeout(format!("Timeout: {why}")).to_json())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_has_no_deadline() {
        let limit = |uri: &str| {
            let (head, ()) = http::Request::get(uri).body(()).expect("the URI is valid").into_parts();
            of(&head, &Caller::nobody())
        };
        let maps = "/api/v1/namespaces/a/configmaps";
        assert_eq!(limit(&format!("{maps}?timeout=2s")), Some(Duration::from_secs(2)));
        assert_eq!(limit(&format!("{maps}?timeoutSeconds=2")), None);
        assert_eq!(limit(&format!("{maps}?watch=1&timeout=2s")), None);
        assert_eq!(limit("/api/v1/watch/configmaps?timeout=2s"), None);
    }
}
