//! A cluster that is served over TLS in this process, and a client that sends any bytes.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_cluster::Cluster;
use evenkeel_cluster::serve::ServeOptions;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longer than any response of these tests takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Wire {
    pub(crate) cluster: Cluster,
    pub(crate) address: std::net::SocketAddr,
    connector: TlsConnector,
    /// The TLS configuration of a client without a certificate.
    stranger: TlsConnector,
    /// The TLS configurations for HTTP/2, with the administrator's certificate and without one.
    h2_connectors: [TlsConnector; 2],
    /// Dropping it stops the server.
    _stop: tokio::sync::oneshot::Sender<()>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Wire {
    pub(crate) async fn start(options: ServeOptions) -> Self {
        let cluster =
            Cluster::builder().controllers(false).start().await.expect("a cluster in memory starts");
        let server = cluster.serve(options).await.expect("a port is free");
        let address = server.address();
        let kubeconfig: Value = serde_json::from_str(server.kubeconfig()).expect("the kubeconfig is JSON");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        tokio::spawn(server.run(async { drop(stopped.await) }));
        let connector = |alpn: &[&str], is_admin| connector(&kubeconfig, alpn, is_admin);
        let h2_connectors = [connector(&["h2"], true), connector(&["h2"], false)];
        let (stranger, connector) = (connector(&[], false), connector(&[], true));
        Self { cluster, address, connector, stranger, h2_connectors, _stop: stop }
    }

    /// An HTTP/2 connection.
    pub(crate) async fn connect_h2(&self, is_admin: bool) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        let name = ServerName::try_from("localhost").expect("it is a name");
        let connector = &self.h2_connectors[usize::from(!is_admin)];
        connector.connect(name, stream).await.expect("the handshake succeeds")
    }

    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        let name = ServerName::try_from("localhost").expect("it is a name");
        self.connector.connect(name, stream).await.expect("the handshake succeeds")
    }

    /// A connection without a certificate.
    pub(crate) async fn connect_stranger(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("the server listens");
        let name = ServerName::try_from("localhost").expect("it is a name");
        self.stranger.connect(name, stream).await.expect("the handshake succeeds")
    }

    /// Sends these bytes on a new connection, and reads the response until the server closes it.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Answer {
        exchange(self.connect().await, bytes).await
    }

    /// Sends these bytes on a new connection without a certificate, and reads the response until the server closes it.
    pub(crate) async fn send_as_stranger(&self, bytes: &[u8]) -> Answer {
        exchange(self.connect_stranger().await, bytes).await
    }

    /// A request with a body of this type.
    pub(crate) async fn request(&self, line: &str, content_type: &str, body: &[u8]) -> Answer {
        self.request_with(line, &format!("Content-Type: {content_type}\r\n"), body).await
    }

    pub(crate) async fn request_with(&self, line: &str, headers: &str, body: &[u8]) -> Answer {
        let head = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&[head.as_bytes(), body].concat()).await
    }
}

async fn exchange(stream: TlsStream<TcpStream>, bytes: &[u8]) -> Answer {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (sent, received) = (async { drop(writer.write_all(bytes).await) }, async {
        let mut received = Vec::new();
        let read = reader.read_to_end(&mut received);
        // The server may respond and close the connection before everything is sent, which is an error here.
        let _ = tokio::time::timeout(ANSWER_TIMEOUT, read).await.expect("the server answers and closes");
        received
    });
    let (received, ()) = futures::future::join(received, sent).await;
    answer(&received)
}

fn answer(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Answer { status, text }
}

fn connector(kubeconfig: &Value, alpn: &[&str], is_admin: bool) -> TlsConnector {
    let pem = |pointer: &str| {
        let text = kubeconfig.pointer(pointer).and_then(Value::as_str).expect("the kubeconfig has it");
        STANDARD.decode(text).expect("it is base64")
    };
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&pem("/clusters/0/cluster/certificate-authority-data"));
    roots.add(authority.expect("it is a certificate")).expect("it is an authority");
    let own =
        CertificateDer::from_pem_slice(&pem("/users/0/user/client-certificate-data")).expect("it is one");
    let key = PrivateKeyDer::from_pem_slice(&pem("/users/0/user/client-key-data")).expect("it is a key");
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows them")
            .with_root_certificates(roots);
    let mut config = match is_admin {
        true => config.with_client_auth_cert(vec![own], key).expect("key and certificate fit"),
        false => config.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}
