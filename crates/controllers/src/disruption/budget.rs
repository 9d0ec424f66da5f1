//! How many disruptions a PodDisruptionBudget allows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::{SignedDuration, Timestamp};

use crate::kinds::{Pod, PodDisruptionBudget};
use crate::object::{Fields, time};
use crate::pod;
use crate::scaled_value::{Rounding, scaled_value};

/// How long a granted eviction counts if its pod is not deleted: Kubernetes' value.
const GRANTED: Duration = Duration::from_secs(120);

/// The condition that the controller writes.
const ALLOWED: &str = "DisruptionAllowed";

/// The observed state of one budget.
pub(super) struct Observed {
    pub(super) budget: Arc<PodDisruptionBudget>,
    /// The selected pods, without finished ones.
    pub(super) pods: Vec<Arc<Pod>>,
    /// How many pods the controllers of these pods want.
    pub(super) scale: i32,
}

/// Computes the status, and when to reconcile again because a granted eviction expires.
pub(super) fn status(observed: &Observed, now: Timestamp) -> (Tree, Option<Duration>) {
    let budget = &observed.budget;
    let (expected, desired) = counts(observed);
    let granted = granted(observed, now);
    let look_again = granted.values().min().map(|at| {
        let passed = Duration::try_from(now.duration_since(*at)).unwrap_or(Duration::ZERO);
        GRANTED.saturating_sub(passed) + Duration::from_secs(1)
    });
    let healthy =
        |pod: &&Arc<Pod>| pod::is_ready(pod) && !pod.is_deleting() && !granted.contains_key(pod.name());
    let current = i32::try_from(observed.pods.iter().filter(healthy).count()).unwrap_or(i32::MAX);
    let allowed = if expected > 0 { current.saturating_sub(desired).max(0) } else { 0 };
    let disrupted = granted.iter().map(|(name, at)| ((*name).into(), time(*at))).collect::<Vec<_>>();
    let old = budget.list("status/conditions").iter().filter(|old| !old.is("type", ALLOWED));
    let conditions: Vec<_> = old.cloned().chain([condition(budget, allowed, now)]).collect();
    let mut status = budget.at("status").clone();
    status.set("currentHealthy", current);
    status.set("desiredHealthy", desired);
    status.set("expectedPods", expected);
    status.set("disruptionsAllowed", allowed);
    status.set("disruptedPods", (!disrupted.is_empty()).then(|| Tree::map(disrupted)));
    status.set("observedGeneration", budget.metadata.generation);
    status.set("conditions", conditions);
    (status, look_again)
}

/// Returns the pods whose eviction was granted long ago, and which were not deleted since.
pub(super) fn not_deleted(observed: &Observed, now: Timestamp) -> Vec<&Arc<Pod>> {
    let expired = |pod: &&Arc<Pod>| {
        let granted = observed.budget.at("status/disruptedPods").str(pod.name());
        let granted: Option<Timestamp> = granted.and_then(|at| at.parse().ok());
        let passed = granted.and_then(|at| Duration::try_from(now.duration_since(at)).ok());
        passed.is_some_and(|passed| passed >= GRANTED)
    };
    observed.pods.iter().filter(|pod| !pod.is_deleting()).filter(expired).collect()
}

/// Returns the recent evictions that still reduce the budget, by the names of their pods.
fn granted(observed: &Observed, now: Timestamp) -> BTreeMap<&str, Timestamp> {
    let holds = |name: &str, at: Timestamp| {
        let there = observed.pods.iter().any(|pod| pod.name() == name && !pod.is_deleting());
        there && SignedDuration::try_from(GRANTED).is_ok_and(|granted| now.duration_since(at) < granted)
    };
    let all = observed.budget.entries("status/disruptedPods");
    let all = all.filter_map(|(name, at)| Some((name, at.as_str()?.parse().ok()?)));
    all.filter(|(name, at)| holds(name, *at)).collect()
}

/// Returns how many pods there should be, and how many of them must stay healthy.
fn counts(observed: &Observed) -> (i32, i32) {
    let scale = observed.scale;
    let there = i32::try_from(observed.pods.len()).unwrap_or(i32::MAX);
    match (observed.budget.at("spec/maxUnavailable"), observed.budget.at("spec/minAvailable")) {
        (Tree::Null, Tree::Null) => (there, 0),
        (Tree::Null, minimum @ Tree::Text(_)) => (scale, scaled_value(minimum, scale, Rounding::Up)),
        (Tree::Null, minimum) => (there, scaled_value(minimum, scale, Rounding::Up)),
        (unavailable, _) => {
            let unavailable = scaled_value(unavailable, scale, Rounding::Up);
            (scale, scale.saturating_sub(unavailable).max(0))
        }
    }
}

fn condition(budget: &PodDisruptionBudget, allowed: i32, now: Timestamp) -> Tree {
    let (state, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let old = budget.at("status").condition(ALLOWED).filter(|old| old.is("status", state));
    let since = old.map(|old| old.at("lastTransitionTime").clone());
    tree!({
        "type": ALLOWED, "status": state, "reason": reason, "message": "",
        "lastTransitionTime": since.unwrap_or_else(|| time(now)),
        "observedGeneration": budget.metadata.generation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::object;
    use crate::pod::tests::ready_pod;
    use serde_json::json;

    fn allowed(spec: serde_json::Value, ready: usize, scale: i32) -> (i32, i32) {
        let budget = object(json!({"metadata": {"generation": 1}, "spec": spec}));
        let pods = (0..ready)
            .map(|number| Arc::new(ready_pod(&format!("p{number}"), "2026-01-01T00:00:00Z")))
            .collect();
        let observed = Observed { budget: Arc::new(budget), pods, scale };
        let (status, _) = status(&observed, "2026-01-01T00:00:00Z".parse().unwrap());
        (status.i32("disruptionsAllowed").unwrap(), status.i32("desiredHealthy").unwrap())
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
        let observed = Observed { budget: Arc::new(object(budget)), pods, scale: 0 };
        let (status, look_again) = status(&observed, "2026-01-01T00:00:10Z".parse().unwrap());
        assert_eq!((status.i32("currentHealthy"), status.i32("disruptionsAllowed")), (Some(1), Some(0)));
        assert_eq!(status.entries("disruptedPods").count(), 1);
        assert_eq!(look_again, Some(Duration::from_secs(111)));
    }
}
