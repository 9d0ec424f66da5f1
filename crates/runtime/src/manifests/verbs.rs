//! Recorded requests as RBAC verbs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use evenkeel_request_info::{RequestInfo, ResourcePath};
use http::Method;

/// Every verb that a request for objects can have.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The subresources of pods that connect to a container.
const CONNECTIONS: [&str; 3] = ["attach", "exec", "portforward"];

/// The verbs that an operator uses on each resource, recorded from its requests.
///
/// The text form has a line for each resource, so that it can be kept in a file and reviewed; `(cluster)` marks
/// requests without a namespace.
///
/// ```
/// use evenkeel_runtime::manifests::Verbs;
/// use http::Method;
///
/// let mut verbs = Verbs::default();
/// verbs.record(&Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/web?force=true");
/// verbs.record(&Method::GET, "/api/v1/nodes/one");
/// assert_eq!(verbs.to_string(), "nodes (cluster): get\ndeployments.apps: patch\n");
/// assert_eq!(verbs.to_string().parse::<Verbs>()?, verbs);
/// # Ok::<_, evenkeel_runtime::manifests::VerbsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verbs {
    by_target: BTreeMap<Target, BTreeSet<&'static str>>,
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) group: String,
    /// With its subresource, after a slash.
    pub(super) resource: String,
    /// Whether the request has no namespace.
    pub(super) wide: bool,
}

/// A line that cannot be read as [`Verbs`].
///
/// ```
/// use evenkeel_runtime::manifests::{Verbs, VerbsError};
///
/// let error: VerbsError = "secrets patch".parse::<Verbs>().unwrap_err();
/// assert_eq!(error.line, "secrets patch");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("read verbs: {line:?} is not \"RESOURCE.GROUP/SUBRESOURCE: VERB VERB\"")]
#[non_exhaustive]
pub struct VerbsError {
    /// The line.
    pub line: String,
}

impl Verbs {
    /// Adds what this request needs. Requests that no RBAC rule can name, such as discovery, are left out. A watch that
    /// begins with the current state needs `list` as well, because a server that cannot stream the state is asked for a
    /// list. A connection to a container, which a WebSocket opens by a `get`, needs `create`.
    pub fn record(&mut self, method: &Method, path_and_query: &str) {
        let Some(info) = RequestInfo::parse(method, path_and_query) else { return };
        let (Some(path), Some(verb)) = (info.path.into_resource(), known(info.verb)) else { return };
        let verbs = self.by_target.entry(Target::of(&path)).or_default();
        verbs.insert(verb);
        if verb == "watch" && info.query.flag("sendInitialEvents") == Some(true) {
            verbs.insert("list");
        }
        if path.resource == "pods" && CONNECTIONS.contains(&&*path.subresource) {
            verbs.insert("create");
        }
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }

    pub(super) fn extend(&mut self, other: Self) {
        for (target, verbs) in other.by_target {
            self.by_target.entry(target).or_default().extend(verbs);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Target, &BTreeSet<&'static str>)> {
        self.by_target.iter()
    }
}

impl fmt::Display for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (target, verbs) in &self.by_target {
            let verbs: Vec<&str> = verbs.iter().copied().collect();
            writeln!(f, "{target}: {}", verbs.join(" "))?;
        }
        Ok(())
    }
}

impl FromStr for Verbs {
    type Err = VerbsError;

    fn from_str(text: &str) -> Result<Self, VerbsError> {
        let mut by_target = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (target, verbs) = parse_line(line).ok_or_else(|| VerbsError { line: line.to_owned() })?;
            by_target.entry(target).or_insert_with(BTreeSet::new).extend(verbs);
        }
        Ok(Self { by_target })
    }
}

impl Target {
    fn of(path: &ResourcePath<'_>) -> Self {
        let resource = match &*path.subresource {
            "" => path.resource.clone().into_owned(),
            subresource => format!("{}/{subresource}", path.resource),
        };
        Self { group: path.group.clone().into_owned(), resource, wide: !path.is_in_namespace() }
    }
}

/// The verb as rules spell it, if there can be a rule about it.
fn known(verb: &str) -> Option<&'static str> {
    VERBS.into_iter().find(|known| *known == verb)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (self.resource.as_str(), None),
        };
        f.write_str(resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        subresource.iter().try_for_each(|subresource| write!(f, "/{subresource}"))?;
        f.write_str(if self.wide { " (cluster)" } else { "" })
    }
}

fn parse_line(line: &str) -> Option<(Target, BTreeSet<&'static str>)> {
    let (target, verbs) = line.split_once(':')?;
    let (target, wide) = match target.strip_suffix(" (cluster)") {
        Some(target) => (target, true),
        None => (target, false),
    };
    let (full, subresource) = target.split_once('/').map_or((target, None), |(a, b)| (a, Some(b)));
    let (plural, group) = full.split_once('.').unwrap_or((full, ""));
    if plural.is_empty() || target.contains(' ') {
        return None;
    }
    let resource = subresource.map_or_else(|| plural.to_owned(), |sub| format!("{plural}/{sub}"));
    let verbs: Option<BTreeSet<&'static str>> = verbs.split_whitespace().map(known).collect();
    Some((Target { group: group.to_owned(), resource, wide }, verbs.filter(|verbs| !verbs.is_empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_verbs() {
        let check = |method: Method, path: &str, wanted: &str| {
            let mut verbs = Verbs::default();
            verbs.record(&method, path);
            assert_eq!(verbs.to_string().trim(), wanted);
        };
        check(Method::GET, "/api/v1/namespaces/a/pods/x", "pods: get");
        check(Method::GET, "/api/v1/pods?watch=true&x=y", "pods (cluster): watch");
        check(Method::GET, "/api/v1/pods?watch=1&sendInitialEvents=true", "pods (cluster): list watch");
        check(Method::GET, "/api/v1/namespaces/a", "namespaces (cluster): get");
        check(Method::PUT, "/api/v1/namespaces/a/finalize", "namespaces/finalize (cluster): update");
        check(
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/x/status",
            "deployments.apps/status: patch",
        );
        check(Method::DELETE, "/apis/apps/v1/namespaces/a/deployments", "deployments.apps: deletecollection");
        check(Method::GET, "/api/v1/namespaces/a/pods?watch=false", "pods: list");
        check(Method::POST, "/api/v1/namespaces/a/pods/x/eviction", "pods/eviction: create");
        check(Method::GET, "/api/v1/namespaces/a/pods/x/exec?command=ls", "pods/exec: create get");
        check(Method::GET, "/api/v1/namespaces/a/pods/x/log", "pods/log: get");
        check(Method::DELETE, "/api/v1/nodes/one", "nodes (cluster): delete");
        check(Method::GET, "/version", "");
        check(Method::HEAD, "/api/v1/nodes/one", "nodes (cluster): get");
        check(Method::GET, "/api/v1/pods?watchers=true", "pods (cluster): list");
        check(Method::GET, "/api/v1/pods?watch=0", "pods (cluster): list");
        check(Method::GET, "/api/v1/watch/pods", "pods (cluster): watch");
        check(Method::OPTIONS, "/api/v1/pods", "");
    }

    #[test]
    fn text_that_is_no_verbs_is_refused_with_its_line() {
        for line in ["pods", "pods: fly", "pods:", ": get", "a b: get"] {
            assert_eq!(line.parse::<Verbs>(), Err(VerbsError { line: line.into() }));
        }
        let kept: Verbs =
            "# what the tests saw\n\npods.metrics.k8s.io/status (cluster): get".parse().unwrap();
        assert_eq!(kept.to_string(), "pods.metrics.k8s.io/status (cluster): get\n");
        let twice: Verbs = "pods: get\npods (cluster): list\npods: patch".parse().unwrap();
        assert_eq!(
            twice.to_string(),
            "pods: get patch\npods (cluster): list\n",
            "what stands there twice adds up"
        );
    }
}
