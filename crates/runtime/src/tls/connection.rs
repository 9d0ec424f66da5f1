//! Serves HTTP/1.1 and HTTP/2 over TLS, with limits on what clients may hold.
//!
//! | limit | what the client sees |
//! |---|---|
//! | [`CONNECTIONS_MAX`] connections | its connection waits in the operating system's queue |
//! | [`HANDSHAKE_MAX`] for the handshake | the connection is closed |
//! | [`IDLE_MAX`] between requests | the connection is closed |

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::listen::next_connection;

/// How many connections may be open at once. kube-apiserver keeps one connection for each webhook over HTTP/2, and at
/// most 25 idle ones over HTTP/1.1, so this leaves room for several API servers and for probes.
const CONNECTIONS_MAX: usize = 500;

/// How long a TLS handshake may take: Go's `TLSHandshakeTimeout`.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How long a connection may be idle between two requests, and how long the head of a request may take. kube-apiserver
/// closes its idle connections after 90 seconds, so the client closes first, and no request meets a closed connection.
const IDLE_MAX: Duration = Duration::from_secs(120);

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
pub(crate) async fn serve<F, Fut>(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    ended: impl Future<Output = ()>,
    answer: F,
) where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<Bytes>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let closing = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut ended = std::pin::pin!(ended);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut ended => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, slot)) = accepted else { break };
        let (config, closing, answer) = (config.clone(), closing.clone(), answer.clone());
        connections.spawn(async move {
            connection(stream, config, closing, answer).await;
            drop(slot);
        });
    }
    drop(listener);
    closing.cancel();
    while connections.join_next().await.is_some() {}
}

/// Accepts the next connection, once a slot is free.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    Some((next_connection(listener).await, slot))
}

/// Serves a connection to its end. A broken connection affects only its client.
async fn connection<F, Fut>(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    closing: CancellationToken,
    answer: F,
) where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<Bytes>> + Send + 'static,
{
    // Responses are small, and must not wait for more data (Nagle's algorithm).
    let _ = stream.set_nodelay(true);
    let tls = tokio::select! {
        biased;
        () = closing.cancelled() => return,
        tls = tokio::time::timeout(HANDSHAKE_MAX, handshake(stream, config)) => tls,
    };
    let Ok(Some(tls)) = tls else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await.map(Full::new)) }
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
