//! Requests of a controller that the API server refuses, and why: permissions, webhooks, admission, conflicts.

use super::{Reason, Why, said};
use crate::entry::{Outcome, Reconcile, Sent};
use crate::record::{Key, Record};
use crate::text::duration;

/// How far back other writers of an object are looked for, in microseconds: a minute.
const RIVALS_WITHIN: u64 = 60_000_000;

/// Explains the last reconcile if it failed because the API server refused one of its requests.
pub(super) fn refused(key: &Key, last: &Reconcile, record: Option<&Record>) -> Option<Why> {
    if !last.outcome.is_failure() {
        return None;
    }
    let error = last.error.as_deref().unwrap_or_default();
    let sent = last.requests.iter().rev().find(|sent| sent.code >= 400 && sent.code != 404);
    // The reconcile's error may have been replaced by the operator's own words.
    let message = sent.and_then(|sent| sent.error.as_deref()).unwrap_or(error);
    let what = sent.map_or_else(|| format!("a write for {key}"), Sent::summary);
    let (by, tries) = (&last.controller, tries(last));
    if let Some(at) = webhook(message) {
        let line = format!("{by} is refused `{what}`: {} ({tries})", &message[at..]);
        return said(Reason::Webhook, line);
    }
    let sent = sent?;
    match sent.code {
        403 if is_rbac(message) => {
            let (verb, resource) = (rbac_verb(sent), rbac_resource(sent));
            let place = place(&sent.namespace);
            let line = format!("{by} may not {verb} {resource}{place}: give its role this rule ({tries})");
            said(Reason::Forbidden, line)
        }
        403 => said(Reason::Refused, format!("{by} is refused `{what}`: {message} ({tries})")),
        409 if message.contains("the object has been modified") => {
            let rivals = record.map(|record| rivals(record, last, sent)).unwrap_or_default();
            let who = match rivals.as_slice() {
                [] => "another client writes it at the same time, or the operator wrote from an old copy"
                    .to_owned(),
                rivals => format!("{} writes it too", rivals.join(" and ")),
            };
            let line = format!("the writes of {by} conflict, last `{what}`: {who} ({tries})");
            said(Reason::Conflict, line)
        }
        _ => None,
    }
}

/// Where a message begins to tell of a webhook or an admission policy: one that denies, or one that cannot be called.
fn webhook(message: &str) -> Option<usize> {
    [
        "admission webhook",
        "failed calling webhook",
        "failed to call webhook",
        "conversion webhook for",
        "ValidatingAdmissionPolicy",
    ]
    .iter()
    .filter_map(|words| message.find(words))
    .min()
}

/// Whether a refusal is one of RBAC. Quotas, limits, pod security and terminating namespaces answer with the same code.
fn is_rbac(message: &str) -> bool {
    message.contains("User \"") && message.contains(" cannot ")
}

/// The other clients that wrote the object of a request within the last minute.
fn rivals(record: &Record, last: &Reconcile, ours: &Sent) -> Vec<String> {
    let same = |sent: &Sent| {
        let object = (&sent.group, &sent.resource, &sent.namespace, &sent.name);
        object == (&ours.group, &ours.resource, &ours.namespace, &ours.name)
            && sent.is_write()
            && sent.revision > 0
            && ours.at.saturating_sub(sent.at) < RIVALS_WITHIN
    };
    let mut found: Vec<String> = Vec::new();
    let mut add = |by: &str| {
        if by != last.controller && !by.is_empty() && !found.iter().any(|known| known == by) {
            found.push(by.to_owned());
        }
    };
    for entry in &record.entries {
        match entry {
            crate::Entry::Reconcile(other) if other.requests.iter().any(same) => add(&other.controller),
            crate::Entry::Request(sent) if same(sent) => add(&sent.by),
            _ => {}
        }
    }
    found
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
pub(super) fn tries(last: &Reconcile) -> String {
    let times = last.attempts();
    let tried = if times == 1 { "tried once".to_owned() } else { format!("tried {times} times") };
    match (last.outcome, last.again) {
        (Outcome::FailedForGood, _) => format!("{tried}, not tried again"),
        (_, Some(again)) => format!("{tried}, next in {}", duration(again)),
        _ => tried,
    }
}
