//! What listens on the ports of pods and Services.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::Body;
use evenkeel_controllers::node::rules::Selector;
use evenkeel_streams::{Io, duplex};
use evenkeel_tree::value::Value;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::uri::Scheme;
use http::{Request, Response, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, BodyStream, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::{names_and_images, selects, text};
use crate::tls;

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
        scheme: &Scheme,
        mut request: Request<Bytes>,
    ) -> Result<Response<Body>, String> {
        match self {
            Self::Http(handler) => {
                request.extensions_mut().insert(call);
                Ok(handler(request).await.map(Body::from))
            }
            Self::Connection(connect) => {
                let io = connect(call).await?;
                let io = if *scheme == Scheme::HTTPS { over_tls(io).await? } else { io };
                over(io, request).await
            }
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

/// Opens a TLS connection over another one. The certificate may be anybody's.
async fn over_tls(io: Io) -> Result<Io, String> {
    let config = tls::client_config(tls::any_certificate()).map_err(|error| error.to_string())?;
    let name = ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST));
    let tls = TlsConnector::from(Arc::new(config)).connect(name, io).await;
    Ok(Box::new(tls.map_err(|error| format!("the TLS handshake failed: {error}"))?))
}

/// A task that ends with this value.
struct EndWithThis(AbortHandle);

impl Drop for EndWithThis {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a request over a connection of its own. A body whose length is not known is read as it comes.
async fn over(io: Io, mut request: Request<Bytes>) -> Result<Response<Body>, String> {
    let told = |error: hyper::Error| error.to_string();
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(io));
    let (mut sender, connection) = handshake.await.map_err(told)?;
    let driven = EndWithThis(tokio::spawn(connection).abort_handle());
    request.headers_mut().entry(header::HOST).or_insert(header::HeaderValue::from_static("localhost"));
    let answer = sender.send_request(request.map(Full::new)).await.map_err(told)?;
    let (parts, body) = answer.into_parts();
    let body = match body.size_hint().exact() {
        Some(_) => {
            let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
            Body::from(body.map_err(|error| error.to_string())?.to_bytes())
        }
        // The connection lives as long as its body is read.
        None => {
            let frames =
                BodyStream::new(body).scan((sender, driven), |_, frame| std::future::ready(frame.ok()));
            Body::stream(frames.filter_map(|frame| std::future::ready(frame.into_data().ok())))
        }
    };
    Ok(Response::from_parts(parts, body))
}
