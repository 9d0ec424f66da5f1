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
use crate::call::Call;
use crate::decode::{self, Expected};
use crate::request::FieldValidation;
use crate::status::{Result, Status};
use crate::write::{Incoming, write_query};
use crate::{ResourceInfo, authenticate, authorize, ownership, read, respond, write};

/// Answers a request to a subresource.
pub(crate) async fn answer(call: &Call<'_>, verb: &str, body: Bytes) -> Result<Response<Body>> {
    match (&*call.path.subresource, verb) {
        ("scale", _) => scale::answer(call, verb, body).await,
        ("binding", "create") => binding::bind(call, body).await,
        ("eviction", "create") => eviction::evict(call, body).await,
        ("token", "create") => token::issue(call, body).await,
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => node::unreachable(call),
        (_, "get") => read::get(call).await,
        (_, "update") => write::update(call, body).await,
        (_, "patch") => write::patch(call, body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Whether objects of this resource are answered but never stored.
pub(crate) fn is_virtual(info: &ResourceInfo) -> bool {
    info.verbs == ["create"]
}

/// Answers the create of a resource that is never stored: a review or a Binding.
pub(crate) async fn review(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    if call.info.kind == "Binding" {
        return binding::bind(call, body).await;
    }
    let query = write_query(call, "CreateOptions")?;
    let mut incoming = Incoming::decode(call, &query, &body)?;
    incoming.place(call)?;
    ownership::track(call, &mut incoming.object, None);
    if call.info.kind == "TokenReview" {
        let answer = authenticate::token_review(&call.server.inner().authentication, incoming.object)?;
        return Ok(respond::json(201, answer.to_string()));
    }
    let authorizer = &*call.server.inner().authorizer;
    let now = call.server.env().now();
    let answer = authorize::review(authorizer, call.user, &call.info.kind, incoming.object, now);
    let object = answer.ok_or_else(Status::method_not_allowed)??;
    Ok(respond::json(201, object.to_string()))
}

/// Decodes a body whose kind differs from the resource's.
fn decode_other(call: &Call<'_>, expected: &Expected<'_>, body: &[u8]) -> Result<Value> {
    let media = decode::media(call.request.header("content-type"))?;
    let object = decode::object(call.info, expected, media, body, FieldValidation::Ignore)?.object;
    if let Some(trail) = &call.request.audit {
        trail.note_object(&object);
    }
    Ok(object)
}

/// The response of a subresource that can only be created.
fn created() -> Response<Body> {
    respond::json(201, Status::new(201, "", "").to_json())
}
