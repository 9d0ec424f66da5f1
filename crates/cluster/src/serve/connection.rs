//! One connection: handshake, then requests until it ends or the server does.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Caller};
use futures::future::{BoxFuture, Either, Ready, ready, select};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::identity::{Certificate, identify, unauthorized};
use super::pace::{Paced, Traffic};
use super::patience::Patience;
use super::tls::Tls;
use super::tokens::Tokens;

/// How many bytes the head of a request may have. Selectors of 100,000 characters are answered, not cut off.
const HEAD_MAX_BYTES: usize = 1 << 20;
/// How often a quiet HTTP/2 connection is asked whether anybody is there, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How many requests may be open on one HTTP/2 connection; as many as kube-apiserver allows.
const MOST_STREAMS: u32 = 250;
/// How long requests have to end after the server was told to.
const FAREWELL: Duration = Duration::from_millis(300);

/// What every connection needs.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) server: ApiServer,
    pub(crate) tls: Tls,
    pub(crate) tokens: Arc<Tokens>,
    /// Becomes true when the server ends.
    pub(crate) ending: watch::Receiver<bool>,
    pub(crate) handshake_timeout: Duration,
    pub(crate) head_timeout: Duration,
    pub(crate) body_timeout: Duration,
    pub(crate) traffic: Traffic,
}

/// An answer that is there, or one to come.
type Answer = Either<Ready<Answered>, BoxFuture<'static, Answered>>;
type Answered = Result<Response<Paced>, Infallible>;

/// The requests of one connection. What they need is its own: what all connections count is dear to touch.
struct Requests(Arc<Connection>);

struct Connection {
    server: ApiServer,
    tokens: Arc<Tokens>,
    certificate: Certificate,
    body_timeout: Duration,
    traffic: Traffic,
}

impl Host {
    pub(crate) async fn serve(self, stream: TcpStream) {
        // Answers are written whole; waiting for more bytes would only delay them.
        let _ = stream.set_nodelay(true);
        let handshake = TlsAcceptor::from(self.tls.config.clone()).accept(stream);
        let stream = match tokio::time::timeout(self.handshake_timeout, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a handshake failed"),
            Err(_) => return tracing::debug!("a handshake took too long"),
        };
        let certificate = self.tls.judge(stream.get_ref().1.peer_certificates());
        let Self { server, tokens, body_timeout, traffic, .. } = self;
        let connection = Connection { server, tokens, certificate, body_timeout, traffic };
        let requests = Requests(Arc::new(connection));
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let ended = if is_h2 {
            serve_h2(stream, requests, self.ending).await
        } else {
            serve_h1(stream, requests, self.ending, self.head_timeout).await
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

async fn serve_h1(
    stream: TlsStream<TcpStream>,
    requests: Requests,
    mut ending: watch::Receiver<bool>,
    head_timeout: Duration,
) -> hyper::Result<()> {
    let connection = http1::Builder::new()
        .timer(Patience::default())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(stream), requests);
    let mut connection = pin!(connection);
    match select(connection.as_mut(), pin!(ending.wait_for(|ending| *ending))).await {
        Either::Left((ended, _)) => return ended,
        Either::Right(_) => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
}

async fn serve_h2(
    stream: TlsStream<TcpStream>,
    requests: Requests,
    mut ending: watch::Receiver<bool>,
) -> hyper::Result<()> {
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(HEAD_MAX_BYTES as u32)
        .serve_connection(TokioIo::new(stream), requests);
    let mut connection = pin!(connection);
    match select(connection.as_mut(), pin!(ending.wait_for(|ending| *ending))).await {
        Either::Left((ended, _)) => return ended,
        Either::Right(_) => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<Paced>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        let Connection { server, tokens, certificate, body_timeout, traffic } = &*self.0;
        let accounts = |token: &str| server.authenticate(token);
        let Some(user) = identify(certificate, request.headers(), tokens, accounts) else {
            return Either::Left(ready(Ok(unauthorized().map(|body| Paced::new(body, traffic)))));
        };
        let caller = Caller { user, body_timeout: Some(*body_timeout) };
        let (mut head, body) = request.into_parts();
        // What can be answered at once is not kept: hyper tries to read on before it asks for the answer, and takes a
        // new buffer to do so while a request is in the old one.
        if let Some(answer) = server.serve_now(&caller, &mut head) {
            return Either::Left(ready(Ok(answer.map(|body| Paced::new(body, traffic)))));
        }
        let connection = self.0.clone();
        Either::Right(Box::pin(async move {
            let answer = connection.server.serve(&caller, &mut head, body).await;
            Ok(answer.map(|body| Paced::new(body, &connection.traffic)))
        }))
    }
}
