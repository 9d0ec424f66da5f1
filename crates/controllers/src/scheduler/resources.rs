//! What pods ask for and what nodes have: requests, allocatable amounts, and a running account of both.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_schema::pod_resources::{self, Part, PodResources, add};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Node, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod;
use crate::quantity::Milli;

/// Amounts by the name of the resource.
pub(crate) type Amounts = pod_resources::Amounts<Milli>;

/// A port of the host that a pod takes: address, protocol, number.
pub(crate) type HostPort = (String, String, i32);

/// What one pod takes from its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) requests: Amounts,
    pub(crate) ports: BTreeSet<HostPort>,
}

impl Demand {
    /// The requests of the pod with its overhead, and its ports.
    pub(crate) fn of(pod: &Pod) -> Self {
        Self { requests: requests(pod).total(), ports: host_ports(pod) }
    }
}

fn requests(pod: &Pod) -> PodResources<Milli> {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let of_pod = spec.and_then(|spec| spec.resources.as_ref()).and_then(|it| it.requests.as_ref());
    let running = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let initial = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
    let init = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    PodResources {
        part: Part::Requests,
        containers: containers.iter().map(|it| container(it, running)).collect(),
        init_containers: init.iter().map(|it| container(it, initial)).collect(),
        pod: of_pod.map(amounts).unwrap_or_default(),
        overhead: spec.and_then(|spec| spec.overhead.as_ref()).map(amounts).unwrap_or_default(),
        resize_infeasible: status.is_some_and(is_resize_infeasible),
    }
}

fn container(container: &Container, statuses: &[ContainerStatus]) -> pod_resources::Container<Milli> {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let status = statuses.iter().find(|status| status.name == container.name);
    let reported = status.and_then(|status| {
        let actual = status.resources.as_ref()?.requests.as_ref();
        let allocated = status.allocated_resources.as_ref();
        Some(pod_resources::Reported {
            actual: actual.map(amounts).unwrap_or_default(),
            allocated: allocated.map(amounts).unwrap_or_default(),
        })
    });
    pod_resources::Container {
        restartable: container.restart_policy.as_deref() == Some("Always"),
        wanted: requests.map(amounts).unwrap_or_default(),
        reported,
    }
}

fn is_resize_infeasible(status: &PodStatus) -> bool {
    let pending = status.conditions.iter().flatten().find(|it| it.type_ == "PodResizePending");
    pending.and_then(|condition| condition.reason.as_deref()) == Some("Infeasible")
}

fn amounts(quantities: &BTreeMap<String, Quantity>) -> Amounts {
    quantities.iter().filter_map(|(name, quantity)| Some((name.clone(), Milli::parse(quantity)?))).collect()
}

fn host_ports(pod: &Pod) -> BTreeSet<HostPort> {
    let Some(spec) = pod.spec.as_ref() else { return BTreeSet::new() };
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    let taken = ports.filter(|port| port.host_port.is_some_and(|number| number > 0)).map(|port| {
        let address = port
            .host_ip
            .clone()
            .filter(|address| !address.is_empty())
            .unwrap_or_else(|| "0.0.0.0".to_owned());
        (address, port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), port.host_port.unwrap_or(0))
    });
    taken.collect()
}

/// What the pods of one node take together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pods: BTreeMap<String, Demand>,
    total: Amounts,
}

impl Used {
    /// Enters a pod, or what it asks for now.
    fn enter(&mut self, uid: &str, demand: Demand) {
        self.leave(uid);
        add(&mut self.total, &demand.requests);
        self.pods.insert(uid.to_owned(), demand);
    }

    fn leave(&mut self, uid: &str) {
        for (name, amount) in self.pods.remove(uid).into_iter().flat_map(|demand| demand.requests) {
            self.total.entry(name).or_default().0 -= amount.0;
        }
    }

    /// The number of pods.
    pub(crate) fn count(&self) -> usize {
        self.pods.len()
    }

    /// The amount that is taken of a resource.
    pub(crate) fn of(&self, resource: &str) -> Milli {
        self.total.get(resource).copied().unwrap_or_default()
    }

    /// Whether a port that the pod wants is taken.
    pub(crate) fn conflicts(&self, demand: &Demand) -> bool {
        let clash = |a: &HostPort, b: &HostPort| {
            a.1 == b.1 && a.2 == b.2 && (a.0 == b.0 || a.0 == "0.0.0.0" || b.0 == "0.0.0.0")
        };
        !demand.ports.is_empty()
            && self
                .pods
                .values()
                .any(|other| demand.ports.iter().any(|a| other.ports.iter().any(|b| clash(a, b))))
    }
}

/// A running account of what is taken on every node, kept up with every change of a pod, so that placing one pod
/// never walks over all others.
#[derive(Debug, Default)]
pub(crate) struct Account {
    nodes: BTreeMap<String, Used>,
    /// Where each pod stands in `nodes`.
    placed: BTreeMap<String, String>,
}

impl Account {
    /// Takes note of a pod as it is now.
    pub(crate) fn observe(&mut self, pod: &Pod) {
        let Some(uid) = pod.metadata.uid.as_deref() else { return };
        match pod::node_name(pod) {
            Some(node) if !pod::is_finished(pod) => self.place(uid, node, Demand::of(pod)),
            // A pod that was placed by us is known to be on its node before the cache shows it.
            None if !pod::is_finished(pod) => {}
            _ => self.forget(uid),
        }
    }

    /// Enters a pod on a node.
    pub(crate) fn place(&mut self, uid: &str, node: &str, demand: Demand) {
        if self.placed.get(uid).is_some_and(|known| known != node) {
            self.forget(uid);
        }
        self.nodes.entry(node.to_owned()).or_default().enter(uid, demand);
        self.placed.insert(uid.to_owned(), node.to_owned());
    }

    /// Takes a pod out.
    pub(crate) fn forget(&mut self, uid: &str) {
        let Some(node) = self.placed.remove(uid) else { return };
        if let Some(used) = self.nodes.get_mut(&node) {
            used.leave(uid);
            if used.count() == 0 {
                self.nodes.remove(&node);
            }
        }
    }

    /// Whether the pod has its node.
    pub(crate) fn is_placed(&self, uid: &str) -> bool {
        self.placed.contains_key(uid)
    }

    /// What is taken on a node, where anything is.
    pub(crate) fn get(&self, node: &str) -> Option<&Used> {
        self.nodes.get(node)
    }
}

/// What a node has to give.
pub(crate) fn allocatable(node: &Node) -> Amounts {
    let status = node.status.as_ref();
    let given = status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    given.map(amounts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::pod;
    use serde_json::json;

    fn milli(demand: &Demand, resource: &str) -> i128 {
        demand.requests.get(resource).map_or(0, |amount| amount.0)
    }

    #[test]
    fn init_containers_count_by_their_peak() {
        let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let demand = Demand::of(&pod(json!({"spec": {
            "initContainers": [
                {"name": "a", "resources": requests("1")},
                {"name": "b", "resources": requests("100m"), "restartPolicy": "Always"},
                {"name": "c", "resources": requests("2")},
            ],
            "containers": [{"name": "d", "resources": requests("500m")}, {"name": "e", "resources": requests("500m")}],
            "overhead": {"cpu": "10m"},
        }})));
        assert_eq!(milli(&demand, "cpu"), 2110);
    }

    #[test]
    fn the_account_follows_the_pods() {
        let mut account = Account::default();
        let mut one = pod(json!({
            "metadata": {"uid": "1"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }));
        account.observe(&one);
        account.observe(&one);
        assert_eq!(account.get("n").map(|used| used.of("cpu")), Some(Milli::whole(1)));
        one.status = serde_json::from_value(json!({"phase": "Succeeded"})).unwrap();
        account.observe(&one);
        assert!(account.get("n").is_none());
        account.forget("unknown");
    }

    #[test]
    fn a_port_of_the_host_is_taken_once() {
        let wants = |address: &str| {
            Demand::of(&pod(json!({"spec": {"containers": [
                {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": address}]}]}})))
        };
        let mut account = Account::default();
        account.place("1", "n", wants("10.0.0.1"));
        assert!(account.get("n").unwrap().conflicts(&wants("")));
        assert!(!account.get("n").unwrap().conflicts(&wants("10.0.0.2")));
    }
}
