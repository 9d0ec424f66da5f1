//! The API server that answers the requests: the embedded one, or that of a remote cluster.

use std::convert::Infallible;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, User};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use tower::{BoxError, Service as _};

use crate::remote;
use crate::serve::unauthorized;

/// The body of a response of either backend.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// The API server behind the transport.
#[derive(Clone)]
pub(crate) enum Backend {
    /// The API server of this process.
    Embedded(ApiServer),
    /// A remote cluster.
    Remote(Client),
}

impl Backend {
    pub(crate) async fn serve(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        match self {
            Self::Embedded(server) => match server.clone().call(request).await {
                Ok(answer) => Ok(answer.map(boxed)),
                Err(never) => match never {},
            },
            Self::Remote(client) => {
                let answer = remote::send(client, request).await?;
                Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            }
        }
    }

    /// The user of a service account token. A remote cluster authenticates the request itself, so this gives `None`.
    pub(crate) fn authenticate(&self, token: &str) -> Option<User> {
        match self {
            Self::Embedded(server) => server.authenticate(token),
            Self::Remote(_) => None,
        }
    }

    /// The response to a request with wrong credentials.
    pub(crate) async fn refuse_credentials(&self, head: &mut Parts) -> Response<ResponseBody> {
        let mut answer = unauthorized();
        if let Self::Embedded(server) = self {
            server.audit_unauthenticated(head, None, &mut answer).await;
        }
        answer.map(boxed)
    }

    /// Compacts the embedded store up to its current revision. Does nothing on a remote cluster.
    pub(crate) fn compact(&self) {
        if let Self::Embedded(server) = self {
            server.store().compact(server.store().revision());
        }
    }
}

pub(crate) fn boxed<B>(body: B) -> ResponseBody
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    body.map_err(|never| match never {}).boxed_unsync()
}
