//! One connection: handshake, then requests until it ends or the server does.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Body, Caller};
use futures::future::{BoxFuture, Either, select};
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

/// The requests of one connection.
struct Requests {
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
        let requests = Requests { server, tokens, certificate, body_timeout, traffic };
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
        let accounts = |token: &str| self.server.authenticate(token);
        let answer: BoxFuture<'static, Response<Body>> =
            match identify(&self.certificate, request.headers(), &self.tokens, accounts) {
                Some(user) => {
                    let caller = Caller { user, body_timeout: Some(self.body_timeout) };
                    Box::pin(self.server.clone().serve(caller, request))
                }
                None => Box::pin(std::future::ready(unauthorized())),
            };
        Answer { answer, traffic: self.traffic.clone() }
    }
}

/// An answer to come, which will be paced on its way out.
struct Answer {
    answer: BoxFuture<'static, Response<Body>>,
    traffic: Traffic,
}

impl Future for Answer {
    type Output = Result<Response<Paced>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.answer.as_mut().poll(cx));
        Poll::Ready(Ok(answer.map(|body| Paced::new(body, &self.traffic))))
    }
}
