//! What the API server asks of the nodes: what containers have printed, commands in containers, and connections to pods.
//!
//! The cluster provides it, because this crate knows no nodes and opens no sockets. A connection that is upgraded for a
//! command or for ports is served by an [`Upgrade`] in the extensions of the response.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_env::Station;
use evenkeel_schema::json::Value;
use evenkeel_streams::{Command, Connector, Io};
use futures::future::BoxFuture;
use http::uri::Scheme;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::body::Body;

/// The nodes of a cluster, as the API server knows them. Pods are given as JSON, as they are stored.
pub trait NodeApi: Send + Sync {
    /// Returns what a container has printed in its present run, or in the previous one.
    fn log(&self, pod: &Value, container: &str, previous: bool) -> ContainerLog;

    /// Completes when a container has printed more, or began a new run, after this call. It may complete without a reason.
    fn log_change(&self) -> BoxFuture<'static, ()>;

    /// Returns the command that carries out a call to a container, or `None` if no handler answers for the container.
    fn command(&self, call: CommandCall) -> Option<Command>;

    /// Returns what connects clients to the ports of a pod, or `None` if no handler answers for the pod.
    fn ports(&self, pod: Arc<Value>) -> Option<Connector>;

    /// Sends an HTTP request to what listens on a port. With the scheme `https` it is sent over TLS. Like kube-apiserver's
    /// proxies, nobody verifies the certificate of what answers.
    fn http(
        &self,
        to: Destination,
        scheme: Scheme,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'static, HttpAnswer>;
}

/// The answer to a request that was sent to a port. A body whose length is not known is a stream.
pub type HttpAnswer = std::result::Result<http::Response<Body>, HttpFailure>;

/// Why a request to a port got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpFailure {
    /// Nothing in this cluster answers for the destination, and trying again does not help.
    NotServed,
    /// The connection failed, or broke.
    Failed(String),
}

/// What listens on a port.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Destination {
    /// A port of a pod.
    Pod(Arc<Value>, u16),
    /// A port of a Service, with the pod that takes the request and its port.
    Service {
        /// The namespace of the Service.
        namespace: String,
        /// The name of the Service.
        name: String,
        /// The port of the Service.
        port: u16,
        /// A pod behind the Service, with the port that the Service's port leads to; `None` if the endpoint is not a
        /// pod.
        pod: Option<(Arc<Value>, u16)>,
    },
}

/// What one run of a container has printed.
#[derive(Clone, Debug, Default)]
pub struct ContainerLog {
    /// The lines, in the order of their times.
    pub lines: Vec<LogLine>,
    /// When the container prints its next line, if that is known.
    pub next_at: Option<Timestamp>,
}

/// A line that a container has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When the line was printed.
    pub at: Timestamp,
    /// The line, without its end.
    pub text: String,
}

/// A call to a running container.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommandCall {
    /// The pod.
    pub pod: Arc<Value>,
    /// The name of the container.
    pub container: String,
    /// The command and its arguments. `None` for a call that attaches to what runs already.
    pub command: Option<Vec<String>>,
}

/// Serves a connection after its upgrade. It is in the extensions of a response with status 101, and the server that
/// sends this response hands the upgraded connection to it.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<Serve>>>);

type Serve = Box<dyn FnOnce(Io, Option<Station>) -> BoxFuture<'static, ()> + Send>;

impl Upgrade {
    pub(crate) fn new<F>(serve: impl FnOnce(Io, Option<Station>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(Mutex::new(Some(Box::new(|io, station| Box::pin(serve(io, station)))))))
    }

    /// Serves a connection until it ends. Bytes on their way are work of the station, if there is one. Returns `None` if
    /// a connection was handed over before.
    pub fn serve(&self, io: Io, station: Option<Station>) -> Option<BoxFuture<'static, ()>> {
        let serve = self.0.lock().take()?;
        Some(serve(io, station))
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgrade")
    }
}
