//! `why`: explains in one line why an object is in its current state, from a record and the objects of the cluster.

mod objects;

use serde_json::Value;

use crate::entry::{Outcome, Reconcile, Sent};
use crate::questions::{Loop, loops};
use crate::record::{Key, Record, WatchState};
use crate::text::duration;

use objects::{Finalizing, first_false_condition, unready_pod};

/// What `why` may use to explain an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// The record of the operator, if there is one.
    pub record: Option<&'a Record>,
    /// The object, if it exists.
    pub object: Option<&'a Value>,
    /// The objects that the object owns, directly or indirectly.
    pub descendants: &'a [Value],
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
    /// A webhook denies a write of the controller.
    Webhook,
    /// The object is being deleted, and a finalizer blocks the deletion.
    Finalizer,
    /// Reconciles fail for another reason.
    Failing,
    /// A watch of the controller fails.
    Watch,
    /// A pod of the object is not ready.
    Pod,
    /// A condition of the object is false.
    Condition,
    /// There is no such object.
    Missing,
    /// No recorded controller has reconciled the object.
    Unseen,
    /// Nothing is wrong with the object.
    Fine,
}

/// Explains in one line why an object is in its current state.
pub fn why(key: &Key, evidence: Evidence<'_>) -> Why {
    let last = evidence.record.and_then(|record| last_of(record, key));
    None.or_else(|| looping(key, evidence))
        .or_else(|| last.and_then(|last| refused(key, last)))
        .or_else(|| finalizing(evidence, last))
        .or_else(|| last.and_then(failing))
        .or_else(|| watch_failing(evidence, last))
        .or_else(|| pod_unready(evidence))
        .or_else(|| condition_false(evidence))
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

/// Explains a request of the last reconcile that was forbidden, or that a webhook denied.
fn refused(key: &Key, last: &Reconcile) -> Option<Why> {
    if !last.outcome.is_failure() {
        return None;
    }
    let error = last.error.as_deref().unwrap_or_default();
    let sent = last.requests.iter().rev().find(|sent| sent.code >= 400 && sent.code != 404);
    let by = &last.controller;
    let tries = tries(last);
    if let Some(sent) = sent.filter(|sent| sent.code == 403 && !is_denial(error)) {
        let (verb, resource) = (rbac_verb(sent), rbac_resource(sent));
        let place = place(&sent.namespace);
        let line = format!("{by} may not {verb} {resource}{place}: give its role this rule ({tries})");
        return said(Reason::Forbidden, line);
    }
    let denial = error.find("admission webhook").or_else(|| error.find("ValidatingAdmissionPolicy"));
    let what = sent.map_or_else(|| format!("a write for {key}"), Sent::summary);
    denial
        .and_then(|at| said(Reason::Webhook, format!("{by} is refused `{what}`: {} ({tries})", &error[at..])))
}

fn is_denial(error: &str) -> bool {
    error.contains("denied the request")
}

fn rbac_verb(sent: &Sent) -> &str {
    match sent.verb.as_str() {
        "apply" => "patch",
        verb => verb,
    }
}

fn rbac_resource(sent: &Sent) -> String {
    let group = if sent.group.is_empty() { String::new() } else { format!(".{}", sent.group) };
    match sent.subresource.as_str() {
        "" => format!("{}{group}", sent.resource),
        subresource => format!("{}{group}/{subresource}", sent.resource),
    }
}

fn place(namespace: &Option<String>) -> String {
    namespace.as_deref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default()
}

/// Says how often the last reconcile was attempted, and when the next attempt is.
fn tries(last: &Reconcile) -> String {
    let times = last.attempts();
    let tried = if times == 1 { "tried once".to_owned() } else { format!("tried {times} times") };
    match (last.outcome, last.again) {
        (Outcome::FailedForGood, _) => format!("{tried}, not tried again"),
        (_, Some(again)) => format!("{tried}, next in {}", duration(again)),
        _ => tried,
    }
}

fn finalizing(evidence: Evidence<'_>, last: Option<&Reconcile>) -> Option<Why> {
    let Finalizing { since, finalizers } = Finalizing::of(evidence.object?)?;
    let held = finalizers.join(", ");
    let line = format!("deletion, asked for at {since}, waits for the finalizer {held}");
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
    let error = last.error.as_deref().unwrap_or("unknown");
    let advice = advice(error);
    said(Reason::Failing, format!("{} fails: {error}{advice} ({})", last.controller, tries(last)))
}

/// What to do about an error, after a colon; empty if the error says it itself or nobody knows.
pub fn advice(error: &str) -> &'static str {
    // What the API server says of a path that it does not serve.
    let unserved = ["404 page not found", "the server could not find the requested resource"];
    if unserved.iter().any(|text| error.contains(text)) {
        return ": the API server does not serve the kind; apply its CustomResourceDefinition first";
    }
    if error.contains(" is forbidden: User ") {
        return ": give its role this rule";
    }
    ""
}

/// Explains a failing watch: the controller then does not reconcile the object, or reconciles it from an old view.
fn watch_failing(evidence: Evidence<'_>, last: Option<&Reconcile>) -> Option<Why> {
    let watches = &evidence.record?.watches;
    let failing = watches.iter().find(|watch| watch.state == WatchState::Failing)?;
    let error = failing.error.as_deref().unwrap_or("unknown");
    let effect = match last {
        Some(_) => "the controller works on an old view",
        None => "the controller does not start before its cache is filled",
    };
    let reason = if error.contains("forbidden") { Reason::Forbidden } else { Reason::Watch };
    said(reason, format!("the watch of {} fails, and {effect}: {error}{}", failing.source, advice(error)))
}

fn pod_unready(evidence: Evidence<'_>) -> Option<Why> {
    let object = evidence.object.into_iter().chain(evidence.descendants);
    let (pod, why) = object.filter_map(unready_pod).next()?;
    said(Reason::Pod, format!("waits for the pod {pod}, which is not ready: {why}"))
}

fn condition_false(evidence: Evidence<'_>) -> Option<Why> {
    let (condition, why) = first_false_condition(evidence.object?)?;
    said(Reason::Condition, format!("its condition {condition} is not true: {why}"))
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
