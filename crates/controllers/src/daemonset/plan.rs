//! The next steps of a DaemonSet: which pods to create and to delete, and its status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use super::placement;
use crate::kinds::{DaemonSet, Node, Pod};
use crate::scaled_value::{Rounding, scaled_value};
use crate::{controller_history, counts, pod};

/// The counts that every status must have.
pub(super) const REQUIRED: [&str; 4] =
    ["desiredNumberScheduled", "currentNumberScheduled", "numberMisscheduled", "numberReady"];

/// The observed state of one DaemonSet.
pub(crate) struct Observed {
    pub(crate) set: Arc<DaemonSet>,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    /// The hash of the present template.
    pub(crate) hash: String,
}

/// The next steps.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The names of the nodes that lack a pod.
    pub(crate) create: Vec<String>,
    pub(crate) delete: Vec<Arc<Pod>>,
    pub(crate) status: Tree,
    pub(crate) look_again: Option<Duration>,
}

/// Computes the next steps of a DaemonSet.
pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let template = placement::pod_spec(&observed.set);
    let mut by_node: BTreeMap<&str, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in &observed.pods {
        by_node.entry(placement::target(pod).unwrap_or_default()).or_default().push(pod.clone());
    }
    let mut planner = Planner::new(observed, now);
    for node in &observed.nodes {
        let pods = by_node.remove(node.name()).unwrap_or_default();
        planner.node(node, &template, pods);
    }
    // The remaining pods belong to nodes that no longer exist.
    let lost = by_node.into_values().flatten().filter(|pod| !pod.is_deleting());
    planner.plan.delete.extend(lost);
    planner.update();
    planner.finish()
}

/// The numbers of nodes and pods in the status.
#[derive(Debug, Default)]
struct Counts {
    desired: i32,
    current: i32,
    misscheduled: i32,
    ready: i32,
    available: i32,
    updated: i32,
}

struct Planner<'a> {
    observed: &'a Observed,
    now: Timestamp,
    min_ready_seconds: i32,
    counts: Counts,
    plan: Plan,
    /// Pods of an older template that an update may replace.
    candidates: Vec<Arc<Pod>>,
}

impl<'a> Planner<'a> {
    fn new(observed: &'a Observed, now: Timestamp) -> Self {
        Self {
            observed,
            now,
            min_ready_seconds: observed.set.i32("spec/minReadySeconds").unwrap_or(0),
            counts: Counts::default(),
            plan: Plan::default(),
            candidates: Vec::new(),
        }
    }

    fn node(&mut self, node: &Node, template: &Tree, pods: Vec<Arc<Pod>>) {
        let (should_run, may_stay) = placement::belongs(template, node);
        let (finished, mut alive): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| pod::is_finished(pod));
        self.plan.delete.extend(finished.into_iter().filter(|pod| !pod.is_deleting()));
        alive.sort_by(|a, b| age(a).cmp(&age(b)));
        let present = alive.iter().filter(|pod| !pod.is_deleting()).count();
        self.count(should_run, &alive);
        if should_run && alive.is_empty() {
            self.plan.create.push(node.name().to_owned());
        } else if !may_stay {
            self.plan.delete.extend(alive.into_iter().filter(|pod| !pod.is_deleting()));
        } else if present > 1 {
            // The oldest pod stays.
            self.plan.delete.extend(alive.into_iter().filter(|pod| !pod.is_deleting()).skip(1));
        } else if should_run {
            let hash = &self.observed.hash;
            let outdated =
                alive.into_iter().filter(|pod| !pod.is_deleting() && hash_of(pod) != Some(hash.as_str()));
            self.candidates.extend(outdated);
        }
    }

    fn count(&mut self, should_run: bool, alive: &[Arc<Pod>]) {
        let counts = &mut self.counts;
        if !should_run {
            counts.misscheduled += i32::from(!alive.is_empty());
            return;
        }
        counts.desired += 1;
        let Some(first) = alive.first() else { return };
        counts.current += 1;
        counts.updated += i32::from(hash_of(first) == Some(self.observed.hash.as_str()));
        counts.ready += i32::from(pod::is_ready(first));
        counts.available += i32::from(pod::is_available(first, self.min_ready_seconds, self.now));
    }

    /// Deletes pods of an older template: all that are unavailable, and as many others as `maxUnavailable` allows.
    fn update(&mut self) {
        let strategy = self.observed.set.at("spec/updateStrategy");
        if strategy.is("type", "OnDelete") {
            return;
        }
        let limit = strategy.at("rollingUpdate/maxUnavailable");
        let limit = if limit.is_null() { 1 } else { scaled_value(limit, self.counts.desired, Rounding::Up) };
        let (available, broken): (Vec<_>, Vec<_>) = self
            .candidates
            .drain(..)
            .partition(|pod| pod::is_available(pod, self.min_ready_seconds, self.now));
        let unavailable = self.counts.desired - self.counts.available;
        let budget = usize::try_from(limit.max(1) - unavailable).unwrap_or(0);
        self.plan.delete.extend(broken);
        self.plan.delete.extend(available.into_iter().take(budget));
    }

    fn finish(mut self) -> Plan {
        let set = &self.observed.set;
        if set.is_deleting() {
            self.plan.create.clear();
            self.plan.delete.clear();
        }
        self.plan.status = tree!({
            "desiredNumberScheduled": self.counts.desired,
            "currentNumberScheduled": self.counts.current,
            "numberMisscheduled": self.counts.misscheduled,
            "numberReady": self.counts.ready,
            "numberAvailable": counts::nonzero(self.counts.available),
            "numberUnavailable": counts::nonzero(self.counts.desired - self.counts.available),
            "updatedNumberScheduled": counts::nonzero(self.counts.updated),
            "observedGeneration": set.metadata.generation,
            "collisionCount": set.at("status/collisionCount"),
            "conditions": set.at("status/conditions"),
        });
        if self.min_ready_seconds > 0 {
            let wait = |pod: &Arc<Pod>| pod::available_in(pod, self.min_ready_seconds, self.now);
            let waits = self.observed.pods.iter().filter_map(wait);
            self.plan.look_again = waits.filter(|wait| !wait.is_zero()).min();
        }
        self.plan
    }
}

/// The order in which the pods of one node are kept: the oldest first, pods that are being deleted last.
fn age(pod: &Pod) -> (bool, Option<Timestamp>, &str) {
    (pod.is_deleting(), pod.metadata.creation_timestamp.as_ref().map(|time| time.0), pod.name())
}

fn hash_of(pod: &Pod) -> Option<&str> {
    pod.label(controller_history::POD_REVISION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str, extra: Value) -> Arc<Node> {
        let mut value = json!({"metadata": {"name": name, "labels": {"pool": "a"}}});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        Arc::new(crate::object::object(value))
    }

    fn pod_on(node: &str, hash: &str, ready: bool) -> Arc<Pod> {
        Arc::new(crate::pod::tests::pod(json!({
            "metadata": {"name": format!("p-{node}-{hash}"), "labels": {"controller-revision-hash": hash}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })))
    }

    fn set() -> Arc<DaemonSet> {
        Arc::new(crate::object::object(json!({
            "metadata": {"name": "agent", "generation": 1},
            "spec": {"selector": {}, "template": {"spec": {"nodeSelector": {"pool": "a"}, "containers": []}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
        })))
    }

    fn planned(nodes: Vec<Arc<Node>>, pods: Vec<Arc<Pod>>) -> Plan {
        let observed = Observed { set: set(), nodes, pods, hash: "new".to_owned() };
        plan(&observed, "2026-01-01T01:00:00Z".parse().unwrap())
    }

    #[test]
    fn every_matching_node_gets_a_pod() {
        let tainted =
            json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
        let cordoned = json!({"spec": {"unschedulable": true}});
        let nodes = vec![
            node("a", json!({})),
            node("b", tainted),
            node("c", cordoned),
            node("d", json!({"metadata": {"name": "d"}})),
        ];
        let plan = planned(nodes, Vec::new());
        assert_eq!(plan.create, ["a", "c"]);
        assert_eq!(plan.status.i32("desiredNumberScheduled"), Some(2));
        assert_eq!(plan.status.i32("numberUnavailable"), Some(2));
    }

    #[test]
    fn an_update_takes_one_at_a_time_but_broken_ones_freely() {
        let nodes = || vec![node("a", json!({})), node("b", json!({})), node("c", json!({}))];
        let plan = planned(
            nodes(),
            vec![pod_on("a", "old", true), pod_on("b", "old", true), pod_on("c", "new", true)],
        );
        assert_eq!(plan.delete.len(), 1);
        let plan = planned(
            nodes(),
            vec![pod_on("a", "old", false), pod_on("b", "old", true), pod_on("c", "new", true)],
        );
        assert_eq!(plan.delete.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["p-a-old"]);
    }

    #[test]
    fn a_pod_on_a_node_that_no_longer_matches_goes() {
        let plan = planned(
            vec![node("a", json!({"metadata": {"name": "a"}}))],
            vec![pod_on("a", "new", true), pod_on("gone", "new", true)],
        );
        assert_eq!(plan.delete.len(), 2);
        assert_eq!(plan.status.i32("numberMisscheduled"), Some(1));
    }
}
