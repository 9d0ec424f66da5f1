//! One connection: handshake, then requests until it ends or the server does.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Caller};
use futures::future::{BoxFuture, Either, Ready, ready};
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
use super::patience::{Activity, Patience};
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
    activity: Activity,
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
        let activity = Activity::default();
        let patience = Patience::new(activity.clone(), self.head_timeout);
        let connection = Connection { server, tokens, certificate, body_timeout, traffic, activity };
        let requests = Requests(Arc::new(connection));
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let ended = if is_h2 {
            serve_h2(stream, requests, self.ending).await
        } else {
            serve_h1(stream, requests, self.ending, patience).await
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

async fn serve_h1(
    stream: TlsStream<TcpStream>,
    requests: Requests,
    ending: watch::Receiver<bool>,
    patience: Patience,
) -> hyper::Result<()> {
    let connection = http1::Builder::new()
        // The patience is the bound on heads.
        .header_read_timeout(None)
        .max_buf_size(HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(stream), requests);
    let mut connection = pin!(connection);
    match until_end(connection.as_mut(), ending, Some(patience)).await {
        Some(ended) => return ended,
        None => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
}

async fn serve_h2(
    stream: TlsStream<TcpStream>,
    requests: Requests,
    ending: watch::Receiver<bool>,
) -> hyper::Result<()> {
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(HEAD_MAX_BYTES as u32)
        .serve_connection(TokioIo::new(stream), requests);
    let mut connection = pin!(connection);
    match until_end(connection.as_mut(), ending, None).await {
        Some(ended) => return ended,
        None => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(FAREWELL, connection).await.unwrap_or(Ok(()))
}

/// Drives a connection until it is over; none when the server ends before, or the patience with the client.
///
/// A connection is polled at every step of every request, and neither of the two has any news then. They are told once
/// whom to wake, and asked again when there is something to hear.
async fn until_end<F: Future>(
    mut connection: Pin<&mut F>,
    mut ending: watch::Receiver<bool>,
    mut patience: Option<Patience>,
) -> Option<F::Output> {
    let news = ending.clone();
    let mut ended = pin!(ending.wait_for(|ending| *ending));
    let mut told: Option<Waker> = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = connection.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let is_told = told.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let is_due = patience.as_ref().is_some_and(Patience::is_due);
        // A server that is gone without a word has ended, too.
        if is_told && !is_due && !news.has_changed().unwrap_or(true) {
            return Poll::Pending;
        }
        told = Some(cx.waker().clone());
        let lost = patience.as_mut().is_some_and(|patience| patience.poll(cx).is_ready());
        if lost || ended.as_mut().poll(cx).is_ready() { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<Paced>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        let Connection { server, tokens, certificate, body_timeout, traffic, activity } = &*self.0;
        activity.note_head();
        let accounts = |token: &str| server.authenticate(token);
        let Some(user) = identify(certificate, request.headers(), tokens, accounts) else {
            return Either::Left(ready(Ok(unauthorized().map(|body| Paced::new(body, traffic, activity)))));
        };
        let caller = Caller { user, body_timeout: Some(*body_timeout) };
        let (mut head, body) = request.into_parts();
        // What can be answered at once is not kept: hyper tries to read on before it asks for the answer, and takes a
        // new buffer to do so while a request is in the old one.
        if let Some(answer) = server.serve_now(&caller, &mut head) {
            return Either::Left(ready(Ok(answer.map(|body| Paced::new(body, traffic, activity)))));
        }
        let (connection, open) = (self.0.clone(), activity.open());
        Either::Right(Box::pin(async move {
            let Connection { server, traffic, activity, .. } = &*connection;
            let answer = server.serve(&caller, &mut head, body).await;
            let answer = answer.map(|body| Paced::new(body, traffic, activity));
            drop(open);
            Ok(answer)
        }))
    }
}
