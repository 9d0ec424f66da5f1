//! Subresources, and resources that are answered but never stored.

mod binding;
mod eviction;
mod node;
mod scale;
mod token;

use bytes::Bytes;
use http::Response;
use serde_json::Value;

use crate::body::Body;
use crate::context::RequestContext;
use crate::decode::{self, Expected};
use crate::request::FieldValidation;
use crate::status::{Result, Status};
use crate::write::{Incoming, write_query};
use crate::{ResourceInfo, authenticate, authorize, managed_fields, read, respond, write};

/// Answers a request to a subresource.
pub(crate) async fn answer(ctx: &RequestContext<'_>, verb: &str, body: Bytes) -> Result<Response<Body>> {
    match (&*ctx.path.subresource, verb) {
        ("scale", _) => scale::answer(ctx, verb, body).await,
        ("binding", "create") => binding::bind(ctx, body).await,
        ("eviction", "create") => eviction::evict(ctx, body).await,
        ("token", "create") => token::issue(ctx, body).await,
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => node::unreachable(ctx),
        (_, "get") => read::get(ctx).await,
        (_, "update") => write::update(ctx, body).await,
        (_, "patch") => write::patch(ctx, body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Whether objects of this resource are answered but never stored.
pub(crate) fn is_virtual(info: &ResourceInfo) -> bool {
    info.verbs == ["create"]
}

/// Answers the create of a resource that is never stored: a review or a Binding.
pub(crate) async fn review(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    if ctx.info.kind == "Binding" {
        return binding::bind(ctx, body).await;
    }
    let query = write_query(ctx, "CreateOptions")?;
    let mut incoming = Incoming::decode(ctx, &query, &body)?;
    incoming.place(ctx)?;
    managed_fields::track(ctx, &mut incoming.object, None);
    if ctx.info.kind == "TokenReview" {
        let answer = authenticate::token_review(&ctx.server.inner().authentication, incoming.object)?;
        return Ok(respond::json(201, answer.to_string()));
    }
    let authorizer = &*ctx.server.inner().authorizer;
    let now = ctx.server.env().now();
    let answer = authorize::review(authorizer, ctx.user, &ctx.info.kind, incoming.object, now);
    let object = answer.ok_or_else(Status::method_not_allowed)??;
    Ok(respond::json(201, object.to_string()))
}

/// Decodes a body whose kind differs from the resource's.
fn decode_other(ctx: &RequestContext<'_>, expected: &Expected<'_>, body: &[u8]) -> Result<Value> {
    let media = decode::media(ctx.request.header("content-type"))?;
    let object = decode::object(ctx.info, expected, media, body, FieldValidation::Ignore)?.object;
    if let Some(trail) = &ctx.request.audit {
        trail.note_object(&object);
    }
    Ok(object)
}

/// The response of a subresource that can only be created.
fn created() -> Response<Body> {
    respond::json(201, Status::new(201, "", "").to_json())
}
