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
use crate::route::is_long_running;
use crate::status::Status;
use crate::{ApiServer, respond};

/// How long the client wants to wait for the answer; `None` if it does not say, or if the request is long-running.
pub(crate) fn of(head: &Parts, caller: &Caller) -> Option<Duration> {
    // Most requests have no such option, and are not taken apart for it.
    head.uri.query().filter(|query| query.contains("timeout="))?;
    let request = Request::new(head, caller);
    let limit = limit(request.query.text("timeout"))?;
    (!is_long_running(&request)).then_some(limit)
}

/// Does the work within the limit, if there is one; `None` if the time is over.
pub(crate) async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

/// Answers a request whose deadline has passed. `is_recorded` says that the request goes on by itself, because it has begun to
/// write, and is entered in the audit log when it ends.
pub(crate) async fn missed(
    server: &ApiServer,
    caller: &Caller,
    head: &mut Parts,
    is_recorded: bool,
) -> Response<Body> {
    let why = match head.method {
        Method::GET | Method::HEAD => "request did not complete within the allotted timeout",
        _ => "request did not complete within requested timeout - context deadline exceeded",
    };
    let mut response = respond::json(504, Status::timeout(format!("Timeout: {why}")).to_json());
    match is_recorded {
        true => respond::repeat_audit_id(&mut response, &head.headers),
        false => server.audit_refusal(caller, head, &mut response).await,
    }
    respond::dress(&mut response, std::mem::take(&mut head.headers));
    response
}
