//! The status of a ReplicaSet.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Pods;
use crate::openapi_compat::{HasSpec as _, into_field, str_or_empty};
use crate::{counts, pod};

/// Why creating or deleting pods failed, for the condition `ReplicaFailure`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub(crate) reason: &'static str,
    /// The message of the API server.
    pub(crate) message: String,
}

/// Computes the status from the pods.
pub(crate) fn status(
    set: &ReplicaSet,
    pods: &Pods,
    failure: Option<&Failure>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let min_ready_seconds = set.spec().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let template = set.spec().and_then(|spec| spec.template.as_ref()?.metadata.as_ref());
    let template_labels = template.and_then(|metadata| metadata.labels.as_ref());
    let fully_labeled = |pod: &Arc<Pod>| {
        let labels = pod.metadata.labels.as_ref();
        let mut wanted = template_labels.into_iter().flatten();
        wanted.all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    };
    let count = |test: &dyn Fn(&Arc<Pod>) -> bool| number(pods.active.iter().filter(|pod| test(pod)).count());
    let old = set.status.as_ref().and_then(|status| status.conditions.clone());
    ReplicaSetStatus {
        replicas: number(pods.active.len()),
        fully_labeled_replicas: counts::nonzero(count(&fully_labeled)),
        ready_replicas: counts::nonzero(count(&|pod| pod::is_ready(pod))),
        available_replicas: counts::nonzero(count(&|pod| pod::is_available(pod, min_ready_seconds, now))),
        terminating_replicas: Some(number(pods.terminating.len())),
        observed_generation: set.metadata.generation,
        conditions: conditions(old, failure, now),
    }
}

/// Returns when the next ready pod becomes available.
pub(crate) fn next_available(set: &ReplicaSet, pods: &Pods, now: Timestamp) -> Option<Duration> {
    let min_ready_seconds = set.spec()?.min_ready_seconds.filter(|seconds| *seconds > 0)?;
    let waits = pods.active.iter().filter_map(|pod| pod::available_in(pod, min_ready_seconds, now));
    waits.filter(|wait| !wait.is_zero()).min()
}

/// Updates the condition `ReplicaFailure`. While it is set, its message and time do not change.
fn conditions(
    old: Option<Vec<ReplicaSetCondition>>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = old.unwrap_or_default();
    let shown = conditions.iter().any(|condition| str_or_empty(&condition.type_) == "ReplicaFailure");
    match failure {
        Some(failure) if !shown => conditions.push(ReplicaSetCondition {
            type_: into_field("ReplicaFailure".to_owned()),
            status: into_field("True".to_owned()),
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.message.clone()),
            last_transition_time: Some(Time(now)),
        }),
        None if shown => conditions.retain(|condition| str_or_empty(&condition.type_) != "ReplicaFailure"),
        _ => {}
    }
    (!conditions.is_empty()).then_some(conditions)
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::{pod, ready_pod};
    use serde_json::json;

    #[test]
    fn counts_are_those_of_the_active_pods() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": {"generation": 3},
            "spec": {"replicas": 2, "minReadySeconds": 5, "selector": {},
                "template": {"metadata": {"labels": {"app": "web"}}}},
        }))
        .unwrap();
        let mut ready = ready_pod("a", "2026-01-01T00:00:00Z");
        ready.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        let leaving = pod(json!({"metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        let pods = Pods::of([ready, pod(json!({"metadata": {"name": "b"}})), leaving].map(Arc::new));
        let now = "2026-01-01T00:00:02Z".parse().unwrap();
        let status = status(&set, &pods, None, now);
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
        let shown = conditions(None, Some(&failure), now);
        let later = conditions(shown.clone(), Some(&failure), now + jiff::SignedDuration::from_secs(9));
        assert_eq!(shown, later);
        assert_eq!(conditions(shown, None, now), None);
    }
}
