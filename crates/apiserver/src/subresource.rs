//! Parts of objects that are served by themselves.

use bytes::Bytes;
use http::Response;

use crate::body::Body;
use crate::call::Call;
use crate::status::{Result, Status};
use crate::write::{Incoming, write_query};
use crate::{ResourceInfo, authorize, read, respond, write};

/// Answers a request to a part of an object.
pub(crate) async fn answer(call: &Call<'_>, verb: &str, body: Bytes) -> Result<Response<Body>> {
    match (call.path.subresource.as_str(), verb) {
        ("status", "get") => read::get(call).await,
        ("status", "update") => write::update(call, body).await,
        ("status", "patch") => write::patch(call, body).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// Whether objects of this resource are answered and never stored.
pub(crate) fn is_virtual(info: &ResourceInfo) -> bool {
    info.verbs == ["create"]
}

/// Answers a question that comes as an object.
pub(crate) async fn review(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    let query = write_query(call, "CreateOptions")?;
    let incoming = Incoming::decode(call, &query, &body)?;
    let authorizer = &*call.server.inner().authorizer;
    let now = call.server.env().now();
    let answer = authorize::review(authorizer, call.user, &call.info.kind, incoming.object, now);
    let object = answer.ok_or_else(Status::method_not_allowed)??;
    Ok(respond::json(201, object.to_string()))
}
