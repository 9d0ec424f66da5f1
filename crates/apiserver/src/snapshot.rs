//! `/evenkeel/snapshot`: the whole state as of one revision, for backups.
//!
//! It holds every object, Secrets among them, so that nobody may read it but whom RBAC allows to `get` this path: those
//! in `system:masters`, unless a ClusterRole names it in `nonResourceURLs`.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use crate::ApiServer;
use crate::body::Body;
use crate::request::Request;
use crate::status::{Result, Status};

/// Where a snapshot is read.
pub const SNAPSHOT_PATH: &str = "/evenkeel/snapshot";

/// Answers the path of snapshots; none where the path is another.
pub(crate) fn answer(server: &ApiServer, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    (request.path == SNAPSHOT_PATH).then(|| {
        if request.verb() != "get" {
            return Err(Status::method_not_allowed());
        }
        // Each part is made when the reader asks for it.
        let parts = futures::stream::iter(server.store().backup());
        let mut response = Response::new(Body::stream(parts));
        let kind = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(response)
    })
}
