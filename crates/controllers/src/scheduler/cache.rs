//! The scheduler's cache: the resources and host ports that the pods on each node take.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use evenkeel_schema::pod_resources::{Amounts, Part, PodResources, add};
use evenkeel_schema::quantity::Quantity;
use evenkeel_tree::Tree;
use serde_json::{Value, json};

use crate::kinds::{Node, Pod};
use crate::pod::{self, HostPort};

/// What one pod takes from its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodRequests {
    /// The pod's resource requests, its overhead included.
    pub(crate) amounts: Amounts,
    pub(crate) host_ports: BTreeSet<HostPort>,
}

impl PodRequests {
    /// Sums up the requests of a pod.
    pub(crate) fn of(pod: &Pod) -> Self {
        let tree = resource_fields(pod);
        Self {
            amounts: PodResources::of_pod(&tree, Part::Requests).total(),
            host_ports: pod::host_ports(pod),
        }
    }
}

/// Returns the fields of a pod that [`PodResources`] reads. The resources are computed again for every event of a pod,
/// so the rest of the pod is left out.
fn resource_fields(pod: &Pod) -> Value {
    let containers = |path: &str| -> Vec<Value> {
        pod.list(path).iter().map(|it| parts(it, &["name", "restartPolicy", "resources"])).collect()
    };
    let reported = |path: &str| -> Vec<Value> {
        let reported = pod.list(path).iter().filter(|it| it.has("resources"));
        reported.map(|it| parts(it, &["name", "resources", "allocatedResources"])).collect()
    };
    json!({
        "spec": {
            "containers": containers("spec/containers"),
            "initContainers": containers("spec/initContainers"),
            "resources": pod.at("spec/resources").to_value(),
            "overhead": pod.at("spec/overhead").to_value(),
        },
        "status": {
            "containerStatuses": reported("status/containerStatuses"),
            "initContainerStatuses": reported("status/initContainerStatuses"),
            "conditions": pod::condition(pod, RESIZE_PENDING).map(|it| [parts(it, &["type", "reason"])]),
        },
    })
}

/// Returns some members of a map.
fn parts(tree: &Tree, names: &[&str]) -> Value {
    names.iter().map(|name| (*name, tree.at(name).to_value())).collect()
}

/// The condition of a pod whose resources are to be resized. An infeasible resize is ignored.
const RESIZE_PENDING: &str = "PodResizePending";

/// What the pods of one node take together.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeInfo {
    /// By the uid of the pod.
    pods: BTreeMap<String, PodRequests>,
    /// The sum of the pods' requests.
    requested: Amounts,
}

impl NodeInfo {
    /// Adds a pod, or replaces the requests that it had before.
    fn add_pod(&mut self, uid: &str, requests: PodRequests) {
        self.remove_pod(uid);
        add(&mut self.requested, &requests.amounts);
        self.pods.insert(uid.to_owned(), requests);
    }

    fn remove_pod(&mut self, uid: &str) {
        for (name, amount) in self.pods.remove(uid).into_iter().flat_map(|requests| requests.amounts) {
            if let Some(requested) = self.requested.get_mut(&name) {
                *requested = requested.clone() - amount;
            }
        }
    }

    /// Returns the number of pods.
    pub(crate) fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Returns the total amount of a resource that the pods request, or `None` if no pod requests any.
    pub(crate) fn requested(&self, resource: &str) -> Option<&Quantity> {
        self.requested.get(resource)
    }

    /// Whether another pod has a host port that this pod wants.
    pub(crate) fn has_port_conflict(&self, requests: &PodRequests) -> bool {
        !requests.host_ports.is_empty()
            && self.pods.values().any(|other| pod::ports_conflict(&requests.host_ports, &other.host_ports))
    }
}

/// A [`NodeInfo`] for every node with pods.
///
/// Every change of a pod updates the cache, so that placing one pod never walks over all others.
#[derive(Debug, Default)]
pub(crate) struct SchedulerCache {
    nodes: BTreeMap<String, NodeInfo>,
    /// From the uid of a pod to the node that it is on.
    placed: BTreeMap<String, String>,
    /// The allocatable amounts of the nodes, parsed once for each change of a node instead of for each pod.
    offered: BTreeMap<String, Amounts>,
}

impl SchedulerCache {
    /// Updates the cache with the present state of a pod.
    pub(crate) fn observe(&mut self, pod: &Pod) {
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        match pod::node_name(pod) {
            Some(node) if !pod::is_finished(pod) => self.place(uid, node, PodRequests::of(pod)),
            // The scheduler itself may have placed the pod already, and the informer does not show the binding yet.
            None if !pod::is_finished(pod) => {}
            _ => self.forget(uid),
        }
    }

    /// Adds a pod to a node, and removes it from any other node.
    pub(crate) fn place(&mut self, uid: &str, node: &str, requests: PodRequests) {
        if self.placed.get(uid).is_some_and(|known| known != node) {
            self.forget(uid);
        }
        self.nodes.entry(node.to_owned()).or_default().add_pod(uid, requests);
        self.placed.insert(uid.to_owned(), node.to_owned());
    }

    /// Removes a pod.
    pub(crate) fn forget(&mut self, uid: &str) {
        let Some(node) = self.placed.remove(uid) else { return };
        if let Some(info) = self.nodes.get_mut(&node) {
            info.remove_pod(uid);
            if info.pod_count() == 0 {
                self.nodes.remove(&node);
            }
        }
    }

    /// Updates the allocatable amounts of a node.
    pub(crate) fn observe_node(&mut self, node: &Node) {
        self.offered.insert(node.name().to_owned(), allocatable(node));
    }

    /// Removes a deleted node.
    pub(crate) fn forget_node(&mut self, name: &str) {
        self.offered.remove(name);
    }

    /// Returns the allocatable amounts of a node.
    pub(crate) fn allocatable(&self, node: &Node) -> Cow<'_, Amounts> {
        let known = self.offered.get(node.name());
        known.map_or_else(|| Cow::Owned(allocatable(node)), Cow::Borrowed)
    }

    /// Whether the pod is on a node.
    pub(crate) fn is_placed(&self, uid: &str) -> bool {
        self.placed.contains_key(uid)
    }

    /// Returns the info of a node, or `None` if no pod is on it.
    pub(crate) fn get(&self, node: &str) -> Option<&NodeInfo> {
        self.nodes.get(node)
    }
}

/// Returns the amounts that a node offers to pods.
fn allocatable(node: &Node) -> Amounts {
    let path = if node.has("status/allocatable") { "status/allocatable" } else { "status/capacity" };
    // Values that are not quantities are skipped; validation rejects them.
    let parsed =
        |(name, amount): (&str, &Tree)| Some((name.to_owned(), Quantity::parse(amount.as_str()?).ok()?));
    node.entries(path).filter_map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::pod;

    #[test]
    fn init_containers_count_by_their_peak() {
        let cpu = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let requests = PodRequests::of(&pod(json!({"spec": {
            "initContainers": [
                {"name": "a", "resources": cpu("1")},
                {"name": "b", "resources": cpu("100m"), "restartPolicy": "Always"},
                {"name": "c", "resources": cpu("2")},
            ],
            "containers": [{"name": "d", "resources": cpu("500m")}, {"name": "e", "resources": cpu("500m")}],
            "overhead": {"cpu": "10m"},
        }})));
        assert_eq!(requests.amounts["cpu"].to_string(), "2110m");
    }

    #[test]
    fn the_cache_follows_the_pods() {
        let mut cache = SchedulerCache::default();
        let mut one = pod(json!({
            "metadata": {"uid": "1"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }));
        cache.observe(&one);
        cache.observe(&one);
        assert_eq!(
            cache.get("n").map(|info| info.requested("cpu").unwrap().to_string()).as_deref(),
            Some("1")
        );
        one.set("status/phase", "Succeeded");
        cache.observe(&one);
        assert!(cache.get("n").is_none());
        cache.forget("unknown");
    }

    #[test]
    fn requests_that_shrink_are_given_back() {
        let requests = |cpu: &str| {
            PodRequests::of(&pod(json!({"spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})))
        };
        let mut cache = SchedulerCache::default();
        cache.place("1", "n", requests("2"));
        cache.place("2", "n", requests("500m"));
        cache.place("1", "n", requests("1"));
        assert_eq!(cache.get("n").unwrap().requested("cpu").unwrap().to_string(), "1500m");
        cache.place("1", "m", requests("1"));
        assert_eq!(cache.get("n").unwrap().requested("cpu").unwrap().to_string(), "500m");
    }

    #[test]
    fn a_port_of_the_host_is_taken_once() {
        let wants = |address: &str| {
            PodRequests::of(&pod(json!({"spec": {"containers": [
                {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": address}]}]}})))
        };
        let mut cache = SchedulerCache::default();
        cache.place("1", "n", wants("10.0.0.1"));
        assert!(cache.get("n").unwrap().has_port_conflict(&wants("")));
        assert!(!cache.get("n").unwrap().has_port_conflict(&wants("10.0.0.2")));
    }
}
