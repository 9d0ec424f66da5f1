//! What answers in the end: the API server of this process, or a cluster elsewhere.

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, User};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use tower::{BoxError, Service as _};

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
            Self::Remote(client) => {
                let (mut parts, body) = request.into_parts();
                if let Some(user) = parts.extensions.remove::<User>() {
                    impersonate(&user, &mut parts.headers)?;
                }
                let body = body.collect().await.map_or_else(|never| match never {}, |body| body.to_bytes());
                let answer = client.send(Request::from_parts(parts, body.into())).await?;
                Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            }
        }
    }

    /// Forgets every earlier revision, where that is in our hands.
    pub(crate) fn compact(&self) {
        if let Self::Embedded(server) = self {
            server.store().compact(server.store().revision());
        }
    }
}

/// Asks a cluster elsewhere to take us for this user; the administrator is whoever the client is.
fn impersonate(user: &User, headers: &mut HeaderMap) -> Result<(), http::header::InvalidHeaderValue> {
    if *user == User::admin() {
        return Ok(());
    }
    headers.insert("Impersonate-User", HeaderValue::from_str(&user.name)?);
    for group in &user.groups {
        headers.append("Impersonate-Group", HeaderValue::from_str(group)?);
    }
    Ok(())
}
