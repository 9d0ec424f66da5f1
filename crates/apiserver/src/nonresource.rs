//! Paths that are no resources: health, version, discovery.

use http::Response;

use crate::body::Body;
use crate::request::Request;
use crate::status::{Result, Status};
use crate::{ApiServer, User, discovery, respond};

/// Answers a path that is no resource.
pub(crate) fn answer(server: &ApiServer, request: &Request, _: &User) -> Result<Response<Body>> {
    match request.path.trim_end_matches('/') {
        "/healthz" | "/livez" | "/readyz" => Ok(respond::text(200, "ok")),
        _ => discovery::answer(server.registry(), request).unwrap_or_else(|| Err(Status::page_not_found())),
    }
}
