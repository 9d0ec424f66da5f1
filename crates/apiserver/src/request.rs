//! The parsed head of a request: method, path, query and headers.

mod accept;
mod query;
mod submitted;
mod target;
mod timeout;

pub(crate) use accept::{Accept, Format, Shape, negotiate, negotiate_for};
pub(crate) use query::{FieldValidation, ListQuery, WriteQuery, number, parse_version};
pub(crate) use submitted::Submitted;
pub(crate) use target::path_segment_error;
pub(crate) use timeout::{check_timeout, limit};

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_request_info::{ApiPath, Query, percent_decode, verb};
use evenkeel_schema::empties::Empties;
use evenkeel_schema::floats::Floats;
use evenkeel_schema::json::Value;
use http::{HeaderMap, Method};

use crate::User;

/// The head of a request, parsed, and what is noted while the request is served.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a Method,
    /// The path, percent-decoded.
    pub(crate) path: Cow<'a, str>,
    /// What the path addresses.
    pub(crate) route: ApiPath<'a>,
    /// Whether the path contains a malformed escape. Such a request is refused before anything else.
    pub(crate) malformed: bool,
    pub(crate) query: Query<'a>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) user: &'a User,
    /// The time limit for the body to arrive; `None` if there is none.
    pub(crate) body_timeout: Option<Duration>,
    /// Set before the request's first write is handed to the store. From then on the request is completed
    /// even if its client goes away.
    submitted: Submitted,
    /// The revision of the request's last write; zero before the first.
    committed: AtomicU64,
    /// The empty lists and maps of the body, which are stored like absent ones. Messages show them.
    empty: Mutex<Empties>,
    /// The whole numbers of the body of a custom resource that are written as floats. Messages tell them from integers.
    floats: Mutex<Floats>,
    /// Messages for the `Warning` headers of the response, whether the request succeeds or not.
    warnings: Mutex<Vec<String>>,
}

/// The revision of the last write that a request made, in the extensions of its response. Absent if the
/// request changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed(pub u64);

/// The sender of a request, as the transport knows it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The authenticated user.
    pub user: Arc<User>,
    /// The time limit for the body to arrive. `None` for clients in the same process.
    pub body_timeout: Option<Duration>,
    /// A guard that counts the request as in flight. It is held until the server has finished the request,
    /// even if the client goes away before.
    pub held: Option<Arc<dyn std::any::Any + Send + Sync>>,
    /// The client's address, if the request came over the network.
    pub remote: Option<IpAddr>,
}

impl Caller {
    /// The caller with the [`User`] in the extensions of a request; anonymous if there is none.
    pub(crate) fn of(extensions: &mut http::Extensions) -> Self {
        let user = extensions.remove::<User>().unwrap_or_else(User::anonymous);
        Self { user: Arc::new(user), body_timeout: None, remote: None, held: None }
    }

    /// The caller of a request that failed authentication.
    pub(crate) fn nobody() -> Self {
        Self { user: Arc::new(User::anonymous()), body_timeout: None, remote: None, held: None }
    }
}

impl<'a> Request<'a> {
    /// Parses the head of an HTTP request.
    pub(crate) fn new(parts: &'a http::request::Parts, caller: &'a Caller) -> Self {
        let raw = parts.uri.path();
        let decoded = percent_decode(raw);
        let malformed = decoded.is_none();
        let path = decoded.unwrap_or(Cow::Borrowed(raw));
        let route = match &path {
            Cow::Borrowed(path) => ApiPath::parse(path),
            Cow::Owned(path) => ApiPath::parse(path).into_owned(),
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
            empty: Mutex::default(),
            floats: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    /// Sets the flag that notes the request's first write.
    pub(crate) fn noting(self, submitted: Submitted) -> Self {
        Self { submitted, ..self }
    }

    /// Notes that a write of this request is about to be handed to the store.
    pub(crate) fn note_submission(&self) {
        self.submitted.note();
    }

    /// Notes the empty lists and maps of the object that this request writes.
    pub(crate) fn note_empty(&self, empty: Empties) {
        *self.empty.lock().unwrap_or_else(PoisonError::into_inner) = empty;
    }

    /// The object with the empty lists and maps that the client wrote; `None` if there are none.
    pub(crate) fn with_empty(&self, object: &Value) -> Option<Value> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).restore(object)
    }

    /// Notes the whole numbers in the body that are written as floats.
    pub(crate) fn note_floats(&self, floats: Floats) {
        *self.floats.lock().unwrap_or_else(PoisonError::into_inner) = floats;
    }

    /// The object with floats where the client wrote them; `None` if it wrote none.
    pub(crate) fn with_floats(&self, object: &Value) -> Option<Value> {
        self.floats.lock().unwrap_or_else(PoisonError::into_inner).restore(object)
    }

    /// Notes the revision of a write that this request made.
    pub(crate) fn note_commit(&self, revision: u64) {
        self.committed.fetch_max(revision, Ordering::Relaxed);
    }

    /// The revision of the last write that this request made.
    pub(crate) fn committed(&self) -> Option<Committed> {
        let revision = self.committed.load(Ordering::Relaxed);
        (revision > 0).then_some(Committed(revision))
    }

    /// Adds a `Warning` header to the response, unless the same warning was added before.
    pub(crate) fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// The warnings so far, in the order in which they were added.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The value of a header; empty if it is missing or not visible ASCII.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default()
    }

    /// The verb of the request, as authorization and discovery know it.
    pub(crate) fn verb(&self) -> &'static str {
        verb(self.method, &self.route, &self.query)
    }

    /// The field manager for managedFields: the query parameter `fieldManager`, or else the User-Agent up to
    /// its first slash.
    pub(crate) fn manager(&self) -> String {
        match self.query.get("fieldManager") {
            Some(manager) if !manager.is_empty() => manager.to_owned(),
            _ => user_agent_prefix(self.header("user-agent")),
        }
    }
}

/// Shortens a User-Agent as Kubernetes does: up to the first slash, at most 128 bytes, without control
/// characters.
fn user_agent_prefix(agent: &str) -> String {
    let prefix = agent.split('/').next().unwrap_or_default();
    let prefix: String = prefix.chars().filter(|c| !c.is_control()).collect();
    let mut end = prefix.len().min(128);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    if end == 0 { "unknown".to_owned() } else { prefix[..end].to_owned() }
}
