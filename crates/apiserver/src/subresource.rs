//! Parts of objects that are served by themselves.

use bytes::Bytes;
use http::Response;

use crate::body::Body;
use crate::call::Call;
use crate::status::{Result, Status};
use crate::{ResourceInfo, read, write};

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
pub(crate) async fn review(_: &Call<'_>, _: Bytes) -> Result<Response<Body>> {
    Err(Status::method_not_allowed())
}
