//! What the demo shows: one line for each station that something is seen to pass.
//!
//! *Invariant:* every line is made here from an observed request, watch event or cause; the demo prints nothing else
//! between its headings.

use std::fmt;
use std::time::Duration;

use evenkeel::Exchange;
use evenkeel::cluster::Outcome;
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::kube::ResourceExt;

/// One line of the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Since the start.
    pub(crate) at: Duration,
    /// The station of the road.
    pub(crate) station: &'static str,
    /// What was seen there.
    pub(crate) text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:>7.3}s  {:<10}  {}", self.at.as_secs_f64(), self.station, self.text)
    }
}

/// Who made a request, as far as the story is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The demo itself, in the place of a user.
    User,
    /// One of the example operators.
    Operator,
    /// A built-in controller, the scheduler or a node.
    Builtin,
}

/// The line of a request that wrote something; none for reads, for what changed nothing, and for bookkeeping.
pub(crate) fn of_request(exchange: &Exchange, operators: &[&str]) -> Option<Line> {
    let Outcome::Answered { status, wrote: Some(revision), .. } = exchange.outcome else { return None };
    let target = Target::parse(&exchange.path)?;
    let role = match &*exchange.by {
        "client" => Role::User,
        by if operators.contains(&by) => Role::Operator,
        _ => Role::Builtin,
    };
    let station = station(role, exchange.method.as_str(), &target)?;
    let by = &exchange.by;
    let text = format!("{} {target} by {by}: {status}, revision {revision}", exchange.method);
    Some(Line { at: exchange.at, station, text })
}

fn station(role: Role, method: &str, target: &Target<'_>) -> Option<&'static str> {
    match (role, method, target.subresource) {
        (_, _, Some("binding")) => Some("scheduled"),
        _ if matches!(target.plural, "events" | "leases") => None,
        (Role::User, "DELETE", _) => Some("deleted"),
        (Role::User, _, _) => Some("accepted"),
        (Role::Operator, _, Some("status")) => Some("status"),
        (Role::Operator, "DELETE", _) => Some("deleted"),
        (Role::Operator, _, _) => Some("applied"),
        (Role::Builtin, "DELETE", _) => Some("collected"),
        (Role::Builtin, "POST", _) if matches!(target.plural, "replicasets" | "pods") => Some("created"),
        (Role::Builtin, _, _) => None,
    }
}

/// The line of a reconcile: who was woken, and why.
pub(crate) fn of_reconcile(at: Duration, controller: &str, object: &str, causes: &str) -> Line {
    Line { at, station: "reconciled", text: format!("{controller} for {object}: {causes}") }
}

/// The line of a pod that has become ready.
pub(crate) fn of_ready_pod(at: Duration, pod: &Pod) -> Line {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
    Line { at, station: "ready", text: format!("pods/{} on {node}", pod.name_any()) }
}

/// Whether the pod's condition `Ready` is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

/// What a request is about, from its path.
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    plural: &'a str,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// `/api/v1/…` and `/apis/group/version/…`, with or without `namespaces/ns`.
    fn parse(path: &'a str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or(path);
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        match parts.next()? {
            "api" => parts.nth(0)?,
            "apis" => parts.nth(1)?,
            _ => return None,
        };
        let rest: Vec<_> = parts.collect();
        let rest = match rest.as_slice() {
            ["namespaces", _, more @ ..] if !more.is_empty() && !matches!(more, ["status" | "finalize"]) => {
                more
            }
            all => all,
        };
        let (plural, rest) = rest.split_first()?;
        Some(Self { plural, name: rest.first().copied(), subresource: rest.get(1).copied() })
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        for part in [self.name, self.subresource].into_iter().flatten() {
            write!(f, "/{part}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_it_is_about() {
        let target = |path| Target::parse(path).map(|target| target.to_string());
        assert_eq!(target("/api/v1/namespaces/default/pods/a/binding").as_deref(), Some("pods/a/binding"));
        assert_eq!(target("/apis/apps/v1/namespaces/x/deployments?limit=1").as_deref(), Some("deployments"));
        assert_eq!(target("/api/v1/namespaces/x").as_deref(), Some("namespaces/x"));
        assert_eq!(target("/api/v1/namespaces/x/finalize").as_deref(), Some("namespaces/x/finalize"));
        assert_eq!(target("/version"), None);
    }
}
