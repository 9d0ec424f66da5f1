//! What answers in the end: the API server of this process, or a cluster elsewhere.

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, User};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use tower::{BoxError, Service as _};

use crate::elsewhere;
use crate::serve::unauthorized;
use crate::transport::{ResponseBody, boxed};

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
            Self::Remote(client) => elsewhere::send(client, request).await,
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
