//! What listens on the ports of pods and Services.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_controllers::node::rules::Selector;
use evenkeel_streams::{Io, duplex};
use futures::future::BoxFuture;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::{names_and_images, selects, text};

/// How many bytes the answer of an application may have. The test kit keeps it in memory.
const ANSWER_MAX_BYTES: usize = 64 << 20;

/// A connection to a port, or a request to it, as a handler sees it. It is in the extensions of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortCall {
    /// The namespace of the pod or the Service.
    pub namespace: String,
    /// The name of the pod that answers; empty for a Service whose endpoints are not pods.
    pub pod: String,
    /// The name of the Service that the client called; empty if it called a pod.
    pub service: String,
    /// The port that the client called: that of the Service, or of the pod.
    pub port: u16,
}

/// A connection to a port.
pub type Connection = Io;

/// Answers HTTP requests to a port.
pub(crate) type HttpHandler =
    Arc<dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync>;

/// Opens a connection to whatever answers for a port.
type ConnectionHandler = Arc<dyn Fn(PortCall) -> BoxFuture<'static, Result<Io, String>> + Send + Sync>;

/// What answers for a port.
#[derive(Clone)]
pub(crate) enum Answer {
    Http(HttpHandler),
    Connection(ConnectionHandler),
}

/// Something that answers for ports.
pub(crate) struct Listener {
    pub(crate) owner: PortOwner,
    /// The port; `None` for all.
    pub(crate) port: Option<u16>,
    pub(crate) answer: Answer,
}

/// Whose ports a listener answers for.
pub(crate) enum PortOwner {
    Pods(Selector),
    Service { namespace: String, name: String },
}

/// A port that a client calls.
pub(crate) enum CalledPort<'a> {
    Pod(&'a Value, u16),
    Service { namespace: &'a str, name: &'a str, port: u16, pod: Option<&'a (Arc<Value>, u16)> },
}

impl PortCall {
    pub(crate) fn to_pod(pod: &Value, port: u16) -> Self {
        let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        Self { namespace: namespace.to_owned(), pod: name.to_owned(), service: String::new(), port }
    }

    pub(crate) fn to_service(
        namespace: &str,
        name: &str,
        port: u16,
        pod: Option<&(Arc<Value>, u16)>,
    ) -> Self {
        let pod = pod.map(|(pod, _)| text(pod, "/metadata/name").to_owned()).unwrap_or_default();
        Self { namespace: namespace.to_owned(), pod, service: name.to_owned(), port }
    }
}

impl Listener {
    pub(crate) fn listens(&self, place: &CalledPort<'_>) -> bool {
        let is_own = |port: u16| self.port.is_none_or(|own| own == port);
        match (&self.owner, place) {
            (PortOwner::Pods(selector), CalledPort::Pod(pod, port)) => {
                is_own(*port) && has_selected(selector, pod)
            }
            (PortOwner::Pods(selector), CalledPort::Service { pod: Some((pod, port)), .. }) => {
                is_own(*port) && has_selected(selector, pod)
            }
            (
                PortOwner::Service { namespace, name },
                CalledPort::Service { namespace: there, name: called, port, .. },
            ) => is_own(*port) && namespace == there && name == called,
            (PortOwner::Pods(_), CalledPort::Service { pod: None, .. })
            | (PortOwner::Service { .. }, CalledPort::Pod(..)) => false,
        }
    }

    /// Whether it may answer for some port of a pod.
    pub(crate) fn may_answer_for(&self, pod: &Value) -> bool {
        matches!(&self.owner, PortOwner::Pods(selector) if has_selected(selector, pod))
    }
}

fn has_selected(selector: &Selector, pod: &Value) -> bool {
    names_and_images(pod).any(|(container, image)| selects(selector, pod, container, image))
}

impl Answer {
    /// Sends a request, and returns the answer or why there is none.
    pub(crate) async fn http(
        self,
        call: PortCall,
        mut request: Request<Bytes>,
    ) -> Result<Response<Bytes>, String> {
        match self {
            Self::Http(handler) => {
                request.extensions_mut().insert(call);
                Ok(handler(request).await)
            }
            Self::Connection(connect) => over(connect(call).await?, request).await,
        }
    }

    /// Opens a connection for this call.
    pub(crate) async fn connect(self, call: PortCall) -> Result<Io, String> {
        match self {
            Self::Connection(connect) => connect(call).await,
            Self::Http(handler) => {
                let (near, far) = duplex(None);
                tokio::spawn(serve(far, handler, call));
                Ok(Box::new(near))
            }
        }
    }
}

/// Lets a handler answer the requests on a connection.
async fn serve(io: evenkeel_streams::Pipe, handler: HttpHandler, call: PortCall) {
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        let (handler, call) = (handler.clone(), call.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
            let body = body.map_err(|error| std::io::Error::other(error.to_string()))?.to_bytes();
            let mut request = Request::from_parts(parts, body);
            request.extensions_mut().insert(call);
            Ok::<_, std::io::Error>(handler(request).await.map(Full::new))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(io), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection to a port ended with an error");
    }
}

/// Sends a request over a connection of its own.
async fn over(io: Io, mut request: Request<Bytes>) -> Result<Response<Bytes>, String> {
    let told = |error: hyper::Error| error.to_string();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(io));
    let (mut sender, connection) = handshake.await.map_err(told)?;
    let driven = tokio::spawn(connection);
    request.headers_mut().entry(header::HOST).or_insert(header::HeaderValue::from_static("localhost"));
    let answered = async {
        let answer = sender.send_request(request.map(Full::new)).await.map_err(told)?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await.map_err(|error| error.to_string())?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    };
    let answer = answered.await;
    driven.abort();
    answer
}
