//! Paths that are not resources: health, version, discovery, metrics, snapshots.

use http::Response;

use crate::body::Body;
use crate::request::Request;
use crate::services::Services;
use crate::status::{Result, Status};
use crate::{authenticate, debugging, discovery, health, snapshot};

/// Answers a request for a path that is not a resource.
pub(crate) fn answer(services: &Services, request: &Request<'_>) -> Result<Response<Body>> {
    let answer = health::answer(&services.store, request).or_else(|| documents(services, request));
    let answer = answer.or_else(|| debugging::answer(services, request));
    let answer = answer.or_else(|| snapshot::answer(&services.store, request));
    answer.unwrap_or_else(|| Err(Status::page_not_found()))
}

/// The documents that describe the API: OpenAPI, discovery, token issuer.
fn documents(services: &Services, request: &Request<'_>) -> Option<Result<Response<Body>>> {
    let registry = &services.registry;
    let openapi = services.openapi.answer(registry, request, services.env.now());
    let issuer = || authenticate::discovery(&services.authentication, &services.store, request);
    openapi.or_else(|| discovery::answer(registry, request)).or_else(issuer)
}
