//! Which pods are deleted first when there are too many.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_schema::deletion_cost;
use jiff::Timestamp;

use crate::kinds::Pod;
use crate::pod;

/// Returns the `count` pods of `active` to delete.
///
/// `related` are the active pods of all ReplicaSets of the same Deployment, including `active`: pods on a node with many
/// of them are deleted first.
pub(crate) fn victims(
    active: &[Arc<Pod>],
    related: &[Arc<Pod>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    let mut crowd: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| pod::is_active(pod)) {
        *crowd.entry(pod::node_name(pod).unwrap_or_default()).or_default() += 1;
    }
    let neighbours = |pod: &Pod| pod::node_name(pod).and_then(|node| crowd.get(node)).copied().unwrap_or(0);
    let mut ranked = active.to_vec();
    ranked.sort_by(|a, b| rank(a, b, now, (neighbours(a), neighbours(b))));
    ranked.truncate(count);
    ranked
}

/// `Less` when `a` should be deleted before `b`.
fn rank(a: &Pod, b: &Pod, now: Timestamp, neighbours: (usize, usize)) -> Ordering {
    let assigned = |pod| pod::node_name(pod).is_some();
    assigned(a)
        .cmp(&assigned(b))
        .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
        .then_with(|| pod::is_ready(a).cmp(&pod::is_ready(b)))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| Reverse(neighbours.0).cmp(&Reverse(neighbours.1)))
        .then_with(|| younger_first(pod::ready_since(a), pod::ready_since(b), now, a, b))
        .then_with(|| Reverse(pod::restarts(a)).cmp(&Reverse(pod::restarts(b))))
        .then_with(|| younger_first(created(a), created(b), now, a, b))
        .then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
}

fn phase_rank(pod: &Pod) -> u8 {
    match pod::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

/// Returns the deletion cost: zero if there is none, or if it is not a number.
fn deletion_cost(pod: &Pod) -> i32 {
    pod.annotation(deletion_cost::ANNOTATION).and_then(deletion_cost::parse).unwrap_or(0)
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Compares ages by their magnitude only, so that the choice among pods of about the same age is spread by uid.
fn younger_first(
    a: Option<Timestamp>,
    b: Option<Timestamp>,
    now: Timestamp,
    left: &Pod,
    right: &Pod,
) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if a != b => {
            magnitude(now, a).cmp(&magnitude(now, b)).then_with(|| left.metadata.uid.cmp(&right.metadata.uid))
        }
        // A pod without a time counts as the youngest.
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

fn magnitude(now: Timestamp, then: Timestamp) -> i64 {
    match now.duration_since(then).as_nanos() {
        age if age <= 0 => -1,
        age => i64::from(age.ilog2()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::{pod, ready_pod};
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    fn first(pods: &[Pod]) -> String {
        let pods: Vec<_> = pods.iter().cloned().map(Arc::new).collect();
        victims(&pods, &pods, 1, now())[0].metadata.name.clone().unwrap()
    }

    #[test]
    fn an_unready_pod_goes_before_a_ready_one() {
        let unready = pod(json!({
            "metadata": {"name": "unready", "uid": "z"}, "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running"},
        }));
        assert_eq!(first(&[ready_pod("ready", "2026-01-01T00:00:00Z"), unready]), "unready");
    }

    #[test]
    fn a_pod_without_a_node_goes_first() {
        let unassigned = pod(json!({"metadata": {"name": "unassigned", "uid": "z"}}));
        let pending = pod(
            json!({"metadata": {"name": "pending", "uid": "a"}, "spec": {"nodeName": "n", "containers": []}}),
        );
        assert_eq!(first(&[pending, unassigned]), "unassigned");
    }

    #[test]
    fn the_cheaper_pod_goes_first() {
        let cost = |name: &str, cost: &str| {
            pod(
                json!({"metadata": {"name": name, "uid": name, "annotations": {deletion_cost::ANNOTATION: cost}}}),
            )
        };
        assert_eq!(first(&[cost("a", "10"), cost("b", "-10")]), "b");
        assert_eq!(first(&[cost("a", "1"), cost("b", "+9")]), "b", "a cost that is no number counts as zero");
    }

    #[test]
    fn the_crowded_node_gives_one_up() {
        let on = |name: &str, node: &str| {
            let mut pod = ready_pod(name, "2026-01-01T00:00:00Z");
            pod.set("spec/nodeName", node);
            pod
        };
        assert_eq!(first(&[on("a", "m"), on("b", "n"), on("c", "n")]), "b");
    }

    #[test]
    fn a_much_younger_pod_goes_first() {
        let pods = [ready_pod("a", "2026-01-01T00:00:00Z"), ready_pod("b", "2026-01-01T00:59:00Z")];
        assert_eq!(first(&pods), "b");
    }
}
