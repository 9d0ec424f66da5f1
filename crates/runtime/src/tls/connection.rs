//! Serves HTTP/1.1 and HTTP/2 over TLS, with limits on what clients may hold.
//!
//! | limit | what the client sees |
//! |---|---|
//! | [`CONNECTIONS_MAX`] connections | an idle connection is closed; if all are busy, the new one waits |
//! | [`HANDSHAKE_MAX`] for the handshake | the connection is closed |
//! | [`FIRST_REQUEST_MAX`] from the handshake to the first request | the connection is closed |
//! | [`IDLE_MAX`] between requests, over HTTP/1.1 and HTTP/2 | the connection is closed |
//! | [`CLOSE_MAX`] to read the last answer of a connection that is closed | the connection breaks |
//!
//! Clients are not known before their first request, and anybody in the cluster can connect: silent ones must not keep the
//! API server from the webhooks.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::peers::{IdleLimits, Peer, Peers};
use crate::listen::next_connection;

/// How many connections may be open at once. kube-apiserver keeps one connection for each webhook over HTTP/2, and at
/// most 25 idle ones over HTTP/1.1, so this leaves room for several API servers and for probes.
const CONNECTIONS_MAX: usize = 500;

/// How long a TLS handshake may take: Go's `TLSHandshakeTimeout`.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How long a connection may be idle between two requests, and how long the head of a request may take. kube-apiserver
/// closes its idle connections after 90 seconds, so the client closes first, and no request meets a closed connection.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// How long a client may take from the handshake to its first request. Clients connect because they have one.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(10);

/// How long a connection that is closed for being idle may take to send what is left: an answer that its client does not
/// read, and the farewell of HTTP/2.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// The limits of one server.
#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: usize,
    handshake: Duration,
    idle: IdleLimits,
    close: Duration,
}

const LIMITS: Limits = Limits {
    connections: CONNECTIONS_MAX,
    handshake: HANDSHAKE_MAX,
    idle: IdleLimits { first: FIRST_REQUEST_MAX, between: IDLE_MAX },
    close: CLOSE_MAX,
};

/// How often an idle HTTP/2 connection is pinged, and how long the client may take to answer: kube-apiserver's own
/// values.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(15);

/// How many requests one HTTP/2 connection may send at once: the default of Go's server.
const STREAMS_MAX: u32 = 250;

/// The first byte of a TLS connection: the content type `handshake`.
const TLS_HANDSHAKE: u8 = 22;

/// The response to a client that does not use TLS, worded like that of Go's server.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
    Client sent an HTTP request to an HTTPS server.\n";

/// Serves connections until `ended`, and then until the requests in progress have ended. Dropping the future closes the
/// connections at once, because a crashed manager serves nothing.
pub(crate) async fn serve<F, Fut, B>(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    ended: impl Future<Output = ()>,
    answer: F,
) where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Into<Content> + 'static,
{
    serve_within(LIMITS, listener, config, ended, answer).await;
}

async fn serve_within<F, Fut, B>(
    limits: Limits,
    listener: TcpListener,
    config: Arc<ServerConfig>,
    ended: impl Future<Output = ()>,
    answer: F,
) where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Into<Content> + 'static,
{
    let peers = Peers::new(limits.connections);
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut ended = std::pin::pin!(ended);
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut ended => break,
            Some(_) = connections.join_next() => continue,
            stream = next_connection(&listener) => stream,
        };
        let peer = tokio::select! {
            biased;
            () = &mut ended => break,
            peer = peers.admit() => peer,
        };
        let accepted = Accepted { stream, peer, limits };
        connections.spawn(connection(accepted, config.clone(), closing.clone(), answer.clone()));
    }
    drop(listener);
    closing.cancel();
    while connections.join_next().await.is_some() {}
}

/// The content of a response.
pub(crate) enum Content {
    Whole(Bytes),
    /// Pieces that arrive while they are sent. The stream must end when the server stops, which waits for it.
    #[cfg_attr(not(feature = "secured-server"), expect(dead_code, reason = "webhooks answer at once"))]
    Stream(UnsyncBoxBody<Bytes, Infallible>),
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

/// A connection that has a place among the others.
struct Accepted {
    stream: TcpStream,
    peer: Peer,
    limits: Limits,
}

/// Serves a connection to its end. A broken connection affects only its client.
async fn connection<F, Fut, B>(
    accepted: Accepted,
    config: Arc<ServerConfig>,
    closing: CancellationToken,
    answer: F,
) where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: Into<Content> + 'static,
{
    let Accepted { stream, peer, limits } = accepted;
    // Responses are small, and must not wait for more data (Nagle's algorithm).
    let _ = stream.set_nodelay(true);
    let tls = tokio::select! {
        biased;
        () = closing.cancelled() => return,
        () = peer.must_leave(limits.idle) => return,
        tls = tokio::time::timeout(limits.handshake, handshake(stream, config)) => tls,
    };
    let Ok(Some(tls)) = tls else { return };
    let peer = Arc::new(peer);
    let asking = peer.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (running, answered) = (asking.begin(), answer(request));
        async move {
            let response = answered.await;
            Ok::<_, Infallible>(response.map(|body| {
                match body.into() {
                    Content::Whole(bytes) => {
                        drop(running);
                        Full::new(bytes).boxed_unsync()
                    }
                    // A connection whose stream is open is not idle.
                    Content::Stream(body) => body
                        .map_frame(move |frame| {
                            let _ = &running;
                            frame
                        })
                        .boxed_unsync(),
                }
            }))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.idle.between);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(tls), service));
    tokio::select! {
        biased;
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            return log_broken(connection.await);
        }
        () = peer.must_leave(limits.idle) => connection.as_mut().graceful_shutdown(),
        ended = connection.as_mut() => return log_broken(ended),
    }
    if let Ok(ended) = tokio::time::timeout(limits.close, connection).await {
        log_broken(ended);
    }
}

/// Performs the TLS handshake. A client that speaks plain HTTP gets an explanation.
async fn handshake(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    let mut first = [0];
    if stream.peek(&mut first).await.ok()? == 0 {
        return None;
    }
    if first[0] != TLS_HANDSHAKE {
        if first[0].is_ascii_uppercase() {
            let _ = stream.write_all(PLAIN_HTTP).await;
            // The client's data is read before closing: otherwise the client's system may discard the response.
            let mut sent = [0; 4096];
            let _ = stream.try_read(&mut sent);
            let _ = stream.shutdown().await;
        }
        return None;
    }
    match TlsAcceptor::from(config).accept(stream).await {
        Ok(tls) => Some(tls),
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
    }
}

fn log_broken(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(error, "a connection broke");
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_env::Env;
    use http_body_util::Empty;
    use jiff::SignedDuration;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::AsyncReadExt as _;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;

    use super::*;
    use crate::tls::{Identity, Shown, Validity, certificates, issue, provider};

    /// Longer than any server of these tests lets a client be silent, and shorter than the pause before the first ping.
    const HANG: Duration = Duration::from_secs(20);
    const LONG: Duration = Duration::from_secs(3600);

    /// The limits with long times, so that a test can shorten the one that it looks at.
    fn limits() -> Limits {
        Limits {
            connections: CONNECTIONS_MAX,
            handshake: LONG,
            idle: IdleLimits { first: LONG, between: LONG },
            close: Duration::from_millis(100),
        }
    }

    struct Served {
        address: std::net::SocketAddr,
        connector: TlsConnector,
    }

    /// A server that answers every request with one word.
    async fn serving(limits: Limits) -> Served {
        let env = Env::system();
        let day = SignedDuration::from_hours(24);
        let names = ["localhost".to_owned()];
        let issued = issue(("a", "b"), &names, Validity::from(env.now(), day, day)).unwrap();
        let shown = Shown::default();
        shown.show(Identity::from_pem(issued.certificate.as_bytes(), issued.key.as_bytes()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = |_: Request<Incoming>| async { Response::new(Bytes::from_static(b"word")) };
        let config = shown.server_config(env).unwrap();
        tokio::spawn(serve_within(limits, listener, config, std::future::pending(), answer));
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(issued.ca.as_bytes()).unwrap());
        let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Served { address, connector: TlsConnector::from(Arc::new(config)) }
    }

    impl Served {
        async fn connect(&self) -> TlsStream<TcpStream> {
            let stream = TcpStream::connect(self.address).await.unwrap();
            self.connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
        }

        /// A client of HTTP/2 that has had an answer, and the future that drives its connection.
        async fn asked(&self) -> impl Future<Output = ()> {
            let stream = TokioIo::new(self.connect().await);
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            let connection = tokio::spawn(connection);
            let request = Request::get("https://localhost/").body(Empty::<Bytes>::new()).unwrap();
            assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
            async move {
                let _ = connection.await.unwrap();
                drop(sender);
            }
        }
    }

    async fn ends(work: impl Future) -> bool {
        tokio::time::timeout(HANG, work).await.is_ok()
    }

    /// A client that finished its handshake and sent nothing held its place for good: 500 of them kept the API server from
    /// the webhooks.
    #[tokio::test]
    async fn a_client_that_sends_nothing_after_its_handshake_is_closed() {
        let mut limits = limits();
        limits.idle.first = Duration::from_millis(300);
        let mut silent = serving(limits).await.connect().await;
        assert!(ends(silent.read_to_end(&mut Vec::new())).await);
    }

    /// The limit between requests was one of HTTP/1.1 alone: a client of HTTP/2 that answered pings stayed for good.
    #[tokio::test]
    async fn an_idle_connection_of_http2_is_closed() {
        let mut limits = limits();
        limits.idle.between = Duration::from_millis(300);
        let served = serving(limits).await;
        let connection = served.asked().await;
        assert!(ends(connection).await);
    }

    #[tokio::test]
    async fn silent_clients_shut_nobody_out() {
        let mut limits = limits();
        limits.connections = 4;
        let served = serving(limits).await;
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(served.address).await.unwrap());
        }
        assert!(ends(served.asked()).await);
    }
}
