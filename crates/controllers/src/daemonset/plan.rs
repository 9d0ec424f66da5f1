//! The next steps of a DaemonSet: which pods to create and to delete, and its status.
//!
//! The pods of each node are looked at first: a missing one is created, and one that has ended, is too many or must not be
//! there is deleted. Only when nothing of that is left to do, [`update`](super::update) replaces pods of an older template.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use super::{placement, update};
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
    /// The nodes whose failed pods must not be replaced yet, and how long they still have to wait.
    pub(crate) backing_off: BTreeMap<String, Duration>,
}

/// The next steps.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The names of the nodes that lack a pod.
    pub(crate) create: Vec<String>,
    pub(crate) delete: Vec<Arc<Pod>>,
    /// The pods among the deleted ones that have ended, and the node of each.
    pub(crate) ended: Vec<(Arc<Pod>, String)>,
    pub(crate) status: Tree,
    pub(crate) look_again: Option<Duration>,
    /// When the back-off of a failed pod ends.
    pub(crate) replace_in: Option<Duration>,
}

/// The pods on one node, the oldest first.
pub(super) struct OnNode {
    pub(super) name: String,
    /// Whether a pod of the set should run there.
    pub(super) should_run: bool,
    pub(super) pods: Vec<Arc<Pod>>,
}

/// How many pods an update may add to the nodes, and how many it may leave without an available pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) surge: i32,
    pub(super) unavailable: i32,
    /// The number of nodes that should run a pod.
    pub(super) desired: i32,
}

impl Limits {
    fn of(set: &DaemonSet, desired: i32) -> Self {
        let rolling = set.at("spec/updateStrategy/rollingUpdate");
        let scaled = |field: &str, missing| match rolling.at(field) {
            value if value.is_null() => missing,
            value => scaled_value(value, desired, Rounding::Up),
        };
        let (surge, unavailable) = (scaled("maxSurge", 0), scaled("maxUnavailable", 1));
        // Without either, an update would never end.
        Self { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable }, desired }
    }
}

/// Computes the next steps of a DaemonSet.
pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let template = placement::pod_spec(&observed.set);
    let mut by_node: BTreeMap<&str, Vec<Arc<Pod>>> = BTreeMap::new();
    // A pod that has ended and is being deleted concerns nobody any more.
    for pod in observed.pods.iter().filter(|pod| !(pod::is_finished(pod) && pod.is_deleting())) {
        by_node.entry(placement::target(pod).unwrap_or_default()).or_default().push(pod.clone());
    }
    let mut planner = Planner {
        observed,
        age: Age { min_ready_seconds: observed.set.i32("spec/minReadySeconds").unwrap_or(0), now },
        surges: false,
        counts: Counts::default(),
        plan: Plan::default(),
    };
    let mut nodes = Vec::with_capacity(observed.nodes.len());
    let mut may_stay = Vec::with_capacity(observed.nodes.len());
    for node in &observed.nodes {
        let mut pods = by_node.remove(node.name()).unwrap_or_default();
        pods.sort_by(|a, b| created(a).cmp(&created(b)));
        let (should_run, stays) = placement::belongs(&template, node);
        may_stay.push(stays);
        nodes.push(OnNode { name: node.name().to_owned(), should_run, pods });
    }
    nodes.iter().for_each(|node| planner.count(node));
    let limits = Limits::of(&observed.set, planner.counts.desired);
    planner.surges = limits.surge > 0;
    for (node, stays) in nodes.iter().zip(may_stay) {
        planner.manage(node, stays);
    }
    // The remaining pods belong to nodes that no longer exist.
    let lost = by_node.into_values().flatten().filter(|pod| !pod.is_deleting());
    planner.plan.delete.extend(lost);
    let rolling = !observed.set.is("spec/updateStrategy/type", "OnDelete");
    if rolling && planner.plan.create.is_empty() && planner.plan.delete.is_empty() {
        let is_new = |pod: &Pod| planner.is_new(pod);
        let (create, delete) = update::next(&nodes, limits, planner.age, &is_new);
        planner.plan.create = create;
        planner.plan.delete = delete;
    }
    planner.finish()
}

/// Tells whether pods have been ready for long enough.
#[derive(Clone, Copy)]
pub(super) struct Age {
    pub(super) min_ready_seconds: i32,
    pub(super) now: Timestamp,
}

impl Age {
    pub(super) fn is_available(self, pod: &Pod) -> bool {
        pod::is_available(pod, self.min_ready_seconds, self.now)
    }
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
    age: Age,
    /// Whether an update adds the new pod to a node before the old one is deleted.
    surges: bool,
    counts: Counts,
    plan: Plan,
}

impl Planner<'_> {
    fn is_new(&self, pod: &Pod) -> bool {
        pod.label(controller_history::POD_REVISION) == Some(self.observed.hash.as_str())
    }

    /// Decides about the pods of one node, regardless of updates.
    fn manage(&mut self, node: &OnNode, may_stay: bool) {
        if !may_stay {
            self.plan.delete.extend(node.pods.iter().filter(|pod| !pod.is_deleting()).cloned());
            return;
        }
        if node.pods.is_empty() {
            if node.should_run {
                self.plan.create.push(node.name.clone());
            }
            return;
        }
        let alive = node.pods.iter().filter(|pod| !pod.is_deleting());
        let (ended, running): (Vec<_>, Vec<_>) = alive.cloned().partition(|pod| pod::is_finished(pod));
        let waits = ended.len();
        for pod in ended {
            self.replace_ended(pod, &node.name);
        }
        if !self.surges {
            // The oldest pod stays.
            self.plan.delete.extend(running.into_iter().skip(1));
        } else if running.is_empty() && waits == 0 {
            // The pod on the node is being deleted, and the next one need not wait for its end.
            if node.should_run {
                self.plan.create.push(node.name.clone());
            }
        } else {
            self.prune(running);
        }
    }

    /// Deletes a pod that has ended, unless one of its node failed too short a time ago.
    fn replace_ended(&mut self, pod: Arc<Pod>, node: &str) {
        let wait = self.observed.backing_off.get(node).filter(|_| pod::phase(&pod) == "Failed");
        if let Some(wait) = wait {
            let first = self.plan.replace_in.map_or(*wait, |first| first.min(*wait));
            self.plan.replace_in = Some(first);
            return;
        }
        self.plan.ended.push((pod.clone(), node.to_owned()));
        self.plan.delete.push(pod);
    }

    /// Keeps at most one pod of the present template and one of an older template on a node, the latter only while it is
    /// ready and the other is not available yet.
    fn prune(&mut self, running: Vec<Arc<Pod>>) {
        let (mut new, mut old) = (None, None);
        for pod in running {
            let kept = if self.is_new(&pod) { &mut new } else { &mut old };
            match kept {
                None => *kept = Some(pod),
                Some(_) => self.plan.delete.push(pod),
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!pod::is_ready(&old) || self.age.is_available(&new))
        {
            self.plan.delete.push(old);
        }
    }

    fn count(&mut self, node: &OnNode) {
        let counts = &mut self.counts;
        if !node.should_run {
            counts.misscheduled += i32::from(!node.pods.is_empty());
            return;
        }
        counts.desired += 1;
        let Some(first) = node.pods.first() else { return };
        let updated = first.label(controller_history::POD_REVISION) == Some(self.observed.hash.as_str());
        counts.current += 1;
        counts.updated += i32::from(updated);
        counts.ready += i32::from(pod::is_ready(first));
        counts.available += i32::from(self.age.is_available(first));
    }

    fn finish(mut self) -> Plan {
        let set = &self.observed.set;
        if set.is_deleting() {
            self.plan.create.clear();
            self.plan.delete.clear();
            self.plan.ended.clear();
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
        if self.age.min_ready_seconds > 0 {
            let wait = |pod: &Arc<Pod>| pod::available_in(pod, self.age.min_ready_seconds, self.age.now);
            let waits = self.observed.pods.iter().filter_map(wait);
            self.plan.look_again = waits.filter(|wait| !wait.is_zero()).min();
        }
        self.plan
    }
}

/// The order of the pods of one node: those that are bound come first, then the oldest.
fn created(pod: &Pod) -> (bool, Option<Timestamp>, &str) {
    let unbound = pod::node_name(pod).is_none();
    (unbound, pod.metadata.creation_timestamp.as_ref().map(|time| time.0), pod.name())
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
        let observed =
            Observed { set: set(), nodes, pods, hash: "new".to_owned(), backing_off: BTreeMap::new() };
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
