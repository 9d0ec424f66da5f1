//! The next steps of a DaemonSet: which pods to create and to delete, and its status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::ResourceExt;

use super::placement;
use crate::openapi_compat::HasSpec as _;
use crate::scaled_value::{Rounding, scaled_value};
use crate::{controller_history, pod};

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
    pub(crate) status: DaemonSetStatus,
    pub(crate) look_again: Option<Duration>,
}

/// Computes the next steps of a DaemonSet.
pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let spec = observed.set.spec().cloned().unwrap_or_default();
    let template = placement::pod_spec(&spec);
    let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in &observed.pods {
        by_node.entry(placement::target(pod).unwrap_or_default()).or_default().push(pod.clone());
    }
    let mut planner = Planner { observed, now, spec, plan: Plan::default(), candidates: Vec::new() };
    for node in &observed.nodes {
        let pods = by_node.remove(&node.name_any()).unwrap_or_default();
        planner.node(node, &template, pods);
    }
    // The remaining pods belong to nodes that no longer exist.
    let lost = by_node.into_values().flatten().filter(|pod| !pod::is_deleting(pod));
    planner.plan.delete.extend(lost);
    planner.update();
    planner.finish()
}

struct Planner<'a> {
    observed: &'a Observed,
    now: Timestamp,
    spec: DaemonSetSpec,
    plan: Plan,
    /// Pods of an older template that an update may replace.
    candidates: Vec<Arc<Pod>>,
}

impl Planner<'_> {
    fn node(&mut self, node: &Node, template: &PodSpec, pods: Vec<Arc<Pod>>) {
        let (should_run, may_stay) = placement::belongs(template, node);
        let (finished, mut alive): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| pod::is_finished(pod));
        self.plan.delete.extend(finished.into_iter().filter(|pod| !pod::is_deleting(pod)));
        alive.sort_by_key(|pod| {
            (pod::is_deleting(pod), pod.metadata.creation_timestamp.clone(), pod.name_any())
        });
        let present = alive.iter().filter(|pod| !pod::is_deleting(pod)).count();
        self.count(should_run, &alive);
        if should_run && alive.is_empty() {
            self.plan.create.push(node.name_any());
        } else if !may_stay {
            self.plan.delete.extend(alive.into_iter().filter(|pod| !pod::is_deleting(pod)));
        } else if present > 1 {
            // The oldest pod stays.
            self.plan.delete.extend(alive.into_iter().filter(|pod| !pod::is_deleting(pod)).skip(1));
        } else if should_run {
            let hash = &self.observed.hash;
            let outdated =
                alive.into_iter().filter(|pod| !pod::is_deleting(pod) && hash_of(pod) != Some(hash));
            self.candidates.extend(outdated);
        }
    }

    fn count(&mut self, should_run: bool, alive: &[Arc<Pod>]) {
        let status = &mut self.plan.status;
        if !should_run {
            status.number_misscheduled += i32::from(!alive.is_empty());
            return;
        }
        status.desired_number_scheduled += 1;
        let Some(first) = alive.first() else { return };
        status.current_number_scheduled += 1;
        if !pod::is_ready(first) {
            let updated = i32::from(hash_of(first) == Some(&self.observed.hash));
            status.updated_number_scheduled = Some(status.updated_number_scheduled.unwrap_or(0) + updated);
            return;
        }
        status.number_ready += 1;
        let available = pod::is_available(first, self.spec.min_ready_seconds.unwrap_or(0), self.now);
        status.number_available = Some(status.number_available.unwrap_or(0) + i32::from(available));
        let updated = i32::from(hash_of(first) == Some(&self.observed.hash));
        status.updated_number_scheduled = Some(status.updated_number_scheduled.unwrap_or(0) + updated);
    }

    /// Deletes pods of an older template: all that are unavailable, and as many others as `maxUnavailable` allows.
    fn update(&mut self) {
        let strategy = self.spec.update_strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
            return;
        }
        let desired = self.plan.status.desired_number_scheduled;
        let limit = strategy
            .and_then(|strategy| strategy.rolling_update.as_ref())
            .and_then(|rolling| rolling.max_unavailable.clone());
        let limit = limit.map_or(1, |limit| scaled_value(Some(&limit), desired, Rounding::Up)).max(1);
        let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
        let (available, broken): (Vec<_>, Vec<_>) =
            self.candidates.drain(..).partition(|pod| pod::is_available(pod, min_ready, self.now));
        let unavailable = desired - self.plan.status.number_available.unwrap_or(0);
        let budget = usize::try_from(limit - unavailable).unwrap_or(0);
        self.plan.delete.extend(broken);
        self.plan.delete.extend(available.into_iter().take(budget));
    }

    fn finish(mut self) -> Plan {
        if self.observed.set.metadata.deletion_timestamp.is_some() {
            self.plan.create.clear();
            self.plan.delete.clear();
        }
        let status = &mut self.plan.status;
        let unavailable = status.desired_number_scheduled - status.number_available.unwrap_or(0);
        status.number_unavailable = Some(unavailable).filter(|count| *count != 0);
        status.number_available = status.number_available.filter(|count| *count != 0);
        status.updated_number_scheduled = status.updated_number_scheduled.filter(|count| *count != 0);
        status.observed_generation = self.observed.set.metadata.generation;
        let old = self.observed.set.status.as_ref();
        status.collision_count = old.and_then(|old| old.collision_count);
        status.conditions = old.and_then(|old| old.conditions.clone());
        let min_ready = self.spec.min_ready_seconds.filter(|seconds| *seconds > 0);
        let waits = self.observed.pods.iter().filter_map(|pod| pod::available_in(pod, min_ready?, self.now));
        self.plan.look_again = waits.filter(|wait| !wait.is_zero()).min();
        self.plan
    }
}

fn hash_of(pod: &Pod) -> Option<&String> {
    pod.metadata.labels.as_ref()?.get(controller_history::POD_REVISION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str, extra: Value) -> Arc<Node> {
        let mut value = json!({"metadata": {"name": name, "labels": {"pool": "a"}}});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn pod_on(node: &str, hash: &str, ready: bool) -> Arc<Pod> {
        Arc::new(crate::pod::tests::pod(json!({
            "metadata": {"name": format!("p-{node}-{hash}"), "labels": {"controller-revision-hash": hash}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })))
    }

    fn set() -> Arc<DaemonSet> {
        Arc::new(serde_json::from_value(json!({
            "metadata": {"name": "agent", "generation": 1},
            "spec": {"selector": {}, "template": {"spec": {"nodeSelector": {"pool": "a"}, "containers": []}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
        })).unwrap())
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
        assert_eq!(plan.status.desired_number_scheduled, 2);
        assert_eq!(plan.status.number_unavailable, Some(2));
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
        assert_eq!(plan.delete.iter().map(|pod| pod.name_any()).collect::<Vec<_>>(), ["p-a-old"]);
    }

    #[test]
    fn a_pod_on_a_node_that_no_longer_matches_goes() {
        let plan = planned(
            vec![node("a", json!({"metadata": {"name": "a"}}))],
            vec![pod_on("a", "new", true), pod_on("gone", "new", true)],
        );
        assert_eq!(plan.delete.len(), 2);
        assert_eq!(plan.status.number_misscheduled, 1);
    }
}
