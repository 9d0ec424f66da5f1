//! Calls webhooks over HTTPS.
//!
//! These webhooks answer in real time. On a runtime with paused time, virtual time stands still during a call.

mod trust;

use std::io;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{WebhookAnswer, WebhookQuestion};
use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use self::trust::Trust;
use crate::tls;

/// The largest response that is read: the largest request body that the API accepts.
pub(crate) const ANSWER_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The User-Agent of the API server's calls.
const USER_AGENT: &str = "kube-apiserver-admission";
/// The longest time for which virtual time stands still during a call: the longest timeout that a webhook can have.
/// After that, virtual time goes on, and the call times out at once.
const REAL_TIME_MAX: Duration = Duration::from_secs(30);

/// Calls webhooks. Each call makes a connection: calls are few, and no connection stays open after a test.
pub(crate) struct Webhooks {
    /// The CA certificates of the operating system, read at the first call of a webhook without a `caBundle`.
    system: OnceLock<Arc<RootCertStore>>,
}

impl Webhooks {
    pub(crate) fn new() -> Self {
        Self { system: OnceLock::new() }
    }

    /// The CA certificates trusted for the webhook's TLS certificate.
    fn trust(&self, bundle: &[u8]) -> Result<Trust, String> {
        if bundle.is_empty() {
            return Trust::new(self.system.get_or_init(system_roots).clone(), Vec::new());
        }
        let certificates = tls::certificates(bundle);
        let certificates =
            certificates.map_err(|error| format!("unable to load root certificates: {error}"))?;
        Trust::new(tls::roots(certificates.iter().cloned()), certificates)
    }

    /// Posts a review, and returns the response.
    pub(crate) async fn send(&self, question: WebhookQuestion) -> Result<WebhookAnswer, String> {
        let _stopped = evenkeel_env::time_is_paused().then(StoppedClock::new);
        let config = tls::client_config(Arc::new(self.trust(&question.ca_bundle)?));
        let config = config.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(question.server_name.clone()).map_err(|error| error.to_string())?;
        let socket = TcpStream::connect(&question.address).await;
        let socket = socket.map_err(|error| dial_error(&question.address, &error))?;
        let tls = TlsConnector::from(Arc::new(config)).connect(name, socket).await;
        let tls = tls.map_err(|error| trust::handshake_error(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(tls)).await.map_err(|error| error.to_string())?;
        let request = request(question)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let code = response.status().as_u16();
            let content_type = content_type(response.headers());
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok(WebhookAnswer { code, content_type, body })
        };
        // The connection makes progress only while it is polled, and is closed with the response.
        tokio::select! {
            biased;
            answer = exchange => answer,
            ended = connection => Err(ended.err().map_or_else(|| "EOF".to_owned(), |error| error.to_string())),
        }
    }
}

/// Returns the HTTP request that posts a review.
pub(crate) fn request(question: WebhookQuestion) -> Result<Request<Full<Bytes>>, String> {
    Request::post(question.path)
        .header(header::HOST, question.authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, USER_AGENT)
        .body(Full::new(question.body))
        .map_err(|error| error.to_string())
}

/// Returns the Content-Type of a response, or an empty string if it has none.
pub(crate) fn content_type(headers: &http::HeaderMap) -> String {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    given.unwrap_or_default().to_owned()
}

/// Keeps virtual time from passing. Tokio lets paused time jump to the next timer when all tasks wait, but not while a
/// blocking task runs.
struct StoppedClock {
    _end: mpsc::Sender<()>,
}

impl StoppedClock {
    fn new() -> Self {
        let (end, ended) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || {
            // Returns when the sender is dropped.
            let _ = ended.recv_timeout(REAL_TIME_MAX);
        });
        Self { _end: end }
    }
}

fn system_roots() -> Arc<RootCertStore> {
    tls::roots(rustls_native_certs::load_native_certs().certs)
}

/// The error of a failed connection, in the words of Go.
fn dial_error(address: &str, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {address}: {why}")
}
