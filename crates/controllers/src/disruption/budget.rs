//! How many disruptions a PodDisruptionBudget allows.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::openapi_compat::into_field;
use crate::pod;
use crate::scaled_value::{Rounding, scaled_value};

/// How long a granted eviction counts if its pod is not deleted: Kubernetes' value.
const GRANTED: Duration = Duration::from_secs(120);

/// The observed state of one budget.
pub(super) struct Observed {
    pub(super) budget: Arc<PodDisruptionBudget>,
    /// The selected pods, without finished ones.
    pub(super) pods: Vec<Arc<Pod>>,
    /// How many pods the controllers of these pods want.
    pub(super) scale: i32,
}

/// Computes the status, and when to reconcile again because a granted eviction expires.
pub(super) fn status(observed: &Observed, now: Timestamp) -> (PodDisruptionBudgetStatus, Option<Duration>) {
    let (expected, desired) = counts(observed);
    let mut status = observed.budget.status.clone().unwrap_or_default();
    let granted = status.disrupted_pods.take().unwrap_or_default();
    let holds = |name: &str, at: Timestamp| {
        let there = observed.pods.iter().any(|pod| pod.name_any() == name && !pod::is_deleting(pod));
        there && SignedDuration::try_from(GRANTED).is_ok_and(|granted| now.duration_since(at) < granted)
    };
    let granted: std::collections::BTreeMap<_, _> =
        granted.into_iter().filter(|(name, at)| holds(name, at.0)).collect();
    let look_again = granted.values().map(|at| at.0).min().map(|at| {
        let passed = Duration::try_from(now.duration_since(at)).unwrap_or(Duration::ZERO);
        GRANTED.saturating_sub(passed) + Duration::from_secs(1)
    });
    let healthy = |pod: &&Arc<Pod>| {
        pod::is_ready(pod) && !pod::is_deleting(pod) && !granted.contains_key(&pod.name_any())
    };
    let current = i32::try_from(observed.pods.iter().filter(healthy).count()).unwrap_or(i32::MAX);
    let allowed = if expected > 0 { current.saturating_sub(desired).max(0) } else { 0 };
    status.current_healthy = into_field(current);
    status.desired_healthy = into_field(desired);
    status.expected_pods = into_field(expected);
    status.disruptions_allowed = into_field(allowed);
    status.disrupted_pods = Some(granted).filter(|granted| !granted.is_empty());
    status.observed_generation = observed.budget.metadata.generation;
    let condition = condition(&status, allowed, now);
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|old| old.type_ != condition.type_);
    conditions.push(condition);
    (status, look_again)
}

/// Returns how many pods there should be, and how many of them must stay healthy.
fn counts(observed: &Observed) -> (i32, i32) {
    let spec = observed.budget.spec.clone().unwrap_or_default();
    let there = i32::try_from(observed.pods.len()).unwrap_or(i32::MAX);
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(unavailable), _) => {
            let expected = observed.scale;
            let unavailable = scaled_value(Some(unavailable), expected, Rounding::Up);
            (expected, expected.saturating_sub(unavailable).max(0))
        }
        (None, Some(IntOrString::Int(minimum))) => (there, *minimum),
        (None, Some(minimum)) => (observed.scale, scaled_value(Some(minimum), observed.scale, Rounding::Up)),
        (None, None) => (there, 0),
    }
}

fn condition(status: &PodDisruptionBudgetStatus, allowed: i32, now: Timestamp) -> Condition {
    let (state, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let old = status
        .conditions
        .iter()
        .flatten()
        .find(|old| old.type_ == "DisruptionAllowed" && old.status == state);
    Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: state.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: old.map_or(Time(now), |old| old.last_transition_time.clone()),
        observed_generation: status.observed_generation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::ready_pod;
    use serde_json::json;

    fn allowed(spec: serde_json::Value, ready: usize, scale: i32) -> (i32, i32) {
        let budget = serde_json::from_value(json!({"metadata": {"generation": 1}, "spec": spec})).unwrap();
        let pods = (0..ready)
            .map(|number| Arc::new(ready_pod(&format!("p{number}"), "2026-01-01T00:00:00Z")))
            .collect();
        let observed = Observed { budget: Arc::new(budget), pods, scale };
        let (status, _) = status(&observed, "2026-01-01T00:00:00Z".parse().unwrap());
        (status.disruptions_allowed.unwrap(), status.desired_healthy.unwrap())
    }

    #[test]
    fn budgets_are_counted_by_number_and_by_share() {
        assert_eq!(allowed(json!({"minAvailable": 1}), 1, 0), (0, 1));
        assert_eq!(allowed(json!({"minAvailable": 0}), 1, 0), (1, 0));
        assert_eq!(allowed(json!({"minAvailable": "50%"}), 3, 3), (1, 2));
        assert_eq!(allowed(json!({"maxUnavailable": 1}), 3, 3), (1, 2));
        assert_eq!(allowed(json!({"maxUnavailable": "30%"}), 2, 3), (0, 2));
    }

    #[test]
    fn a_granted_eviction_counts_until_its_pod_goes() {
        let budget = json!({"metadata": {}, "spec": {"minAvailable": 1}, "status": {
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
            "disruptedPods": {"p0": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"}}});
        let pods = ["p0", "p1"].map(|name| Arc::new(ready_pod(name, "2026-01-01T00:00:00Z"))).into();
        let observed = Observed { budget: Arc::new(serde_json::from_value(budget).unwrap()), pods, scale: 0 };
        let (status, look_again) = status(&observed, "2026-01-01T00:00:10Z".parse().unwrap());
        assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(1), Some(0)));
        assert_eq!(status.disrupted_pods.unwrap().len(), 1);
        assert_eq!(look_again, Some(Duration::from_secs(111)));
    }
}
