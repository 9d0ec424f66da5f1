//! The conditions of a namespace that is being deleted.

use std::collections::BTreeMap;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::object::time;

/// What remains of the content of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemainingContent {
    /// How many objects remain, by `plural.group`.
    pub(crate) remaining: BTreeMap<String, usize>,
    /// How many objects a finalizer holds, by finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
    /// Why discovery failed, if it did.
    pub(crate) discovery_failure: Option<String>,
    /// Why objects could not be deleted, for each resource that failed.
    pub(crate) failures: Vec<String>,
}

impl RemainingContent {
    /// Whether nothing remains and nothing failed.
    pub(crate) fn is_gone(&self) -> bool {
        *self == Self::default()
    }

    /// Counts an object that still exists.
    pub(crate) fn remains(&mut self, plural: &str, group: &str, metadata: &ObjectMeta) {
        *self.remaining.entry(format!("{plural}.{group}")).or_default() += 1;
        for finalizer in metadata.finalizers.iter().flatten() {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
}

/// The types of the conditions, with the reason and message for the status `False`.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// Computes the status with the five conditions. A transition time changes only with the status.
pub(crate) fn status(old: &Tree, content: &RemainingContent, now: Timestamp) -> Tree {
    let mut conditions = old.list("conditions").to_vec();
    for (kind, reason, message) in CONDITIONS {
        let (state, reason, message) = match problem(kind, content) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", reason, message.to_owned()),
        };
        let before = conditions.iter().position(|condition| condition.is("type", kind));
        let since = before.map(|at| &conditions[at]).filter(|old| old.is("status", state));
        let since = since.map(|old| old.at("lastTransitionTime")).filter(|since| !since.is_null());
        let condition = tree!({
            "type": kind, "status": state, "reason": reason, "message": message,
            "lastTransitionTime": since.cloned().unwrap_or_else(|| time(now)),
        });
        match before {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
    }
    let mut status = old.clone();
    status.set("conditions", conditions);
    status
}

fn problem(kind: &str, content: &RemainingContent) -> Option<(&'static str, String)> {
    match kind {
        "NamespaceDeletionDiscoveryFailure" => {
            content.discovery_failure.clone().map(|why| ("DiscoveryFailed", why))
        }
        "NamespaceDeletionContentFailure" if !content.failures.is_empty() => {
            let mut failures = content.failures.clone();
            failures.sort();
            let message = format!(
                "Failed to delete all resource types, {} remaining: {}",
                failures.len(),
                failures.join(", ")
            );
            Some(("ContentDeletionFailed", message))
        }
        "NamespaceContentRemaining" if !content.remaining.is_empty() => {
            let lines = content
                .remaining
                .iter()
                .map(|(kind, count)| format!("{kind} has {count} resource instances"));
            let message = format!("Some resources are remaining: {}", lines.collect::<Vec<_>>().join(", "));
            Some(("SomeResourcesRemain", message))
        }
        "NamespaceFinalizersRemaining" if !content.finalizers.is_empty() => {
            let lines = content
                .finalizers
                .iter()
                .map(|(name, count)| format!("{name} in {count} resource instances"));
            let message = format!(
                "Some content in the namespace has finalizers remaining: {}",
                lines.collect::<Vec<_>>().join(", ")
            );
            Some(("SomeFinalizersRemain", message))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_said() {
        let mut content = RemainingContent::default();
        assert!(content.is_gone());
        let held =
            ObjectMeta { finalizers: Some(vec!["example.com/hold".to_owned()]), ..ObjectMeta::default() };
        content.remains("pods", "", &ObjectMeta::default());
        content.remains("deployments", "apps", &held);
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let status = status(&Tree::Null, &content, now);
        assert_eq!(
            status.str("conditions/3/message"),
            Some(
                "Some resources are remaining: deployments.apps has 1 resource instances, pods. has 1 resource instances"
            )
        );
        assert!(status.is("conditions/4/status", "True"));
        let well = super::status(&status, &RemainingContent::default(), now);
        assert!(well.list("conditions").iter().all(|condition| condition.is("status", "False")));
    }
}
