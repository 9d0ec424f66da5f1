//! From the head of a request to the station that answers it.

use http::Response;

use crate::ApiServer;
use crate::body::Body;
use crate::request::Request;
use crate::status::{Result, Status};

/// Answers a request, or refuses it.
pub(crate) async fn answer<B>(server: &ApiServer, request: &Request, body: B) -> Result<Response<Body>>
where
    B: http_body::Body + Send + 'static,
{
    let _ = (server.inner(), request, body);
    Err(Status::page_not_found())
}
