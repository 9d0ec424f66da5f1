//! The HTTP server of the dashboard: accepts connections and routes requests.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_cluster::User;
use evenkeel_record::Key;
use futures::StreamExt as _;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, BodyStream, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::acts::Act;
use crate::answer::{self, Body};
use crate::evidence::{self, Found, Kind};
use crate::session::{Session, Sessions};
use crate::source::Source;
use crate::{assets, origin};

/// The largest request body, which is also the API server's limit.
const BODY_MAX_BYTES: usize = 3 << 20;

/// The largest body of a login: a token has some thousand bytes. Everybody may send one.
const LOGIN_MAX_BYTES: usize = 64 << 10;

/// How long the body of a request may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How many connections are served at once; others wait. A browser opens six for each of its windows.
const CONNECTIONS_MAX: usize = 256;

/// How long the kinds that a cluster serves are remembered.
const KINDS_MAX_AGE: Duration = Duration::from_secs(10);

/// How often the token of a session is authenticated again.
const CHECK_PERIOD: Duration = Duration::from_secs(60);

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after `accept` failed, for instance because no file descriptor was free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The user and groups that a one-time link logs in as, the same as in the cluster's kubeconfig.
const ADMIN: (&str, [&str; 2]) = ("kubernetes-admin", ["system:masters", "system:authenticated"]);

/// Why the dashboard cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// The address is reachable from other machines.
    #[error(
        "the dashboard speaks plain HTTP and cannot listen on {0}, which other machines may reach; choose a loopback address such as 127.0.0.1:0"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address that cannot be bound.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A dashboard that is bound to a port. It answers requests once [`run`](Dashboard::run) is called.
pub struct Dashboard {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    address: SocketAddr,
    source: Source,
    sessions: Sessions,
    /// The kinds that the cluster serves, and when they were read.
    kinds: Mutex<Option<(Instant, Arc<Vec<Kind>>)>>,
}

/// The object that a page asks to have explained.
#[derive(Deserialize)]
struct WhyRequest {
    /// The kind, or the plural with its group.
    kind: String,
    namespace: Option<String>,
    name: String,
}

/// The body of a login request: a bearer token, or the code of a one-time link.
#[derive(Deserialize)]
#[serde(untagged)]
enum Login {
    Token { token: String },
    Code { code: String },
}

impl Dashboard {
    /// Listens on a loopback address.
    ///
    /// # Errors
    /// Fails if the address is not a loopback address or cannot be bound.
    pub async fn bind(address: SocketAddr, source: Source) -> Result<Self, DashboardError> {
        if !address.ip().is_loopback() {
            return Err(DashboardError::NotLoopback(address));
        }
        let bind = |source| DashboardError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let shared = Shared { address, source, sessions: Sessions::new(), kinds: Mutex::default() };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// The URL of the page, which asks for a token to log in.
    pub fn url(&self) -> String {
        format!("http://{}/", self.shared.address)
    }

    /// Returns a link that logs in as the administrator. It can be used once, within ten minutes.
    pub fn one_time_link(&self) -> String {
        format!("{}#code={}", self.url(), self.shared.sessions.code())
    }

    /// Serves requests until the future is dropped.
    pub async fn run(self) {
        // The connections end with this future.
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS_MAX => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "the dashboard cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let shared = self.shared.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let shared = shared.clone();
                async move { Ok::<_, Infallible>(shared.answer(request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            // A broken connection affects only its client.
            connections.spawn(async move { drop(connection.await) });
        }
    }
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dashboard({})", self.shared.address)
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        if !origin::is_own_host(&head, self.address) {
            return answer::refused(
                StatusCode::MISDIRECTED_REQUEST,
                "this server does not serve the requested host",
            );
        }
        if origin::is_foreign(&head) {
            return answer::refused(StatusCode::FORBIDDEN, "requests from another origin are refused");
        }
        let session = self.session(&head).await;
        let path = head.uri.path().to_owned();
        if head.method == Method::GET
            && let Some(answer) = asset(&path, session.is_some())
        {
            return answer;
        }
        if !origin::is_of_page(&head) {
            return answer::refused(StatusCode::FORBIDDEN, "the header x-evenkeel-page is missing");
        }
        if path == "/login" && head.method == Method::POST {
            return self.login(body).await;
        }
        let Some((id, session)) = session else {
            return answer::refused(StatusCode::UNAUTHORIZED, "log in first");
        };
        match (&head.method, path.as_str()) {
            (&Method::POST, "/logout") => {
                self.sessions.end(&id);
                answer::json(&json!({}))
            }
            (&Method::GET, "/session") => self.describe(&session).await,
            (&Method::GET, "/record") => self.record(&session).await,
            (&Method::GET, "/record/stream") => self.follow(id, session).await,
            (&Method::POST, "/act") => self.act(&session, body).await,
            (&Method::POST, "/why") => self.why(&session, body).await,
            _ => match path.strip_prefix("/k8s") {
                Some(rest) if rest.starts_with('/') => forward(&session, head, rest, body).await,
                _ => answer::refused(StatusCode::NOT_FOUND, "not found"),
            },
        }
    }

    /// Returns the session of a request, with its id. A session ends when its token is no longer accepted.
    async fn session(&self, head: &Parts) -> Option<(String, Session)> {
        let (id, session) = self.sessions.of(&head.headers)?;
        self.is_still_good(&id, &session).await.then_some((id, session))
    }

    /// Whether a session may go on. Once in every [`CHECK_PERIOD`], authenticates the session's token again, and ends
    /// the session unless the token still belongs to the same user in the same groups.
    async fn is_still_good(&self, id: &str, session: &Session) -> bool {
        let Some(token) = session.token.as_ref().filter(|_| session.checked.elapsed() > CHECK_PERIOD) else {
            return true;
        };
        let good = self.source.authenticate(token).await.is_some_and(|user| user == session.user);
        match good {
            true => self.sessions.checked(id),
            false => self.sessions.end(id),
        }
        good
    }

    async fn login(&self, body: Incoming) -> Response<Body> {
        let login =
            read(body, LOGIN_MAX_BYTES).await.and_then(|bytes| serde_json::from_slice::<Login>(&bytes).ok());
        let (user, token) = match login {
            Some(Login::Token { token }) => (self.source.authenticate(token.trim()).await, Some(token)),
            Some(Login::Code { code }) => {
                let admin = User::new(ADMIN.0, ADMIN.1);
                (self.sessions.redeem(&code).then_some(admin), None)
            }
            None => return answer::refused(StatusCode::BAD_REQUEST, "send a token or a code"),
        };
        let Some(user) = user else {
            return answer::refused(
                StatusCode::UNAUTHORIZED,
                "the token or link is invalid, expired or already used",
            );
        };
        let clients = [self.source.client_as(&user), self.source.quiet_client_as(&user)];
        let session = Session::new(user, clients, token.map(|token| token.trim().into()));
        let mut answer = answer::json(&json!({}));
        if let Ok(cookie) = self.sessions.begin(session).parse() {
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        answer
    }

    async fn describe(&self, session: &Session) -> Response<Body> {
        let left = session.expires.saturating_duration_since(Instant::now());
        let client = session.quiet.as_ref();
        let operators = self.source.cluster().map(|cluster| cluster.operators()).unwrap_or_default();
        answer::json(&json!({
            "user": session.user.name,
            "groups": session.user.groups,
            "endsInSeconds": left.as_secs(),
            "cluster": session.client.is_some(),
            "saved": matches!(self.source, Source::Record(_)),
            "mayReadRecord": self.source.allows(client, "get").await,
            "mayAct": client.is_some() && self.source.allows(client, "post").await,
            "operators": operators,
        }))
    }

    async fn record(&self, session: &Session) -> Response<Body> {
        if !self.source.allows(session.quiet.as_ref(), "get").await {
            return answer::refused(StatusCode::FORBIDDEN, "your user may not `get` /debug/evenkeel");
        }
        answer::bytes(StatusCode::OK, "application/json", self.source.record().await.to_json())
    }

    /// Streams the record as server-sent events. The data of the first event is the whole record, that of each later one
    /// has only the new entries. The stream ends with the session, or when the user may no longer read the record.
    async fn follow(self: Arc<Self>, id: String, session: Session) -> Response<Body> {
        if !self.source.allows(session.quiet.as_ref(), "get").await {
            return answer::refused(StatusCode::FORBIDDEN, "your user may not `get` /debug/evenkeel");
        }
        let Some(records) = self.source.follow() else {
            return answer::refused(StatusCode::NOT_FOUND, "a saved record cannot be followed");
        };
        let of = session.clone();
        let start = (self, id, session, records, Instant::now());
        let news = futures::stream::unfold(start, |(shared, id, session, mut records, seen)| async move {
            let record = records.next().await?;
            let due = seen.elapsed() > CHECK_PERIOD;
            if due {
                let good = shared.is_still_good(&id, &session).await;
                if !good || !shared.source.allows(session.quiet.as_ref(), "get").await {
                    return None;
                }
            }
            let event = Bytes::from(record.to_event());
            let seen = if due { Instant::now() } else { seen };
            Some((Ok::<_, BoxError>(Frame::data(event)), (shared, id, session, records, seen)))
        });
        let body = until_over(of, StreamBody::new(news).boxed_unsync());
        answer::stream(StatusCode::OK, "text/event-stream", body)
    }

    /// Explains an object in one line, from the record if the user may read it, and from what the user may read of the
    /// cluster.
    async fn why(&self, session: &Session, body: Incoming) -> Response<Body> {
        let asked = read(body, LOGIN_MAX_BYTES)
            .await
            .and_then(|bytes| serde_json::from_slice::<WhyRequest>(&bytes).ok());
        let Some(WhyRequest { kind, namespace, name }) = asked else {
            return answer::refused(StatusCode::BAD_REQUEST, "name a kind and an object");
        };
        let client = session.quiet.as_ref();
        let record = match self.source.allows(client, "get").await {
            true => Some(self.source.record().await),
            false => None,
        };
        let key = Key { kind, namespace, name };
        let (key, found) = match client {
            Some(client) => self.evidence(client, key).await,
            None => (key, Found::default()),
        };
        let why = found.why(&key, record.as_deref());
        answer::json(
            &json!({ "line": why.line, "reason": why.reason.word(), "problem": why.reason.is_problem() }),
        )
    }

    /// Finds what explains an object. What the user may not read is left out.
    async fn evidence(&self, client: &Client, key: Key) -> (Key, Found) {
        let kinds = self.kinds(client).await;
        let Some(kind) = evidence::called(&kinds, &key.kind) else { return (key, Found::default()) };
        let key = evidence::canonical(&key, kind);
        let found = evidence::find(client, &kinds, kind, &key).await.unwrap_or_default();
        (key, found)
    }

    /// The kinds that the cluster serves, as of some seconds ago at most.
    async fn kinds(&self, client: &Client) -> Arc<Vec<Kind>> {
        if let Some((at, kinds)) = &*self.kinds.lock()
            && at.elapsed() < KINDS_MAX_AGE
        {
            return kinds.clone();
        }
        let kinds = Arc::new(evidence::kinds(client).await.unwrap_or_default());
        *self.kinds.lock() = Some((Instant::now(), kinds.clone()));
        kinds
    }

    async fn act(&self, session: &Session, body: Incoming) -> Response<Body> {
        let client = session.client.as_ref();
        let (Some(cluster), true) = (self.source.cluster(), self.source.allows(client, "post").await) else {
            return answer::refused(StatusCode::FORBIDDEN, "your user may not `post` to /debug/evenkeel");
        };
        let act =
            read(body, BODY_MAX_BYTES).await.and_then(|bytes| serde_json::from_slice::<Act>(&bytes).ok());
        match act.map(|act| act.perform(cluster)) {
            Some(Ok(done)) => answer::json(&json!({ "message": done })),
            Some(Err(why)) => answer::refused(StatusCode::UNPROCESSABLE_ENTITY, &why),
            None => answer::refused(StatusCode::BAD_REQUEST, "unknown act"),
        }
    }
}

/// Returns a file of the page. Without a session, the path of the page serves the login instead.
fn asset(path: &str, known: bool) -> Option<Response<Body>> {
    let path = match path {
        "/" if known => "/index.html",
        "/" => "/login.html",
        path => path,
    };
    let asset = assets::find(path).filter(|asset| known || asset.is_login)?;
    Some(answer::bytes(StatusCode::OK, asset.media_type, asset.bytes))
}

/// Reads a body. `None` if it is larger, does not arrive in time, or breaks off.
async fn read(body: Incoming, bytes_max: usize) -> Option<Bytes> {
    let read = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, bytes_max).collect()).await;
    Some(read.ok()?.ok()?.to_bytes())
}

/// A body that ends with the session: a watch must not outlive a logout.
fn until_over(session: Session, body: Body) -> Body {
    let over = Box::pin(session.over());
    StreamBody::new(BodyStream::new(body).take_until(over)).boxed_unsync()
}

/// Sends a request to the API server as the user of the session.
async fn forward(session: &Session, head: Parts, path: &str, body: Incoming) -> Response<Body> {
    // The page's own reads must not appear in the record that it shows.
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let Some(client) = (if is_read { &session.quiet } else { &session.client }) else {
        return answer::refused(
            StatusCode::NOT_FOUND,
            "this dashboard shows a saved record, without a cluster",
        );
    };
    let Some(body) = read(body, BODY_MAX_BYTES).await else {
        return answer::refused(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large, or takes too long");
    };
    let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut request = Request::builder().method(head.method).uri(format!("{path}{query}"));
    for name in [header::CONTENT_TYPE, header::ACCEPT] {
        if let Some(value) = head.headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let Ok(request) = request.body(kube::client::Body::from(body.to_vec())) else {
        return answer::refused(StatusCode::BAD_REQUEST, "the path is malformed");
    };
    match client.send(request).await {
        Ok(response) => {
            let (head, body) = response.into_parts();
            let body = until_over(session.clone(), body.map_err(Into::into).boxed_unsync());
            let mut answer = answer::stream(head.status, "application/json", body);
            if let Some(kind) = head.headers.get(header::CONTENT_TYPE) {
                answer.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
            }
            answer
        }
        Err(error) => answer::refused(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

#[cfg(test)]
mod tests;
