//! The status of a ReplicaSet.

use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use super::Pods;
use super::census::Census;
use crate::kinds::ReplicaSet;
use crate::object::time;
use crate::{counts, pod};

/// Why creating or deleting pods failed, for the condition `ReplicaFailure`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub(crate) reason: &'static str,
    /// The message of the API server.
    pub(crate) message: String,
}

/// Computes the status from the numbers of pods.
pub(crate) fn status(set: &ReplicaSet, census: Census, failure: Option<&Failure>, now: Timestamp) -> Tree {
    tree!({
        "replicas": number(census.active),
        "fullyLabeledReplicas": counts::nonzero(number(census.fully_labeled)),
        "readyReplicas": counts::nonzero(number(census.ready)),
        "availableReplicas": counts::nonzero(number(census.available)),
        "terminatingReplicas": number(census.terminating),
        "observedGeneration": set.metadata.generation,
        "conditions": conditions(set.list("status/conditions"), failure, now),
    })
}

/// Returns when the next ready pod becomes available.
pub(crate) fn next_available(set: &ReplicaSet, pods: &Pods, now: Timestamp) -> Option<Duration> {
    pod::next_available(set, &pods.active, now)
}

/// Updates the condition `ReplicaFailure`. While it is set, its message and time do not change.
fn conditions(old: &[Tree], failure: Option<&Failure>, now: Timestamp) -> Option<Vec<Tree>> {
    let mut conditions = old.to_vec();
    let shown = conditions.iter().any(|condition| condition.is("type", "ReplicaFailure"));
    match failure {
        Some(failure) if !shown => conditions.push(tree!({
            "type": "ReplicaFailure", "status": "True", "reason": failure.reason,
            "message": &failure.message, "lastTransitionTime": time(now),
        })),
        None if shown => conditions.retain(|condition| !condition.is("type", "ReplicaFailure")),
        _ => {}
    }
    (!conditions.is_empty()).then_some(conditions)
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pod::tests::{pod, ready_pod};
    use serde_json::json;

    #[test]
    fn counts_are_those_of_the_active_pods() {
        let set = pod(json!({
            "metadata": {"generation": 3},
            "spec": {"replicas": 2, "minReadySeconds": 5, "selector": {},
                "template": {"metadata": {"labels": {"app": "web"}}}},
        }));
        let mut ready = ready_pod("a", "2026-01-01T00:00:00Z");
        ready.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        let leaving = pod(json!({"metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let pods = Pods::of([ready, pod(json!({"metadata": {"name": "b"}})), leaving].map(Arc::new));
        let now = "2026-01-01T00:00:02Z".parse().unwrap();
        let status = status(&set, Census::of(&set, &pods, now), None, now);
        assert_eq!(
            serde_json::to_value(status).unwrap(),
            json!({"replicas": 2, "fullyLabeledReplicas": 1, "readyReplicas": 1, "terminatingReplicas": 1, "observedGeneration": 3})
        );
        assert_eq!(next_available(&set, &pods, now), Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_failure_is_shown_until_it_is_over() {
        let now: Timestamp = "2026-01-01T00:00:02Z".parse().unwrap();
        let failure = Failure { reason: "FailedCreate", message: "quota".to_owned() };
        let shown = conditions(&[], Some(&failure), now).unwrap();
        let later = conditions(&shown, Some(&failure), now + jiff::SignedDuration::from_secs(9)).unwrap();
        assert_eq!(shown, later);
        assert_eq!(conditions(&shown, None, now), None);
    }
}
