//! `why`: explains in one line why an object is in its current state, from a record and the objects of the cluster.

mod objects;
mod refused;

use serde_json::Value;

use crate::entry::Reconcile;
use crate::questions::{Loop, loops};
use crate::record::{Key, Record, Watch, WatchState};
use crate::text::duration;

use objects::{Finalizing, bad_condition, ending_namespace, ending_pod, name_of, pending, unready_pod};
use refused::{refused, tries};

/// What `why` may use to explain an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// The record of the operator, if there is one.
    pub record: Option<&'a Record>,
    /// The object, if it exists.
    pub object: Option<&'a Value>,
    /// The objects that the object owns, directly or indirectly.
    pub descendants: &'a [Value],
    /// The Events of type `Warning` about the object and its descendants.
    pub events: &'a [Value],
    /// The owners that the object names and that do not exist, such as `Site web`.
    pub missing_owners: &'a [String],
}

/// Why an object is in its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// What kind of reason it is.
    pub reason: Reason,
    /// The reason in one line.
    pub line: String,
}

/// The kinds of reasons, the most specific first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The object's reconciles trigger one another without end.
    Loop,
    /// The API server forbids a request of the controller.
    Forbidden,
    /// A webhook or an admission policy denies a write of the controller, or a webhook cannot be called.
    Webhook,
    /// Admission refuses a write of the controller: by a quota, limits, pod security, or a terminating namespace.
    Refused,
    /// Another client writes the same object, so that writes of the controller conflict.
    Conflict,
    /// The object is being deleted, and a finalizer blocks the deletion.
    Finalizer,
    /// Reconciles fail for another reason.
    Failing,
    /// A watch of the controller fails.
    Watch,
    /// The object names an owner that does not exist.
    Owner,
    /// A pod of the object is not ready.
    Pod,
    /// A condition of the object, or of an object that it owns, is bad.
    Condition,
    /// There is no such object.
    Missing,
    /// No recorded controller has reconciled the object.
    Unseen,
    /// Nothing is wrong with the object.
    Fine,
}

impl Reason {
    /// Whether the reason is a problem.
    pub fn is_problem(self) -> bool {
        !matches!(self, Self::Missing | Self::Unseen | Self::Fine)
    }

    /// The reason as one lower-case word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Forbidden => "forbidden",
            Self::Webhook => "webhook",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::Finalizer => "finalizer",
            Self::Failing => "failing",
            Self::Watch => "watch",
            Self::Owner => "owner",
            Self::Pod => "pod",
            Self::Condition => "condition",
            Self::Missing => "missing",
            Self::Unseen => "unseen",
            Self::Fine => "fine",
        }
    }
}

/// Explains in one line why an object is in its current state.
pub fn why(key: &Key, evidence: Evidence<'_>) -> Why {
    let last = evidence.record.and_then(|record| last_of(record, key));
    None.or_else(|| looping(key, evidence))
        .or_else(|| last.and_then(|last| refused(key, last, evidence.record)))
        .or_else(|| finalizing(evidence, last))
        .or_else(|| last.and_then(failing))
        .or_else(|| watch_failing(key, evidence, last))
        .or_else(|| owner_missing(evidence))
        .or_else(|| pod_unready(evidence))
        .or_else(|| condition_bad(evidence))
        .unwrap_or_else(|| at_rest(key, evidence, last))
}

fn said(reason: Reason, line: String) -> Option<Why> {
    // Messages of servers may have several lines.
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Why { reason, line })
}

fn last_of<'r>(record: &'r Record, key: &Key) -> Option<&'r Reconcile> {
    record.reconciles().rev().find(|reconcile| key.is_of(reconcile))
}

fn looping(key: &Key, evidence: Evidence<'_>) -> Option<Why> {
    let same = |found: &Loop| {
        let kind = found.kind.is_empty() || found.kind.eq_ignore_ascii_case(&key.kind);
        kind && found.namespace == key.namespace && found.name == key.name
    };
    let found = loops(evidence.record?).into_iter().find(same)?;
    said(Reason::Loop, found.to_string())
}

fn finalizing(evidence: Evidence<'_>, last: Option<&Reconcile>) -> Option<Why> {
    let object = evidence.object?;
    if let Some(why) = ending_namespace(object).or_else(|| ending_pod(object)) {
        return said(Reason::Finalizer, why);
    }
    let Finalizing { since, finalizers } = Finalizing::of(object)?;
    let held = finalizers.join(", ");
    let line = format!("deletion, asked for at {since}, waits for the finalizer {held}");
    // The garbage collector removes this finalizer when the object's dependents are gone.
    if finalizers == ["foregroundDeletion"] {
        let names: Vec<String> = evidence.descendants.iter().take(3).map(name_of).collect();
        let waits = match names.as_slice() {
            [] => "the garbage collector removes it once the object's dependents are gone".to_owned(),
            names => format!("the garbage collector waits for the end of {}", names.join(", ")),
        };
        return said(Reason::Finalizer, format!("{line}: {waits}"));
    }
    let why = match last {
        Some(last) if last.outcome.is_failure() => {
            let error = last.error.as_deref().unwrap_or("unknown");
            format!("{} fails to clean up: {error} ({})", last.controller, tries(last))
        }
        Some(last) => {
            format!("{} reconciled it without an error and did not remove its finalizer", last.controller)
        }
        None => "no recorded controller reconciles it, so nobody removes the finalizer".to_owned(),
    };
    said(Reason::Finalizer, format!("{line}: {why}"))
}

fn failing(last: &Reconcile) -> Option<Why> {
    if !last.outcome.is_failure() {
        return None;
    }
    let error = brief(last.error.as_deref().unwrap_or("unknown"));
    let advice = advice(error);
    said(Reason::Failing, format!("{} fails: {error}{advice} ({})", last.controller, tries(last)))
}

/// An error without the whole answer of the API server, which `kube` prints after its message.
fn brief(error: &str) -> &str {
    error.split(" (Status {").next().unwrap_or(error).trim_start_matches("ApiError: ")
}

/// What to do about an error, after a colon; empty if the error says so itself, or if there is no advice.
pub fn advice(error: &str) -> &'static str {
    // What the API server says of a path that it does not serve.
    let unserved = ["404 page not found", "the server could not find the requested resource"];
    if unserved.iter().any(|text| error.contains(text)) {
        return ": the API server does not serve the kind; apply its CustomResourceDefinition first";
    }
    if error.contains(" is forbidden: User ") {
        return ": give its role this rule";
    }
    if error.contains("disruption budget") {
        return ": a PodDisruptionBudget allows no eviction now";
    }
    ""
}

/// Explains a failing watch: the controller then does not reconcile the object, or reconciles it from an old view.
fn watch_failing(key: &Key, evidence: Evidence<'_>, last: Option<&Reconcile>) -> Option<Why> {
    let record = evidence.record?;
    let failing = record
        .watches
        .iter()
        .find(|watch| watch.state == WatchState::Failing && concerns(watch, key, record, last))?;
    let error = failing.error.as_deref().unwrap_or("unknown");
    let effect = match last {
        Some(_) => "the controller works on an old view",
        None => "the controller does not start before its cache is filled",
    };
    let reason = if error.contains("forbidden") { Reason::Forbidden } else { Reason::Watch };
    said(reason, format!("the watch of {} fails, and {effect}: {error}{}", failing.source, advice(error)))
}

/// Whether a watch belongs to the operator that reconciled this object last, or, if nobody has reconciled it, to one that
/// watches its kind. In the record of one operator, all watches do.
fn concerns(watch: &Watch, key: &Key, record: &Record, last: Option<&Reconcile>) -> bool {
    if watch.operator.is_empty() {
        return true;
    }
    match last {
        Some(last) => record
            .controllers
            .iter()
            .any(|controller| controller.operator == watch.operator && controller.name == last.controller),
        // A controller that waits for its caches is not among those that run.
        None => record.watches.iter().any(|other| {
            let kind = other.source.split('.').next().unwrap_or_default();
            other.operator == watch.operator && kind.eq_ignore_ascii_case(&key.kind)
        }),
    }
}

fn owner_missing(evidence: Evidence<'_>) -> Option<Why> {
    let owner = evidence.missing_owners.first()?;
    let line = format!(
        "its owner {owner} does not exist, or is in another namespace: the garbage collector deletes an object whose owners are all gone"
    );
    said(Reason::Owner, line)
}

fn pod_unready(evidence: Evidence<'_>) -> Option<Why> {
    let object = evidence.object.into_iter().chain(evidence.descendants);
    let (pod, why) = object.filter_map(|object| unready_pod(object, evidence.events)).next()?;
    said(Reason::Pod, format!("waits for the pod {pod}, which is not ready: {why}"))
}

/// Explains a bad condition. A condition of the object itself may only repeat what one of its descendants says in full.
fn condition_bad(evidence: Evidence<'_>) -> Option<Why> {
    let own = || {
        let (condition, why) = bad_condition(evidence.object?)?;
        said(Reason::Condition, format!("its condition {condition}: {why}"))
    };
    let of_descendants = || {
        let found = evidence.descendants.iter().find_map(|object| {
            let (condition, why) = bad_condition(object)?;
            Some(format!("waits for {}, whose condition {condition}: {why}", name_of(object)))
        })?;
        said(Reason::Condition, found)
    };
    let unbound = || {
        let mut objects = evidence.object.into_iter().chain(evidence.descendants);
        said(Reason::Condition, objects.find_map(|object| pending(object, evidence.events))?)
    };
    of_descendants().or_else(own).or_else(unbound)
}

fn at_rest(key: &Key, evidence: Evidence<'_>, last: Option<&Reconcile>) -> Why {
    let why = |reason, line| Why { reason, line };
    match (last, evidence.object, evidence.record) {
        (Some(last), _, Some(record)) => {
            let ago = duration(record.taken.saturating_sub(last.end()));
            let causes = last.causes_text();
            let gone = if evidence.object.is_some() { "" } else { "the object no longer exists; " };
            let line = format!(
                "{gone}{} reconciled it {ago} ago without an error, because of {causes}",
                last.controller
            );
            why(Reason::Fine, line)
        }
        (None, None, _) => why(Reason::Missing, format!("there is no {key}")),
        (None, Some(_), Some(record)) => {
            let line = format!("no controller of {} has reconciled it since its record begins", record.name);
            why(Reason::Unseen, line)
        }
        _ => why(
            Reason::Unseen,
            "nothing is wrong with the object itself, and there is no record of an operator".into(),
        ),
    }
}

#[cfg(test)]
mod tests;
