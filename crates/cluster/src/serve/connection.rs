//! One connection: the TLS handshake, then requests until the connection or the server ends.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Body, Caller, Upgrade};
use futures::future::{BoxFuture, Either, Ready, ready};
use http::request::Parts;
use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::activity::{Activity, Answering};
use super::connection_slots::ConnectionSlot;
use super::identity::{Certificate, identify, unauthorized};
use super::in_flight::{Class, InFlight, Permit, TooMany, too_many_requests};
use super::served::{Observer, Serving};
use super::socket::Socket;
use super::tls::Tls;
use super::tokens::Tokens;
use super::watch_batching::{BatchedBody, BusyWatches};
use super::watchdog::{Limits, TimedOut, Watchdog};

/// How many bytes the head of a request may have. This leaves room for selectors of 100,000 characters.
const HEAD_MAX_BYTES: usize = 1 << 20;
/// How often an HTTP/2 connection without traffic is pinged, and how long the client may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How many requests may be open on one HTTP/2 connection, as with kube-apiserver.
const STREAMS_MAX: u32 = 100;
/// How many bytes of request bodies a client may send before they are read. For one stream as many as kube-apiserver
/// allows, which is more than almost any object has; for the connection four times as many.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * STREAM_WINDOW_BYTES;
/// The largest frame: HTTP/2's default and minimum. A larger one ends the connection.
const FRAME_MAX_BYTES: u32 = 16 * 1024;
/// How much of one response HTTP/2 buffers: two pieces (`watch_batching.rs`), the one being sent and the next one.
const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// How many streams a client may reset before the server has accepted them. Streams are accepted as soon as they
/// arrive, so more than a few are a flood (CVE-2023-44487) and end the connection. [`Activity::is_abusive`] counts
/// those that are reset later.
const PENDING_RESETS_MAX: usize = 20;
/// How many streams the server may reset because of protocol errors until the connection ends. A correct client causes
/// none.
const ERROR_RESETS_MAX: usize = 100;
/// How long open requests may take after the connection is told to shut down.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(300);

/// The group of clients without credentials.
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// What all connections of a server share.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) server: ApiServer,
    pub(crate) tls: Tls,
    pub(crate) tokens: Arc<Tokens>,
    /// Becomes true when the server ends.
    pub(crate) ending: watch::Receiver<bool>,
    pub(crate) timeouts: Timeouts,
    pub(crate) busy_watches: BusyWatches,
    pub(crate) in_flight: InFlight,
    /// Called with each answered request, if requests are recorded.
    pub(crate) observer: Option<Observer>,
}

/// How long a client may take for each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) handshake: Duration,
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) body: Duration,
    pub(crate) unread: Duration,
}

/// A response that is ready, or a future of one.
type Answer = Either<Ready<Answered>, BoxFuture<'static, Answered>>;
type Answered = Result<Response<BatchedBody>, Infallible>;

/// Answers the requests of one connection. It clones only the connection's own `Arc`: reference counts that all
/// connections share would make the cores contend for them.
struct Requests(Arc<Connection>);

struct Connection {
    server: ApiServer,
    tokens: Arc<Tokens>,
    certificate: Certificate,
    /// The address of the client, for the audit log.
    remote: Option<IpAddr>,
    body_timeout: Duration,
    busy_watches: BusyWatches,
    in_flight: InFlight,
    observer: Option<Observer>,
    slot: Arc<ConnectionSlot>,
    /// Becomes true when the server ends.
    ending: watch::Receiver<bool>,
    is_h2: bool,
}

impl Host {
    pub(crate) async fn serve(self, stream: TcpStream, slot: ConnectionSlot) {
        // Answers are written whole; waiting for more bytes would only delay them.
        let _ = stream.set_nodelay(true);
        let remote = stream.peer_addr().ok().map(|address| address.ip().to_canonical());
        let handshake = TlsAcceptor::from(self.tls.config.clone()).accept(stream);
        let handshake = tokio::time::timeout(self.timeouts.handshake, handshake);
        let stream = tokio::select! {
            biased;
            handshake = handshake => match handshake {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => return tracing::debug!("TLS handshake timed out"),
            },
            () = slot.evicted() => return tracing::debug!("closed during its TLS handshake to make room for another connection"),
        };
        let certificate = self.tls.judge(stream.get_ref().1.peer_certificates());
        if let Certificate::Good(user) = &certificate {
            // A client that gets no slot stays a stranger, and its requests are refused.
            let _ = slot.recognize(user);
        }
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let Timeouts { head, idle, unread, body: body_timeout, .. } = self.timeouts;
        let limits = Limits { head, idle, unread, bytes_are_heads: !is_h2 };
        let slot = Arc::new(slot);
        let activity = slot.activity().clone();
        let signals = EndSignals {
            ending: self.ending.clone(),
            watchdog: Watchdog::new(activity.clone(), limits),
            slot: slot.clone(),
        };
        let socket = Socket::new(stream, activity);
        let Self { server, tokens, busy_watches, in_flight, observer, ending, .. } = self;
        let connection = Connection {
            server,
            tokens,
            certificate,
            remote,
            body_timeout,
            busy_watches,
            in_flight,
            observer,
            slot,
            ending,
            is_h2,
        };
        let requests = Requests(Arc::new(connection));
        let ended = match is_h2 {
            true => serve_h2(socket, requests, signals).await,
            false => serve_h1(socket, requests, signals).await,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended with an error");
        }
    }
}

async fn serve_h1(
    socket: Socket<TlsStream<TcpStream>>,
    requests: Requests,
    signals: EndSignals,
) -> hyper::Result<()> {
    let connection = http1::Builder::new()
        // The watchdog limits the time for heads.
        .header_read_timeout(None)
        .max_buf_size(HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(socket), requests)
        .with_upgrades();
    let mut connection = pin!(connection);
    match until_end(connection.as_mut(), signals).await {
        End::Itself(ended) => return ended,
        End::Cut => return Ok(()),
        End::Asked => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(SHUTDOWN_GRACE, connection).await.unwrap_or(Ok(()))
}

async fn serve_h2(
    socket: Socket<TlsStream<TcpStream>>,
    requests: Requests,
    signals: EndSignals,
) -> hyper::Result<()> {
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX_BYTES as u32)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_MAX_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(ERROR_RESETS_MAX)
        .serve_connection(TokioIo::new(socket), requests);
    let mut connection = pin!(connection);
    match until_end(connection.as_mut(), signals).await {
        End::Itself(ended) => return ended,
        End::Cut => return Ok(()),
        End::Asked => connection.as_mut().graceful_shutdown(),
    }
    tokio::time::timeout(SHUTDOWN_GRACE, connection).await.unwrap_or(Ok(()))
}

/// What can end a connection from outside: the server, the watchdog, or another client that needs the slot.
struct EndSignals {
    /// Becomes true when the server ends.
    ending: watch::Receiver<bool>,
    watchdog: Watchdog,
    slot: Arc<ConnectionSlot>,
}

/// Why a connection ends.
enum End<T> {
    /// The connection has ended by itself.
    Itself(T),
    /// The server shuts down, the client sent no request in time, or another client needs the slot. Open requests get a
    /// short time to complete.
    Asked,
    /// The client does not read, or floods the server. The connection is closed at once.
    Cut,
}

/// Drives a connection until it ends or must be ended.
///
/// A connection is polled at every step of every request, and almost never has to end then. So the signals that can end
/// it get the waker once, and are polled again only when one of them has changed.
async fn until_end<F: Future>(mut connection: Pin<&mut F>, signals: EndSignals) -> End<F::Output> {
    let EndSignals { mut ending, mut watchdog, slot } = signals;
    let news = ending.clone();
    let mut ended = pin!(ending.wait_for(|ending| *ending));
    let mut told: Option<Waker> = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = connection.as_mut().poll(cx) {
            return Poll::Ready(End::Itself(output));
        }
        if slot.activity().is_abusive() {
            tracing::debug!("closed a connection: the client abandoned too many requests");
            return Poll::Ready(End::Cut);
        }
        let is_told = told.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        // If the sender is gone, the server has ended, too.
        if is_told && !watchdog.is_due() && !slot.is_evicted() && !news.has_changed().unwrap_or(true) {
            return Poll::Pending;
        }
        told = Some(cx.waker().clone());
        slot.register(cx.waker());
        match watchdog.poll(cx) {
            Poll::Ready(TimedOut::Unread) => {
                tracing::debug!("closed a connection: the client did not read its response");
                return Poll::Ready(End::Cut);
            }
            Poll::Ready(TimedOut::NoRequest) => return Poll::Ready(End::Asked),
            Poll::Pending => {}
        }
        if slot.is_evicted() || ended.as_mut().poll(cx).is_ready() {
            return Poll::Ready(End::Asked);
        }
        Poll::Pending
    })
    .await
}

impl Connection {
    fn activity(&self) -> &Activity {
        self.slot.activity()
    }

    /// The caller of a request. An authenticated client moves to a slot of known clients.
    fn caller(&self, request: &Request<Incoming>) -> Result<Caller, Box<Refused>> {
        let accounts = |token: &str| self.server.authenticate(token);
        let user = identify(&self.certificate, request.headers(), &self.tokens, accounts);
        let user = user.ok_or_else(|| Box::new(Refused { caller: None, answer: unauthorized() }))?;
        let body_timeout = Some(self.body_timeout);
        let caller = Caller { user, body_timeout, remote: self.remote, held: None };
        if !caller.user.is_in(UNAUTHENTICATED) && self.slot.recognize(&caller.user).is_err() {
            return Err(Box::new(Refused { caller: Some(caller), answer: too_many_requests() }));
        }
        Ok(caller)
    }

    /// Tells the observer of a request that was answered.
    fn tell(&self, serving: Option<Serving>, answer: &Response<Body>) {
        if let Some((serving, observer)) = serving.zip(self.observer.as_ref()) {
            serving.end(observer, answer);
        }
    }

    /// Counts the request as abandoned if it is reset, over HTTP/2, where one request can be reset alone.
    fn answering(&self) -> Option<Answering> {
        self.is_h2.then(|| self.activity().answering())
    }

    fn batched(
        &self,
        answer: Response<Body>,
        answering: Option<Answering>,
        permit: Option<Arc<Permit>>,
    ) -> Answered {
        let activity = self.activity();
        Ok(answer.map(|body| BatchedBody::new(body, &self.busy_watches, activity, answering, permit)))
    }

    /// The response with its permit. A watch gives back its read permit and takes one for watches.
    fn counted(
        &self,
        caller: Caller,
        answer: Response<Body>,
        permit: Option<Arc<Permit>>,
    ) -> (Response<Body>, Option<Arc<Permit>>) {
        let goes_on = answer.body().is_watch() || answer.extensions().get::<Upgrade>().is_some();
        if !goes_on {
            return (answer, permit);
        }
        let Caller { user, held, .. } = caller;
        drop((permit, held));
        match self.in_flight.enter(&user, Class::Watch) {
            Ok(permit) => (answer, permit.map(Arc::new)),
            Err(TooMany) => (too_many_requests(), None),
        }
    }
}

/// Serves a connection after its upgrade, until it or the server ends. It keeps its slot, in which it is never idle.
async fn serve_upgraded(
    connection: Arc<Connection>,
    upgrade: Upgrade,
    upgraded: OnUpgrade,
    _permit: Option<Arc<Permit>>,
) {
    let _open = connection.activity().open();
    let io = match upgraded.await {
        Ok(io) => io,
        Err(error) => return tracing::debug!(%error, "a connection could not be upgraded"),
    };
    let Some(served) = upgrade.serve(Box::new(TokioIo::new(io)), None) else { return };
    let mut ending = connection.ending.clone();
    tokio::select! {
        () = served => {}
        _ = ending.wait_for(|ending| *ending) => {}
    }
}

/// A request that is refused before it reaches the API server.
struct Refused {
    /// The caller, or `None` if the credentials are wrong.
    caller: Option<Caller>,
    answer: Response<Body>,
}

impl Requests {
    /// Answers a refused request, after it is written to the audit log if there is one.
    fn refuse(&self, refused: Refused, mut head: Parts) -> Answer {
        let (connection, answering) = (self.0.clone(), self.0.answering());
        let Refused { caller, mut answer } = refused;
        if !connection.server.is_audited() {
            return Either::Left(ready(connection.batched(answer, answering, None)));
        }
        Either::Right(Box::pin(async move {
            let (server, remote) = (&connection.server, connection.remote);
            match &caller {
                Some(caller) => server.audit_refusal(caller, &mut head, &mut answer).await,
                None => server.audit_unauthenticated(&mut head, remote, &mut answer).await,
            }
            connection.batched(answer, answering, None)
        }))
    }
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<BatchedBody>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, mut request: Request<Incoming>) -> Answer {
        let connection = &*self.0;
        connection.activity().note_head();
        let at_once = |answer| Either::Left(ready(connection.batched(answer, connection.answering(), None)));
        let mut caller = match connection.caller(&request) {
            Ok(caller) => caller,
            Err(refused) => return self.refuse(*refused, request.into_parts().0),
        };
        let upgraded =
            request.headers().contains_key(header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
        let (mut head, body) = request.into_parts();
        let serving = connection.observer.is_some().then(|| Serving::begin(&head, &caller.user));
        // Answer at once if possible. While a request is pending, hyper reads ahead, and allocates another buffer for
        // it because the request occupies the current one.
        if let Some(answer) = connection.server.serve_now(&caller, &mut head) {
            connection.tell(serving, &answer);
            return at_once(answer);
        }
        let Ok(permit) = connection.in_flight.enter(&caller.user, Class::of(&head.method)) else {
            let answer = too_many_requests();
            connection.tell(serving, &answer);
            return self.refuse(Refused { caller: Some(caller), answer }, head);
        };
        let permit = permit.map(Arc::new);
        caller.held = permit.clone().map(|permit| permit as Arc<_>);
        let (open, answering) = (connection.activity().open(), connection.answering());
        let connection = self.0.clone();
        Either::Right(Box::pin(async move {
            let answer = connection.server.serve(&caller, &mut head, body).await;
            connection.tell(serving, &answer);
            let (mut answer, permit) = connection.counted(caller, answer, permit);
            let upgrade = answer.extensions_mut().remove::<Upgrade>();
            if let Some((upgrade, upgraded)) = upgrade.zip(upgraded) {
                tokio::spawn(serve_upgraded(connection.clone(), upgrade, upgraded, permit.clone()));
            }
            let answer = connection.batched(answer, answering, permit);
            drop(open);
            answer
        }))
    }
}
