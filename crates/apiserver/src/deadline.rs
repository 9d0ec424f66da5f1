//! The deadline that a client sets with `timeout` in the query.
//!
//! Kubernetes holds every request that is not long-running to a deadline: the client's own, or a minute. Here only a deadline
//! that the client asks for is kept. Nothing in this server waits for as long as a minute.

use std::future::Future;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Response};

use crate::body::Body;
use crate::request::{Caller, Request, limit};
use crate::respond;
use crate::status::Status;

/// How long the client wants to wait for the answer; `None` if it does not say, or if the request is long-running.
pub(crate) fn of(head: &Parts, caller: &Caller) -> Option<Duration> {
    // Most requests have no such option, and are not taken apart for it.
    head.uri.query().filter(|query| query.contains("timeout="))?;
    let request = Request::new(head, caller);
    let limit = limit(request.query.text("timeout"))?;
    (!request.is_long_running()).then_some(limit)
}

/// Does the work within the limit, if there is one; `None` if the time is over.
pub(crate) async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

/// The response to a request whose deadline has passed.
pub(crate) fn missed(method: &Method) -> Response<Body> {
    let why = match *method {
        Method::GET | Method::HEAD => "request did not complete within the allotted timeout",
        _ => "request did not complete within requested timeout - context deadline exceeded",
    };
    respond::json(504, Status::timeout(format!("Timeout: {why}")).to_json())
}
