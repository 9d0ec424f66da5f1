//! Subresources, and resources that are answered but never stored.

mod binding;
mod eviction;
mod log;
mod pod;
mod proxy;
mod scale;
mod stream;
mod token;

use bytes::Bytes;
use evenkeel_schema::json::Value;
use evenkeel_schema::json_order;
use http::Response;

use crate::body::Body;
use crate::context::RequestContext;
use crate::decode::{self, Expected};
use crate::incoming::{Incoming, write_query};
use crate::request::FieldValidation;
use crate::status::{Result, Status};
use crate::strategy::Unstored;
use crate::{authenticate, authorize, managed_fields, read, respond, write};

/// Answers a request to a subresource.
pub(crate) async fn answer(ctx: &RequestContext<'_>, verb: &str, body: Bytes) -> Result<Response<Body>> {
    match (&*ctx.path.subresource, verb) {
        ("scale", _) => scale::answer(ctx, verb, body).await,
        ("binding", "create") => binding::bind(ctx, body).await,
        ("eviction", "create") => eviction::evict(ctx, body).await,
        ("token", "create") => token::issue(ctx, body).await,
        ("log", "get") => log::answer(ctx),
        ("exec" | "attach", _) => stream::command(ctx).await,
        ("portforward", _) => stream::ports(ctx).await,
        ("proxy", _) => proxy::answer(ctx, body).await,
        (_, "get") => read::get(ctx).await,
        (_, "update") => write::update(ctx, body).await,
        (_, "patch") => write::patch(ctx, body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Answers the create of a resource that is never stored: a review or a Binding.
pub(crate) async fn review(
    ctx: &RequestContext<'_>,
    resource: Unstored,
    body: Bytes,
) -> Result<Response<Body>> {
    if resource == Unstored::Binding {
        return binding::bind(ctx, body).await;
    }
    let query = write_query(ctx, "CreateOptions")?;
    let mut incoming = Incoming::decode(ctx, &query, &body)?;
    incoming.place(ctx)?;
    managed_fields::track(ctx, &mut incoming.object, None).await;
    if resource == Unstored::TokenReview {
        let answer = authenticate::token_review(&ctx.services.authentication, incoming.object)?;
        return Ok(respond::json(201, json_order::print(&answer)));
    }
    let authorizer = &*ctx.services.authorizer;
    let now = ctx.services.env.now();
    let answer = authorize::review(authorizer, ctx.user, resource, incoming.object, now);
    let object = answer.ok_or_else(Status::method_not_allowed)??;
    Ok(respond::json(201, json_order::print(&object)))
}

/// Decodes a body whose kind differs from the resource's.
fn decode_other(ctx: &RequestContext<'_>, expected: &Expected<'_>, body: &[u8]) -> Result<Value> {
    let media = decode::media(ctx.request.header("content-type"))?;
    let object = decode::object(ctx.info, expected, media, body, FieldValidation::Ignore)?.object;
    if let Some(trail) = ctx.audit {
        trail.note_object(&object);
    }
    Ok(object)
}

/// The response of a subresource that can only be created.
fn created() -> Response<Body> {
    respond::json(201, Status::new(201, "", "").to_json())
}
