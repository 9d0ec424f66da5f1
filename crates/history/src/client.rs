//! HTTP/1.1 over TLS with the certificate of a kubeconfig: one connection, one request at a time, so that it is always
//! known which request was lost with a connection.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use bytes::Bytes;
use evenkeel_history::{Content, Key, Object, Revision};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The namespace of the objects.
pub(crate) const NAMESPACE: &str = "history";
/// The path of their collection.
pub(crate) const COLLECTION: &str = "/api/v1/namespaces/history/configmaps";
/// The name of the object that is written last.
pub(crate) const END: &str = "end";

/// How to reach a server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: String,
    tls: Arc<rustls::ClientConfig>,
}

/// One connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Client {
    /// A client of the server at this address, with the authority and the certificate of a kubeconfig that
    /// `evenkeel up` has written.
    pub(crate) fn new(address: &str, kubeconfig: &Path) -> anyhow::Result<Self> {
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

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
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
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Reply> {
        let answer = self.open(method, path, body).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Reply { status, body })
    }

    /// Sends a request and gives the answer as it comes.
    pub(crate) async fn open(
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
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }
}

/// The name of an object.
pub(crate) fn name(key: Key) -> String {
    format!("k{key}")
}

/// The object of this name, if it is one of those that are recorded.
pub(crate) fn key(object: &Value) -> Option<Key> {
    object.pointer("/metadata/name")?.as_str()?.strip_prefix('k')?.parse().ok()
}

/// The path of an object.
pub(crate) fn path(key: Key) -> String {
    format!("{COLLECTION}/{}", name(key))
}

/// The resourceVersion of an object or of a list.
pub(crate) fn revision(object: &Value) -> Option<Revision> {
    object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}

/// An object as it was answered.
pub(crate) fn object(object: &Value) -> Option<Object> {
    let token = |pointer: &str| object.pointer(pointer)?.as_str()?.parse().ok();
    let content = Content { set: token("/data/set")?, merged: token("/data/merged") };
    let uid = object.pointer("/metadata/uid")?.as_str()?.to_owned();
    Some(Object { revision: revision(object)?, uid, content })
}
