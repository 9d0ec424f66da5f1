//! The first station: what a request asks for, read from its method, path, query and headers.

mod accept;
mod path;
mod query;
mod timeout;

pub(crate) use accept::{Accept, Format, Shape, negotiate, negotiate_for};
pub(crate) use path::{Prefix, ResourcePath, Route, percent_decode};
pub(crate) use query::{FieldValidation, ListQuery, Query, WriteQuery, parse_version};

pub(crate) use timeout::check_timeout;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Method};

use crate::User;
use crate::audit::Trail;
use crate::completion::Submitted;

/// The head of a request, taken apart.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a Method,
    /// The path, decoded.
    pub(crate) path: Cow<'a, str>,
    pub(crate) route: Route<'a>,
    /// Whether the path has a malformed escape. Such a request is refused before anything else.
    pub(crate) malformed: bool,
    pub(crate) query: Query,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) user: &'a User,
    /// How long the body may take to arrive, where there is a bound.
    pub(crate) body_timeout: Option<Duration>,
    /// Whether the store has a write of this request.
    submitted: Submitted,
    /// The last revision that this request has made; zero while it has made none.
    committed: AtomicU64,
    /// What is recorded of the request, where it is audited.
    pub(crate) audit: Option<Arc<Trail>>,
    /// What the person behind the client is told in headers, whether the request is granted or not.
    warnings: Mutex<Vec<String>>,
}

/// In the extensions of a response: the last revision that its request made. A request that changed nothing has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed(pub u64);

/// Who sends a request, and how patiently it is waited for.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who it is.
    pub user: Arc<User>,
    /// How long the body may take to arrive. Without it, as in process, it is waited for.
    pub body_timeout: Option<Duration>,
    /// Kept for as long as the request is worked on, also after its client has gone away: what counts the request.
    pub held: Option<Arc<dyn std::any::Any + Send + Sync>>,
    /// The address of the client, if the request came over the network.
    pub remote: Option<IpAddr>,
}

impl Caller {
    /// Who the extensions of a request say, else nobody known.
    pub(crate) fn of(extensions: &mut http::Extensions) -> Self {
        let user = extensions.remove::<User>().unwrap_or_else(User::anonymous);
        Self { user: Arc::new(user), body_timeout: None, remote: None, held: None }
    }

    /// A caller who proved nothing.
    pub(crate) fn nobody() -> Self {
        Self { user: Arc::new(User::anonymous()), body_timeout: None, remote: None, held: None }
    }
}

impl<'a> Request<'a> {
    /// Takes the head of an HTTP request apart.
    pub(crate) fn new(parts: &'a http::request::Parts, caller: &'a Caller) -> Self {
        let raw = parts.uri.path();
        let decoded = percent_decode(raw);
        let malformed = decoded.is_none();
        let path = decoded.unwrap_or(Cow::Borrowed(raw));
        let route = match &path {
            Cow::Borrowed(path) => Route::parse(path),
            Cow::Owned(path) => Route::parse_owned(path),
        };
        Self {
            method: &parts.method,
            route,
            path,
            malformed,
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            headers: &parts.headers,
            user: &caller.user,
            body_timeout: caller.body_timeout,
            submitted: Submitted::default(),
            committed: AtomicU64::new(0),
            audit: None,
            warnings: Mutex::default(),
        }
    }

    /// Lets the request note its first write, so that it is carried to its end from then on.
    pub(crate) fn noting(self, submitted: Submitted) -> Self {
        Self { submitted, ..self }
    }

    /// Notes that a write of this request is about to be handed to the store.
    pub(crate) fn note_submission(&self) {
        self.submitted.note();
    }

    /// Has the request recorded in this trail.
    pub(crate) fn audited(self, audit: Option<Arc<Trail>>) -> Self {
        Self { audit, ..self }
    }

    /// Notes a revision that this request has made.
    pub(crate) fn note_commit(&self, revision: u64) {
        self.committed.fetch_max(revision, Ordering::Relaxed);
    }

    /// The last revision that this request has made.
    pub(crate) fn committed(&self) -> Option<Committed> {
        let revision = self.committed.load(Ordering::Relaxed);
        (revision > 0).then_some(Committed(revision))
    }

    /// Notes what the person behind the client should know; the same is said once.
    pub(crate) fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// What was noted for the person behind the client, in its order.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The value of a header; empty where it is missing or not text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default()
    }

    /// The verb of authorization and of discovery.
    pub(crate) fn verb(&self) -> &'static str {
        let Route::Resource(path) = &self.route else { return method_verb(self.method) };
        if let Some(prefix) = path.prefix {
            return prefix.verb();
        }
        match *self.method {
            Method::GET | Method::HEAD if !path.name.is_empty() => "get",
            Method::GET | Method::HEAD if self.query.wants_watch() => "watch",
            Method::GET | Method::HEAD => "list",
            Method::DELETE if path.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            _ => "",
        }
    }

    /// Who writes, for managedFields: the query says it, or else the User-Agent up to its first slash.
    pub(crate) fn manager(&self) -> String {
        match self.query.get("fieldManager") {
            Some(manager) if !manager.is_empty() => manager.to_owned(),
            _ => user_agent_prefix(self.header("user-agent")),
        }
    }
}

/// As Kubernetes cuts a User-Agent: up to the first slash, at most 128 bytes, nothing that cannot be printed.
fn user_agent_prefix(agent: &str) -> String {
    let prefix = agent.split('/').next().unwrap_or_default();
    let prefix: String = prefix.chars().filter(|c| !c.is_control()).collect();
    let mut end = prefix.len().min(128);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    if end == 0 { "unknown".to_owned() } else { prefix[..end].to_owned() }
}

fn method_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}
