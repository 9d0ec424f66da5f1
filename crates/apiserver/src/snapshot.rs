//! The endpoint `/evenkeel/snapshot`: the whole state at one revision, for backups.
//!
//! A snapshot contains every object, Secrets included. Only users whom RBAC allows to `get` this path may
//! read it: members of `system:masters`, and those whose ClusterRole lists it in `nonResourceURLs`.

use evenkeel_store::Store;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use crate::Header;
use crate::body::Body;
use crate::request::Request;
use crate::status::{Result, Status};

/// The path from which a snapshot is read.
pub const SNAPSHOT_PATH: &str = "/evenkeel/snapshot";

/// Answers a request for a snapshot; `None` for any other path.
pub(crate) fn answer(store: &Store<Header>, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    (request.path == SNAPSHOT_PATH).then(|| {
        if request.verb() != "get" {
            return Err(Status::method_not_allowed());
        }
        // Each part is made when the client reads it.
        let parts = futures::stream::iter(store.backup());
        let mut response = Response::new(Body::stream(parts));
        let kind = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    })
}
