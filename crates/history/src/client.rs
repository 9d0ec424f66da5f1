//! An HTTP/1.1 client over TLS with the client certificate of a kubeconfig. A connection has one request at a time, so
//! that it is always known which request was lost with a connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use bytes::Bytes;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::history::{Content, Key, Object, Revision};

/// The namespace of the objects.
pub const NAMESPACE: &str = "history";
/// The path of the collection of the objects.
pub const COLLECTION: &str = "/api/v1/namespaces/history/configmaps";
/// The name of the object that is written last.
pub const END: &str = "end";

/// How long a client waits for a connection or an answer: on a busy machine a thousand times what it takes. After that,
/// the request counts as one without an answer, and the error is a timeout.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Opens connections to a server.
#[derive(Clone, Debug)]
pub struct Client {
    address: String,
    tls: Arc<rustls::ClientConfig>,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

/// An answer with its whole body.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: StatusCode,
    /// The body, or null if it is not JSON.
    pub body: Value,
}

impl Client {
    /// A client of the server at this address, with the credentials of a kubeconfig that `evenkeel up` has written.
    ///
    /// # Errors
    /// If the kubeconfig cannot be read, or does not have the form that `evenkeel up` writes.
    pub fn new(address: &str, kubeconfig: &Path) -> anyhow::Result<Self> {
        let kubeconfig: Value = serde_json::from_slice(&std::fs::read(kubeconfig)?)?;
        let field = |pointer: &str| -> anyhow::Result<Vec<u8>> {
            let text = kubeconfig.pointer(pointer).and_then(Value::as_str);
            let text = text.with_context(|| format!("the kubeconfig has no {pointer}"))?;
            Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
        };
        let authority = field("/clusters/0/cluster/certificate-authority-data")?;
        let certificate = field("/users/0/user/client-certificate-data")?;
        let key = field("/users/0/user/client-key-data")?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority)?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(&certificate)?],
                PrivateKeyDer::from_pem_slice(&key)?,
            )?;
        Ok(Self { address: address.to_owned(), tls: Arc::new(tls) })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If the server does not accept the connection, or the handshake fails.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        timeout(ANSWER_WITHIN, self.open()).await.context("the server does not accept a connection")?
    }

    async fn open(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender })
    }
}

impl Connection {
    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// If the connection is lost. The server may have served the request.
    pub async fn send(&mut self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Reply> {
        let answer = self.open(method, path, body).await?;
        let status = answer.status();
        let collected = timeout(ANSWER_WITHIN, answer.into_body().collect()).await;
        let bytes = collected.context("the body of an answer does not end")??.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Reply { status, body })
    }

    /// Sends a request and returns the answer as a stream.
    ///
    /// # Errors
    /// If the connection is lost. The server may have served the request.
    pub async fn open(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, kind)
            .body(Full::new(body))?;
        let sending = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        Ok(timeout(ANSWER_WITHIN, sending).await.context("the server does not answer a request")??)
    }
}

/// Returns the name of an object.
pub fn name(key: Key) -> String {
    format!("k{key}")
}

/// Returns the number of an object; `None` if the object is not recorded.
pub fn key(object: &Value) -> Option<Key> {
    object.pointer("/metadata/name")?.as_str()?.strip_prefix('k')?.parse().ok()
}

/// Returns the path of an object.
pub fn path(key: Key) -> String {
    format!("{COLLECTION}/{}", name(key))
}

/// Returns the resource version of an object or of a list.
pub fn revision(object: &Value) -> Option<Revision> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

/// Reads an object in an answer.
pub fn object(object: &Value) -> Option<Object> {
    let token = |pointer: &str| object.pointer(pointer)?.as_str()?.parse().ok();
    let content = Content { set: token("/data/set")?, merged: token("/data/merged") };
    let uid = object.pointer("/metadata/uid")?.as_str()?.to_owned();
    Some(Object { revision: revision(object)?, uid, content })
}
