//! The scheduler's cache: the resources and host ports that the pods on each node take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_schema::pod_resources::{Amounts, Part, PodResources, add};
use evenkeel_schema::quantity::Quantity;
use evenkeel_tree::Tree;
use evenkeel_tree::value::Value;

use super::groups::{PodGroups, same_group};
use super::terms::{Labels, NamespaceLabels};
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
    let pending = pod::condition(pod, RESIZE_PENDING).map(|it| [parts(it, &["type", "reason"])]);
    let spec = Value::from_iter([
        ("containers", containers("spec/containers").into()),
        ("initContainers", containers("spec/initContainers").into()),
        ("resources", Value::from(pod.at("spec/resources"))),
        ("overhead", Value::from(pod.at("spec/overhead"))),
    ]);
    let status = Value::from_iter([
        ("containerStatuses", Value::from(reported("status/containerStatuses"))),
        ("initContainerStatuses", reported("status/initContainerStatuses").into()),
        ("conditions", pending.into()),
    ]);
    Value::from_iter([("spec", spec), ("status", status)])
}

/// Returns some members of a map.
fn parts(tree: &Tree, names: &[&str]) -> Value {
    names.iter().map(|name| (*name, Value::from(tree.at(name)))).collect()
}

/// The condition of a pod whose resources are to be resized. An infeasible resize is ignored.
const RESIZE_PENDING: &str = "PodResizePending";

/// A pod on a node.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPod {
    pub(crate) pod: Arc<Pod>,
    pub(crate) requests: PodRequests,
}

impl PlacedPod {
    /// A pod with its requests.
    pub(crate) fn new(pod: Arc<Pod>) -> Self {
        let requests = PodRequests::of(&pod);
        Self { pod, requests }
    }

    /// Returns the uid of the pod.
    pub(crate) fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }
}

/// A node, what it offers, and what its pods take together.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeInfo {
    /// `None` while there are pods on a node that does not exist.
    node: Option<Arc<Node>>,
    /// What the node offers to pods, parsed once for each change of a node and not for each pod.
    allocatable: Amounts,
    /// By the uid of the pod.
    pods: BTreeMap<String, PlacedPod>,
    /// The sum of the pods' requests.
    requested: Amounts,
}

impl NodeInfo {
    /// Adds a pod, which is not on the node yet.
    fn add_pod(&mut self, uid: &str, pod: PlacedPod) {
        add(&mut self.requested, &pod.requests.amounts);
        self.pods.insert(uid.to_owned(), pod);
    }

    fn remove_pod(&mut self, uid: &str) -> Option<PlacedPod> {
        let removed = self.pods.remove(uid)?;
        subtract(&mut self.requested, &removed.requests.amounts);
        Some(removed)
    }

    /// Returns the amounts that the node offers to pods.
    pub(crate) fn allocatable(&self) -> &Amounts {
        &self.allocatable
    }

    /// Returns the pods.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &PlacedPod> {
        self.pods.values()
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
            && self
                .pods
                .values()
                .any(|other| pod::ports_conflict(&requests.host_ports, &other.requests.host_ports))
    }
}

/// The nodes and the pods on them.
///
/// Every change of a pod updates the cache, so that placing one pod never walks over all others.
#[derive(Debug, Default)]
pub(crate) struct SchedulerCache {
    nodes: BTreeMap<String, NodeInfo>,
    /// From the uid of a pod to the node that it is on.
    placed: BTreeMap<String, String>,
    /// The placed pods, as constraints of other pods see them.
    groups: PodGroups,
    namespaces: NamespaceLabels,
    /// The nominated pods (`status.nominatedNodeName`), for which other pods were preempted, by node and uid.
    nominated: BTreeMap<String, BTreeMap<String, PlacedPod>>,
}

impl SchedulerCache {
    /// Updates the cache with the present state of a pod.
    pub(crate) fn observe(&mut self, pod: &Arc<Pod>) {
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        match pod::node_name(pod) {
            Some(node) if !pod::is_finished(pod) => {
                self.nominate(pod, None);
                self.place(node, PlacedPod::new(pod.clone()));
            }
            // The scheduler itself may have placed the pod already, and the informer does not show the binding yet.
            None if !pod::is_finished(pod) => {
                let node = pod.str("status/nominatedNodeName").filter(|node| !node.is_empty());
                if !self.placed.contains_key(uid) {
                    self.nominate(pod, node);
                }
            }
            _ => {
                self.nominate(pod, None);
                self.forget(uid);
            }
        }
    }

    /// Adds a pod to a node, and removes it from any other node.
    pub(crate) fn place(&mut self, node: &str, pod: PlacedPod) {
        let uid = pod.uid().to_owned();
        let before = self.take(&uid);
        let same =
            before.as_ref().is_some_and(|(was, before)| was == node && same_group(&before.pod, &pod.pod));
        if !same {
            if let Some((was, before)) = before {
                self.groups.remove(&before.pod, &was);
                self.forget_empty(&was);
            }
            self.groups.add(&pod.pod, node);
        }
        self.nodes.entry(node.to_owned()).or_default().add_pod(&uid, pod);
        self.placed.insert(uid, node.to_owned());
    }

    /// Removes a pod, and returns it with its node.
    pub(crate) fn forget(&mut self, uid: &str) -> Option<(String, PlacedPod)> {
        let (node, removed) = self.take(uid)?;
        self.groups.remove(&removed.pod, &node);
        self.forget_empty(&node);
        Some((node, removed))
    }

    /// Takes a pod from its node, still counted in its group.
    fn take(&mut self, uid: &str) -> Option<(String, PlacedPod)> {
        let node = self.placed.remove(uid)?;
        let removed = self.nodes.get_mut(&node)?.remove_pod(uid)?;
        Some((node, removed))
    }

    fn forget_empty(&mut self, node: &str) {
        if self.nodes.get(node).is_some_and(|info| info.node.is_none() && info.pods.is_empty()) {
            self.nodes.remove(node);
        }
    }

    /// Records the node that a pod is nominated to; `None` removes the nomination.
    pub(crate) fn nominate(&mut self, pod: &Arc<Pod>, node: Option<&str>) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if node.is_none() && self.nominated.is_empty() {
            return;
        }
        self.nominated.retain(|_, pods| {
            pods.remove(uid);
            !pods.is_empty()
        });
        if let Some(node) = node {
            let pods = self.nominated.entry(node.to_owned()).or_default();
            pods.insert(uid.to_owned(), PlacedPod::new(pod.clone()));
        }
    }

    /// Removes the nomination of a pod that is gone.
    pub(crate) fn forget_nomination(&mut self, uid: &str) {
        self.nominated.retain(|_, pods| {
            pods.remove(uid);
            !pods.is_empty()
        });
    }

    /// Returns the pods that are nominated to a node.
    pub(crate) fn nominated(&self, node: &str) -> impl Iterator<Item = &PlacedPod> {
        self.nominated.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// Updates what is known of a node.
    pub(crate) fn observe_node(&mut self, node: &Arc<Node>) {
        let info = self.nodes.entry(node.name().to_owned()).or_default();
        info.allocatable = allocatable(node);
        info.node = Some(node.clone());
    }

    /// Removes a node that was deleted. Its pods stay until they are deleted.
    pub(crate) fn forget_node(&mut self, name: &str) {
        if let Some(info) = self.nodes.get_mut(name) {
            info.node = None;
        }
        self.forget_empty(name);
    }

    /// Updates the labels of a namespace; `None` if it was deleted.
    pub(crate) fn observe_namespace(&mut self, name: &str, labels: Option<Labels>) {
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels),
            None => self.namespaces.remove(name),
        };
    }

    /// Returns the labels of the namespaces.
    pub(crate) fn namespaces(&self) -> &NamespaceLabels {
        &self.namespaces
    }

    /// Returns the placed pods by group.
    pub(crate) fn groups(&self) -> &PodGroups {
        &self.groups
    }

    /// Whether the pod is on a node.
    pub(crate) fn is_placed(&self, uid: &str) -> bool {
        self.placed.contains_key(uid)
    }

    /// Returns a node and what is on it.
    pub(crate) fn get(&self, node: &str) -> Option<(&Arc<Node>, &NodeInfo)> {
        let info = self.nodes.get(node)?;
        Some((info.node.as_ref()?, info))
    }

    /// Returns a node.
    pub(crate) fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.get(name).map(|(node, _)| node)
    }

    /// Returns the nodes with what is on them, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Arc<Node>, &NodeInfo)> {
        self.nodes.values().filter_map(|info| Some((info.node.as_ref()?, info)))
    }

    /// Returns the nodes by name.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.all().map(|(node, _)| node)
    }
}

/// Subtracts amounts from a total that contains them.
pub(crate) fn subtract(total: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        if let Some(total) = total.get_mut(name) {
            *total = total.clone() - amount.clone();
        }
    }
}

/// Returns the amounts that a node offers to pods.
pub(crate) fn allocatable(node: &Node) -> Amounts {
    let path = if node.has("status/allocatable") { "status/allocatable" } else { "status/capacity" };
    // Values that are not quantities are skipped; validation rejects them.
    let parsed =
        |(name, amount): (&str, &Tree)| Some((name.to_owned(), Quantity::parse(amount.as_str()?).ok()?));
    node.entries(path).filter_map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    /// Returns the cpu that the pods on a node request.
    fn cpu(cache: &SchedulerCache, node: &str) -> Option<String> {
        Some(cache.nodes.get(node)?.requested("cpu")?.to_string())
    }

    fn wants(uid: &str, cpu: &str) -> Arc<Pod> {
        Arc::new(pod(json!({"metadata": {"uid": uid}, "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})))
    }

    #[test]
    fn the_cache_follows_the_pods() {
        let mut cache = SchedulerCache::default();
        let mut one = (*wants("1", "1")).clone();
        one.set("spec/nodeName", "n");
        cache.observe(&Arc::new(one.clone()));
        cache.observe(&Arc::new(one.clone()));
        assert_eq!(cpu(&cache, "n").as_deref(), Some("1"));
        assert_eq!(cache.groups.all().map(|group| group.nodes["n"]).collect::<Vec<_>>(), [1]);
        one.set("status/phase", "Succeeded");
        cache.observe(&Arc::new(one));
        assert!(cache.nodes.is_empty());
        assert_eq!(cache.groups.all().count(), 0);
        cache.forget("unknown");
    }

    #[test]
    fn requests_that_shrink_are_given_back() {
        let mut cache = SchedulerCache::default();
        cache.place("n", PlacedPod::new(wants("1", "2")));
        cache.place("n", PlacedPod::new(wants("2", "500m")));
        cache.place("n", PlacedPod::new(wants("1", "1")));
        assert_eq!(cpu(&cache, "n").as_deref(), Some("1500m"));
        cache.place("m", PlacedPod::new(wants("1", "1")));
        assert_eq!(cpu(&cache, "n").as_deref(), Some("500m"));
        let nodes: Vec<_> = cache.groups.all().map(|group| group.nodes.clone()).collect();
        assert_eq!(nodes, [BTreeMap::from([("m".to_owned(), 1), ("n".to_owned(), 1)])]);
    }

    #[test]
    fn a_port_of_the_host_is_taken_once() {
        let wants = |address: &str| {
            Arc::new(pod(json!({"metadata": {"uid": address}, "spec": {"containers": [
                {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": address}]}]}})))
        };
        let mut cache = SchedulerCache::default();
        cache.place("n", PlacedPod::new(wants("10.0.0.1")));
        let conflicts = |address: &str| cache.nodes["n"].has_port_conflict(&PodRequests::of(&wants(address)));
        assert!(conflicts(""));
        assert!(!conflicts("10.0.0.2"));
    }

    #[test]
    fn a_nomination_ends_when_the_pod_is_bound() {
        let mut cache = SchedulerCache::default();
        let mut waits = (*wants("1", "1")).clone();
        waits.set("status/nominatedNodeName", "n");
        cache.observe(&Arc::new(waits.clone()));
        assert_eq!(cache.nominated("n").count(), 1);
        waits.set("spec/nodeName", "m");
        cache.observe(&Arc::new(waits));
        assert_eq!(cache.nominated("n").count(), 0);
    }
}
