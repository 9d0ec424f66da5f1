//! The lines of the demo: one for each step that is observed.
//!
//! *Invariant:* every line is made from an observed request, watch event or reconcile. Between its headings, the demo
//! prints nothing else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cluster::{Exchange, Moment, Outcome, Reconcile, ResourcePath};
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::kube::ResourceExt as _;
use evenkeel::observe::Stage;

/// The name of the demo's own client, which acts as a user.
const CLIENT: &str = "client";

/// The name of kubectl, with which users try the demo.
const KUBECTL: &str = "kubectl";

/// A line about one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The time since the start.
    pub(crate) at: Duration,
    /// The step, such as `applied` or `ready`.
    pub(crate) station: &'static str,
    /// The client or node that took the step.
    pub(crate) by: Arc<str>,
    /// What was observed.
    pub(crate) text: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, station, by, text } = self;
        write!(f, "{:>7.3}s  {station:<9}  {by:<23}  {text}", at.as_secs_f64())
    }
}

/// The kind of client that made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The demo itself, which acts as a user.
    User,
    /// One of the example operators.
    Operator,
    /// A built-in controller, the scheduler or a node.
    Builtin,
}

/// The line about a recorded moment, or `None` if the moment is not a step. A request counts when it is answered.
pub(crate) fn of_moment(at: Duration, moment: &Moment, operators: &[&str]) -> Option<Line> {
    match moment {
        Moment::Request(exchange) => of_request(at, exchange, operators),
        Moment::Webhook(call) => of_review(at, call),
        Moment::Reconcile(reconcile) => of_reconcile(at, reconcile),
        _ => None,
    }
}

/// Returns the line about a call of the API server to a webhook, once it is answered.
fn of_review(at: Duration, call: &Exchange) -> Option<Line> {
    let Outcome::Answered { status, .. } = call.outcome else { return None };
    let url = call.path.split('?').next().unwrap_or_default();
    Some(Line { at, station: "reviewed", by: call.by.clone(), text: format!("by {url} → {status}") })
}

/// Returns the line about a refused write of a user.
fn of_refusal(at: Duration, exchange: &Exchange) -> Option<Line> {
    let Outcome::Answered { status: status @ 400..500, .. } = exchange.outcome else { return None };
    let write = matches!(&*exchange.by, CLIENT | KUBECTL) && exchange.method != "GET";
    let text = format!("{} → {status}", exchange.summary());
    write.then(|| Line { at, station: "refused", by: "you".into(), text })
}

/// The line about a request. `None` if the request changed nothing, and for Events and Leases.
fn of_request(at: Duration, exchange: &Exchange, operators: &[&str]) -> Option<Line> {
    if let Some(refusal) = of_refusal(at, exchange) {
        return Some(refusal);
    }
    let Outcome::Answered { status, wrote: Some(revision), .. } = exchange.outcome else { return None };
    let role = match &*exchange.by {
        CLIENT | KUBECTL => Role::User,
        by if operators.contains(&by) => Role::Operator,
        _ => Role::Builtin,
    };
    let station = station(role, exchange, &exchange.target()?)?;
    let text = format!("{} → {status}, stored as revision {revision}", exchange.summary());
    let by = if role == Role::User { "you".into() } else { exchange.by.clone() };
    Some(Line { at, station, by, text })
}

fn station(role: Role, exchange: &Exchange, target: &ResourcePath<'_>) -> Option<&'static str> {
    let says = |what: &[u8]| exchange.body.windows(what.len()).any(|part| part == what);
    match (role, exchange.verb, &*target.subresource) {
        (_, _, "binding") => Some("scheduled"),
        _ if matches!(&*target.resource, "events" | "leases") => None,
        (Role::User, "delete", _) => Some("deleted"),
        (Role::User, _, _) => Some("accepted"),
        (Role::Operator, _, "status") => Some("status"),
        (Role::Operator, "patch", _) if says(b"/metadata/finalizers") => Some("finalizer"),
        (Role::Operator, "delete", _) => Some("deleted"),
        (Role::Operator, _, _) => Some("applied"),
        // A node deletes a pod without a grace period once it has stopped the pod.
        (Role::Builtin, "delete", _) if says(br#""gracePeriodSeconds":0"#) => Some("stopped"),
        (Role::Builtin, "delete", _) => Some("collected"),
        (Role::Builtin, "create", _) if matches!(&*target.resource, "replicasets" | "pods") => {
            Some("created")
        }
        (Role::Builtin, _, _) => None,
    }
}

/// The line about a reconcile: its causes when it begins, or its error when it fails.
fn of_reconcile(at: Duration, reconcile: &Reconcile) -> Option<Line> {
    let Reconcile { by, object, causes, stage, .. } = reconcile;
    let (station, text) = match stage {
        Stage::Began => ("woken", format!("for {object}: {causes}")),
        Stage::Ended { error: Some(error), .. } => ("failed", format!("for {object}: {error}")),
        _ => return None,
    };
    Some(Line { at, station, by: by.clone(), text })
}

/// The line about a pod that has become ready.
pub(crate) fn of_ready_pod(at: Duration, pod: &Pod) -> Line {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
    Line { at, station: "ready", by: node.into(), text: format!("pods/{}", pod.name_any()) }
}

/// Whether the pod's condition `Ready` is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}
