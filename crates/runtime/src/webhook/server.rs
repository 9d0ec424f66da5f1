//! The server of the webhooks: TLS, HTTP/1.1 and HTTP/2, and limits on what clients may ask of it.
//!
//! | limit | what the client sees |
//! |---|---|
//! | [`CONNECTIONS_MAX`] connections | its connection waits in the queue of the operating system |
//! | [`HANDSHAKE_MAX`] for the handshake | the connection is closed |
//! | [`READ_MAX`] for the body of a request | status 408 |
//! | the size of a review | status 413 |
//! | [`BODY_BYTES_MAX`] in all bodies | status 503 with `Retry-After` |
//! | reviews at once | status 429 with `Retry-After` |
//! | the time of a review | status 504 |

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel_env::Env;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::certificates::Certificates;
use super::service::{Refusal, Webhooks, busy, refused, too_large};
use super::tls::Shown;
use crate::listen::{Listen, next_connection};

/// How many connections are open at once. kube-apiserver keeps one connection for each webhook over HTTP/2, and at most 25
/// idle ones over HTTP/1.1: this leaves room for some API servers and for probes.
const CONNECTIONS_MAX: usize = 500;

/// How long a TLS handshake may take: Go's `TLSHandshakeTimeout`.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How long a connection may be idle between two requests, and how long the head of a request may take. The idle
/// connections of kube-apiserver end after 90 seconds: the client closes first, so that no request meets a closed
/// connection.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// How long the body of a request may take: the longest timeout of a webhook, after which the API server has given up.
const READ_MAX: Duration = Duration::from_secs(30);

/// How often a quiet HTTP/2 connection is pinged, and how long it may take to answer: kube-apiserver's own numbers.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(15);

/// How many requests one HTTP/2 connection may send at once: Go's default for servers.
const STREAMS_MAX: u32 = 250;

/// The memory for the bodies of all requests together: two lists of 100 MiB that are converted, or 36 of the largest
/// admission reviews.
const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away before the answer. A client that is still sending may not
/// see an answer that comes with the end of the connection.
const DISCARD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The first byte of a TLS connection: the content type `handshake`.
const TLS_HANDSHAKE: u8 = 22;

/// The answer to a client that does not use TLS, with the words of Go's server.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n\
    Client sent an HTTP request to an HTTPS server.\n";

/// Serves webhooks over TLS.
#[derive(Clone)]
pub(crate) struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    webhooks: Webhooks,
    shown: Shown,
    env: Env,
    listens: AtomicBool,
    connections: Arc<Semaphore>,
    body_bytes: Semaphore,
}

/// When a server stops.
pub(crate) struct Stop {
    /// Cancelled when the manager begins to stop: the server is no longer ready, and goes on.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when everything that may need the webhooks has ended.
    pub(crate) stop: CancellationToken,
    /// How long the server goes on after `stopping`, until no API server sends requests here.
    pub(crate) linger: Duration,
}

impl Server {
    pub(crate) fn new(webhooks: Webhooks, certificates: &Certificates, env: Env) -> Self {
        let inner = Inner {
            webhooks,
            shown: certificates.shown(),
            env,
            listens: AtomicBool::new(false),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            body_bytes: Semaphore::new(BODY_BYTES_MAX),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether the server can answer reviews; the error says why not.
    #[cfg_attr(not(feature = "health"), expect(dead_code, reason = "nobody can ask"))]
    pub(crate) fn check(&self, stopping: &CancellationToken) -> Result<(), String> {
        if stopping.is_cancelled() {
            return Err("stopping".to_owned());
        }
        if !self.inner.listens.load(Ordering::Relaxed) {
            return Err("not listening".to_owned());
        }
        self.inner.shown.check(self.inner.env.now())
    }

    /// Serves until told to stop, and then until the running requests have ended.
    pub(crate) async fn serve(self, listen: Listen, stop: Stop) -> io::Result<()> {
        let config = self.inner.shown.server_config(self.inner.env.clone()).map_err(io::Error::other)?;
        let listener = listen.begin().await?;
        tracing::info!(address = %listener.local_addr()?, "serving webhooks");
        self.inner.listens.store(true, Ordering::Relaxed);
        let closing = CancellationToken::new();
        // Dropping the set ends the connections, too: a manager that crashes serves nothing.
        let mut connections = JoinSet::new();
        let mut ended = std::pin::pin!(stop.ended());
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut ended => break,
                Some(_) = connections.join_next() => continue,
                accepted = self.accept(&listener) => accepted,
            };
            let Some((stream, slot)) = accepted else { break };
            let (server, config, closing) = (self.clone(), config.clone(), closing.clone());
            connections.spawn(async move {
                server.connection(stream, config, closing).await;
                drop(slot);
            });
        }
        drop(listener);
        self.inner.listens.store(false, Ordering::Relaxed);
        closing.cancel();
        while connections.join_next().await.is_some() {}
        Ok(())
    }

    /// The next connection, once there is a slot for it.
    async fn accept(&self, listener: &tokio::net::TcpListener) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let slot = self.inner.connections.clone().acquire_owned().await.ok()?;
        Some((next_connection(listener).await, slot))
    }

    /// Serves a connection to its end. A broken connection concerns its client only.
    async fn connection(self, stream: TcpStream, config: Arc<ServerConfig>, closing: CancellationToken) {
        // Answers are small: they must not wait for more to send.
        let _ = stream.set_nodelay(true);
        let tls = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            tls = tokio::time::timeout(HANDSHAKE_MAX, handshake(stream, config)) => tls,
        };
        let Ok(Some(tls)) = tls else { return };
        let service = service_fn(move |request: Request<Incoming>| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await.map(Full::new)) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(tls), service));
        tokio::select! {
            biased;
            () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
            ended = connection.as_mut() => return log_broken(ended),
        }
        log_broken(connection.await);
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Bytes> {
        let (head, body) = request.into_parts();
        let mut room = None;
        self.inner.webhooks.answer_when_read(&head, |limit| self.read(body, limit, &mut room)).await
    }

    /// Reads a body. `room` is its share of [`BODY_BYTES_MAX`], which the caller holds as long as the body.
    async fn read<'a>(
        &'a self,
        body: Incoming,
        limit: usize,
        room: &mut Option<tokio::sync::SemaphorePermit<'a>>,
    ) -> Result<Bytes, Refusal> {
        let read = self.read_frames(body, limit, room);
        tokio::time::timeout(READ_MAX, read).await.unwrap_or_else(|_| {
            let why = format!("the body did not arrive within {READ_MAX:?}");
            Err(Box::new(refused(StatusCode::REQUEST_TIMEOUT, "Timeout", &why)))
        })
    }

    async fn read_frames<'a>(
        &'a self,
        mut body: Incoming,
        limit: usize,
        room: &mut Option<tokio::sync::SemaphorePermit<'a>>,
    ) -> Result<Bytes, Refusal> {
        if body.size_hint().lower() > limit as u64 {
            discard(body).await;
            return Err(Box::new(too_large(limit)));
        }
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let why = format!("the body ended before its time: {error}");
                Box::new(refused(StatusCode::BAD_REQUEST, "BadRequest", &why))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                discard(body).await;
                return Err(Box::new(too_large(limit)));
            }
            self.reserve(data.len(), room)?;
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    }

    fn reserve<'a>(
        &'a self,
        bytes: usize,
        room: &mut Option<tokio::sync::SemaphorePermit<'a>>,
    ) -> Result<(), Refusal> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(more) = self.inner.body_bytes.try_acquire_many(permits) else {
            let why = format!("the reviews that are being read take {BODY_BYTES_MAX} bytes already");
            return Err(Box::new(busy(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &why)));
        };
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
        Ok(())
    }
}

impl Stop {
    /// Waits until the server may stop.
    async fn ended(self) {
        self.stopping.cancelled().await;
        let linger = tokio::time::sleep(self.linger);
        self.stop.cancelled().await;
        linger.await;
    }
}

/// Begins TLS. A client that speaks plain HTTP is told so.
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
            // What the client sent is read before the end: otherwise its system may drop the answer.
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

async fn discard(mut body: Incoming) {
    let mut left = DISCARD_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

fn log_broken(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(error, "a connection broke");
    }
}
