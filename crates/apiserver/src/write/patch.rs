//! Patches.

use bytes::Bytes;
use http::Response;

use crate::body::Body;
use crate::call::Call;
use crate::status::{Details, Result, Status};

/// Answers a PATCH.
pub(crate) async fn patch(_: &Call<'_>, _: Bytes) -> Result<Response<Body>> {
    Err(Status::unsupported_media_type("415: Unsupported Media Type").with(Details::default()))
}
