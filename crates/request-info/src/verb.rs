//! The verb of a request: RBAC's word for what it does.

use http::Method;

use crate::escape::percent_decode;
use crate::path::ApiPath;
use crate::query::Query;

/// What a request asks for: where its path leads, its parameters, and its verb.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo<'a> {
    /// What the path addresses.
    pub path: ApiPath<'a>,
    /// The query parameters.
    pub query: Query<'a>,
    /// RBAC's word for what the request does, as [`verb`] finds it.
    pub verb: &'static str,
}

impl<'a> RequestInfo<'a> {
    /// Reads a method and the path and query of a URI, with their escapes.
    ///
    /// Returns `None` if the path has a malformed escape, which every server refuses.
    pub fn parse(method: &Method, path_and_query: &'a str) -> Option<Self> {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let path = ApiPath::parse_cow(percent_decode(path)?);
        let query = Query::parse(query);
        let verb = verb(method, &path, &query);
        Some(Self { path, query, verb })
    }
}

/// The verb that a request is authorized for.
///
/// For resources, the verb is one of `create`, `get`, `list`, `watch`, `update`, `patch`, `delete`, `deletecollection`
/// and, by path only, `proxy`. For all other paths it is the method in lower case. It is empty for a method without a
/// verb.
///
/// ```
/// use evenkeel_request_info::{ApiPath, Query, verb};
/// use http::Method;
///
/// let pods = ApiPath::parse("/api/v1/namespaces/shop/pods");
/// assert_eq!(verb(&Method::GET, &pods, &Query::default()), "list");
/// assert_eq!(verb(&Method::DELETE, &pods, &Query::default()), "deletecollection");
/// ```
pub fn verb(method: &Method, path: &ApiPath<'_>, query: &Query<'_>) -> &'static str {
    let ApiPath::Resource(path) = path else { return method_in_lower_case(method) };
    if let Some(special) = path.special_verb {
        return special.as_str();
    }
    match *method {
        Method::GET | Method::HEAD if !path.name.is_empty() => "get",
        Method::GET | Method::HEAD if query.wants_watch() => "watch",
        Method::GET | Method::HEAD => "list",
        Method::DELETE if path.name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        _ => "",
    }
}

fn method_in_lower_case(method: &Method) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, path_and_query: &str, wanted: &str) {
        let info = RequestInfo::parse(&method, path_and_query).unwrap();
        assert_eq!(info.verb, wanted, "{method} {path_and_query}");
    }

    #[test]
    fn verbs_of_resources() {
        let (pods, pod) = ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/p");
        check(Method::POST, pods, "create");
        check(Method::POST, "/api/v1/namespaces/a/pods/p/eviction", "create");
        check(Method::GET, pod, "get");
        check(Method::HEAD, pod, "get");
        check(Method::GET, "/api/v1/namespaces/a/pods/p?watch=true", "get");
        check(Method::GET, pods, "list");
        check(Method::HEAD, pods, "list");
        check(Method::GET, "/api/v1/namespaces/a/pods?watch=1", "watch");
        check(Method::GET, "/api/v1/namespaces/a/pods?watch=false", "list");
        check(Method::GET, "/api/v1/namespaces/a/pods?labelSelector=watch=true", "list");
        check(Method::PUT, pod, "update");
        check(Method::PATCH, pod, "patch");
        check(Method::DELETE, pod, "delete");
        check(Method::DELETE, pods, "deletecollection");
        check(Method::DELETE, "/api/v1/namespaces/a", "delete");
        check(Method::OPTIONS, pod, "");
        check(Method::GET, "/api/v1/namespaces/a/pods//log", "list");
    }

    #[test]
    fn a_verb_in_the_path_counts_for_every_method() {
        for method in [Method::GET, Method::POST, Method::DELETE, Method::TRACE] {
            check(method.clone(), "/api/v1/watch/namespaces/a/pods", "watch");
            check(method, "/api/v1/proxy/nodes/n", "proxy");
        }
    }

    #[test]
    fn verbs_of_other_paths_are_methods() {
        check(Method::GET, "/version?watch=true", "get");
        check(Method::HEAD, "/healthz", "head");
        check(Method::DELETE, "/apis/apps/v1", "delete");
        check(Method::TRACE, "/healthz", "");
        check(Method::GET, "/api/v1/watch", "get");
    }

    #[test]
    fn a_path_with_a_malformed_escape_asks_for_nothing() {
        assert_eq!(RequestInfo::parse(&Method::GET, "/api/v1/pods/%+5"), None);
        check(Method::GET, "/api/v1/pods?watch=%+5", "list");
    }
}
