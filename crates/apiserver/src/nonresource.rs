//! Paths that are not resources: health, version, discovery, snapshots.

use http::Response;

use crate::body::Body;
use crate::request::Request;
use crate::status::{Result, Status};
use crate::{ApiServer, authenticate, discovery, health, snapshot};

/// Answers a request for a path that is not a resource.
pub(crate) fn answer(server: &ApiServer, request: &Request<'_>) -> Result<Response<Body>> {
    let answer = health::answer(server, request).or_else(|| documents(server, request));
    let answer = answer.or_else(|| snapshot::answer(server, request));
    answer.unwrap_or_else(|| Err(Status::page_not_found()))
}

/// The documents that describe the API: OpenAPI, discovery, token issuer.
fn documents(server: &ApiServer, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    let registry = server.registry();
    let openapi = server.inner().openapi.answer(registry, request, server.env().now());
    let issuer = || authenticate::discovery(&server.inner().authentication, server.store(), request);
    openapi.or_else(|| discovery::answer(registry, request)).or_else(issuer)
}
