//! Injected faults: what the network and a busy server can do to a request.

use std::fmt;
use std::time::Duration;

use evenkeel_apiserver::Body;
use evenkeel_request_info::ResourcePath;
use http::{Method, Request, Response, StatusCode, header};
use kube::Resource;
use parking_lot::Mutex;

/// A failure that is injected into a request, for instance by `Cluster::fail`.
///
/// ```
/// # use k8s_openapi::api::core::v1::Namespace;
/// # evenkeel_cluster::testing::run(evenkeel_cluster::testing::options().controllers(false), |cluster| async move {
/// use evenkeel_cluster::{Fault, Matcher};
///
/// cluster.fail(Matcher::any().path("/namespaces"), Fault::InternalError, 1);
/// assert!(cluster.get::<Namespace>("default").await.is_err());
/// assert!(cluster.get::<Namespace>("default").await.is_ok());
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Status 409: another client wrote the object first. Nothing is written.
    Conflict,
    /// Status 429: the server is busy and asks to retry after a second. Nothing is written.
    TooManyRequests,
    /// Status 500. Nothing is written.
    InternalError,
    /// The request never arrives and the client gives up after [`Fault::TIMEOUT`]. Nothing is written.
    Timeout,
    /// The request is served, but its response never arrives.
    LostAnswer,
    /// Status 403: a quota is exceeded. Nothing is written.
    QuotaExceeded,
    /// Status 400: an admission webhook denies the request. Nothing is written.
    Denied,
}

impl Fault {
    /// How long a client waits for a response until it times out. Real clients wait longer; this leaves room for
    /// several timeouts in a row within the minute that `settled()` allows.
    pub const TIMEOUT: Duration = Duration::from_secs(10);

    pub(crate) fn answer(self) -> Option<Response<Body>> {
        let (status, reason, message) = match self {
            Self::Conflict => (
                StatusCode::CONFLICT,
                "Conflict",
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            Self::TooManyRequests => (
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                "the server has received too many requests",
            ),
            Self::InternalError => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "Internal error occurred: injected")
            }
            Self::QuotaExceeded => (
                StatusCode::FORBIDDEN,
                "Forbidden",
                "forbidden: exceeded quota: injected, used: 1, limited: 1",
            ),
            Self::Denied => (
                StatusCode::BAD_REQUEST,
                "BadRequest",
                "admission webhook \"injected.example.com\" denied the request: try again later",
            ),
            Self::Timeout | Self::LostAnswer => return None,
        };
        let status_object = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status.as_u16(),
        });
        let mut response = Response::new(Body::from(status_object.to_string()));
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        if self == Self::TooManyRequests {
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        Some(response)
    }
}

/// Selects requests. Without a condition it matches every request.
///
/// ```
/// use evenkeel_cluster::Matcher;
/// let updates_of_web = Matcher::writes().by("my-resource").path("/deployments/web");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    writes: bool,
    method: Option<Method>,
    path: Option<String>,
    by: Option<String>,
    kind: Option<GroupResource>,
}

/// A kind, as paths name it.
#[derive(Clone, Debug)]
struct GroupResource {
    group: String,
    plural: String,
}

impl GroupResource {
    fn is_of(&self, path: &str) -> bool {
        ResourcePath::parse(path).is_some_and(|it| it.group == self.group && it.resource == self.plural)
    }
}

impl Matcher {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests that can change something: all but GET, HEAD and OPTIONS.
    pub fn writes() -> Self {
        Self { writes: true, ..Self::default() }
    }

    /// Requests of one method only.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Requests whose path (without the query) contains this.
    #[must_use]
    pub fn path(mut self, part: impl Into<String>) -> Self {
        self.path = Some(part.into());
        self
    }

    /// Requests for objects of one kind only.
    #[must_use]
    pub fn kind<K: Resource<DynamicType = ()>>(mut self) -> Self {
        let (group, plural) = (K::group(&()).into_owned(), K::plural(&()).into_owned());
        self.kind = Some(GroupResource { group, plural });
        self
    }

    /// Matches only requests for objects of one resource, given by its API group (empty for the core group) and plural
    /// name.
    #[must_use]
    pub fn resource(mut self, group: impl Into<String>, plural: impl Into<String>) -> Self {
        self.kind = Some(GroupResource { group: group.into(), plural: plural.into() });
        self
    }

    /// Requests of one client only. An operator is known by its name, the test itself as `client`.
    #[must_use]
    pub fn by(mut self, name: impl Into<String>) -> Self {
        self.by = Some(name.into());
        self
    }

    /// Whether a request matches. The query of `path` is ignored.
    pub(crate) fn matches(&self, by: &str, method: &Method, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or(path);
        (!self.writes || is_write(method))
            && self.method.as_ref().is_none_or(|wanted| wanted == method)
            && self.path.as_deref().is_none_or(|part| path.contains(part))
            && self.by.as_deref().is_none_or(|name| name == by)
            && self.kind.as_ref().is_none_or(|kind| kind.is_of(path))
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.writes { "writes" } else { "requests" };
        let method = self.method.as_ref().map(|method| format!(" {method}")).unwrap_or_default();
        let path = self.path.as_deref().map(|path| format!(" of *{path}*")).unwrap_or_default();
        let kind = self.kind.as_ref().map(|kind| format!(" of {kind}")).unwrap_or_default();
        let by = self.by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        write!(f, "{what}{method}{kind}{path}{by}")
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}", self.plural, self.group)
    }
}

pub(crate) fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The faults that are still to be injected, in the order in which they were requested.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    armed: Mutex<Vec<Armed>>,
}

#[derive(Debug)]
struct Armed {
    matcher: Matcher,
    fault: Fault,
    left: usize,
}

impl Faults {
    pub(crate) fn arm(&self, matcher: Matcher, fault: Fault, times: usize) {
        if times > 0 {
            self.armed.lock().push(Armed { matcher, fault, left: times });
        }
    }

    /// Takes one injection of the first fault that matches this request.
    pub(crate) fn strike<B>(&self, by: &str, request: &Request<B>) -> Option<Fault> {
        let mut armed = self.armed.lock();
        let at =
            armed.iter().position(|it| it.matcher.matches(by, request.method(), request.uri().path()))?;
        let fault = armed[at].fault;
        armed[at].left -= 1;
        if armed[at].left == 0 {
            armed.remove(at);
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, path: &str) -> Request<()> {
        Request::builder().method(method).uri(path).body(()).unwrap()
    }

    #[test]
    fn a_fault_strikes_as_often_as_asked() {
        let faults = Faults::default();
        faults.arm(Matcher::writes().by("op").path("/pods"), Fault::Conflict, 2);
        let write = request(Method::PUT, "/api/v1/namespaces/default/pods/a?x=1");
        assert_eq!(faults.strike("other", &write), None);
        assert_eq!(faults.strike("op", &request(Method::GET, "/api/v1/pods")), None);
        assert_eq!(faults.strike("op", &write), Some(Fault::Conflict));
        assert_eq!(faults.strike("op", &write), Some(Fault::Conflict));
        assert_eq!(faults.strike("op", &write), None);
    }
}
