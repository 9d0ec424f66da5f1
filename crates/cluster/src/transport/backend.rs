//! What answers in the end: the API server of this process, or a cluster elsewhere.

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

/// The body of an answer, whoever gives it.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// The end of the wire.
#[derive(Clone)]
pub(crate) enum Backend {
    /// The API server of this process.
    Embedded(ApiServer),
    /// A cluster elsewhere.
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

    /// Whom a token of a service account proves; a cluster elsewhere is asked by the request itself.
    pub(crate) fn authenticate(&self, token: &str) -> Option<User> {
        match self {
            Self::Embedded(server) => server.authenticate(token),
            Self::Remote(_) => None,
        }
    }

    /// The answer to a request of this process whose credentials are wrong.
    pub(crate) async fn refuse_credentials(&self, head: &mut Parts) -> Response<ResponseBody> {
        let mut answer = unauthorized();
        if let Self::Embedded(server) = self {
            server.audit_unauthenticated(head, None, &mut answer).await;
        }
        answer.map(boxed)
    }

    /// Forgets every earlier revision, where that is in our hands.
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
