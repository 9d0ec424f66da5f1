//! The Node and Lease objects of the simulated nodes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use serde_json::json;

use super::logs::Logs;
use super::rules::Rules;
use crate::kinds::{Lease, Node};
use crate::object::time;

/// How often a node renews its lease unless its options say otherwise: kubelet's value, a quarter of the duration of the
/// lease.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The number and the size of the simulated nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeOptions {
    /// The number of nodes. Their names are `node-1`, `node-2`, …
    pub count: usize,
    /// The CPUs of each node, as a quantity.
    pub cpu: String,
    /// The memory of each node, as a quantity.
    pub memory: String,
    /// How many pods each node can run.
    pub pods: u32,
    /// How often a node renews its lease, which expires after 40 seconds.
    pub heartbeat: Duration,
    /// Whether `initial_objects` has registered the nodes already, so that their controller only has to renew their
    /// leases.
    pub registered: bool,
    /// The rules for what containers do.
    pub rules: Rules,
    /// The logs of the containers.
    pub logs: Logs,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            count: 1,
            cpu: "32".to_owned(),
            memory: "256Gi".to_owned(),
            pods: 110,
            heartbeat: HEARTBEAT,
            registered: false,
            rules: Rules::default(),
            logs: Logs::default(),
        }
    }
}

impl NodeOptions {
    /// This many nodes of the default size.
    pub fn count(count: usize) -> Self {
        Self { count, ..Self::default() }
    }
}

/// The kubelet version that the nodes report.
const VERSION: &str = "v1.36.4";

/// The duration of a node's lease.
const LEASE_SECONDS: i32 = 40;

/// Returns the name of a node. Indexes begin with zero.
pub(crate) fn name(index: usize) -> String {
    format!("node-{}", index + 1)
}

/// Returns the address of a node.
pub(crate) fn address(index: usize) -> String {
    // 172.20.0.0/14 is private and outside of the ranges that clusters use for pods and Services.
    let base = u32::from(Ipv4Addr::new(172, 20, 0, 10));
    Ipv4Addr::from(base + u32::try_from(index).unwrap_or(0)).to_string()
}

/// Returns the address of the pod with this number on a node.
pub(crate) fn pod_address(index: usize, number: u32) -> String {
    Ipv4Addr::from(first_pod_address(index) + number).to_string()
}

/// Returns the number of the pod with this address on a node, or `None` if the address does not belong to the node.
pub(crate) fn pod_number(index: usize, address: &str) -> Option<u32> {
    let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
    address.checked_sub(first_pod_address(index)).filter(|number| *number < ADDRESSES)
}

/// The size of each node's address range for pods.
const ADDRESSES: u32 = 256;

/// Returns the first address for the pods of a node, as a number. The first node begins at 10.244.0.0.
fn first_pod_address(index: usize) -> u32 {
    let node = u32::try_from(index).unwrap_or(0) % 4096;
    u32::from(Ipv4Addr::new(10, 244, 0, 0)) + node * ADDRESSES
}

/// Returns the Node object that registers a node.
pub(crate) fn node(options: &NodeOptions, index: usize, now: Timestamp) -> Node {
    let name = name(index);
    let labels = [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ];
    let cidr = format!("{}/24", pod_address(index, 0));
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        labels: Some(labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()),
        ..ObjectMeta::default()
    };
    let spec = tree!({"podCIDR": &cidr, "podCIDRs": vec![&cidr]});
    Node::new(metadata, tree!({"spec": spec, "status": status(options, index, now)}))
}

/// Returns the status of a healthy node.
pub(crate) fn status(options: &NodeOptions, index: usize, now: Timestamp) -> Tree {
    let amounts = tree!({
        "cpu": &options.cpu, "memory": &options.memory, "pods": options.pods.to_string(),
        "ephemeral-storage": "1Ti",
    });
    let addresses = [("InternalIP", address(index)), ("Hostname", name(index))];
    let addresses = addresses.map(|(kind, address)| tree!({"type": kind, "address": address}));
    let info = tree!({
        "architecture": "amd64", "operatingSystem": "linux", "osImage": "Evenkeel",
        "kernelVersion": "simulated", "containerRuntimeVersion": "evenkeel://0.1.0", "kubeletVersion": VERSION,
        "bootID": "", "kubeProxyVersion": "", "machineID": "", "systemUUID": "",
    });
    tree!({
        "capacity": &amounts, "allocatable": &amounts, "addresses": addresses.to_vec(),
        "conditions": conditions(now), "daemonEndpoints": tree!({}), "nodeInfo": info,
    })
}

/// Returns the status of a node that is healthy again. Fields that other clients have added to the present status, such
/// as the resources of devices, are kept.
pub(crate) fn recovered(present: &Tree, healthy: &Tree) -> Tree {
    let mut status = if present.is_null() { healthy.clone() } else { present.clone() };
    for (name, value) in healthy.members().filter(|(name, _)| !present.has(name) || *name == "conditions") {
        status.set(name, value.clone());
    }
    status
}

/// Returns the status with `allocatable` set to all extended resources in `capacity`, as kubelets set it after another
/// client has changed the capacity; `None` if nothing has to change.
pub(crate) fn with_extended(status: &Tree) -> Option<Tree> {
    let extended =
        |(name, amount): (&str, &Tree)| name.contains('/').then(|| (name.to_owned(), amount.clone()));
    let capacity: BTreeMap<_, _> = status.entries("capacity").filter_map(extended).collect();
    let allocatable: BTreeMap<_, _> = status.entries("allocatable").filter_map(extended).collect();
    let missing = capacity.iter().filter(|(name, _)| !allocatable.contains_key(*name));
    let gone = allocatable.keys().filter(|name| !capacity.contains_key(*name));
    let missing = missing.map(|(name, amount)| (name.clone(), amount.clone()));
    let changes: Vec<_> = missing.chain(gone.map(|name| (name.clone(), Tree::Null))).collect();
    if changes.is_empty() {
        return None;
    }
    let mut all: BTreeMap<String, Tree> =
        status.entries("allocatable").map(|(name, amount)| (name.to_owned(), amount.clone())).collect();
    all.extend(changes);
    let kept = all.iter().filter(|(_, amount)| !amount.is_null());
    let kept = kept.map(|(name, amount)| (name.as_str().into(), amount.clone())).collect();
    let mut status = status.clone();
    status.set("allocatable", Tree::map(kept));
    Some(status)
}

fn conditions(now: Timestamp) -> Vec<Tree> {
    let all = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let condition = |(kind, status, reason, message): (&str, &str, &str, &str)| {
        tree!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": time(now), "lastTransitionTime": time(now),
        })
    };
    all.into_iter().map(condition).collect()
}

/// The namespace of the nodes' leases.
pub(crate) const LEASES: &str = "kube-node-lease";

/// Returns the lease of a node, renewed now.
pub(crate) fn lease(node: &Node, now: Timestamp) -> Lease {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.name().to_owned(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        name: node.metadata.name.clone(),
        namespace: Some(LEASES.to_owned()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let spec = tree!({
        "holderIdentity": node.name(), "leaseDurationSeconds": LEASE_SECONDS, "renewTime": json!(MicroTime(now)),
    });
    Lease::new(metadata, tree!({"spec": spec}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_add_to_the_capacity_can_be_allocated() {
        let status = tree!({
            "capacity": tree!({"cpu": "4", "example.com/slots": "2"}),
            "allocatable": tree!({"cpu": "3", "example.com/old": "1"}),
        });
        let next = with_extended(&status).unwrap();
        assert_eq!(*next.at("allocatable"), tree!({"cpu": "3", "example.com/slots": "2"}));
        assert_eq!(with_extended(&next), None);
    }

    #[test]
    fn every_node_has_addresses_of_its_own() {
        assert_eq!(
            (name(0), address(0), pod_address(0, 2)),
            ("node-1".to_owned(), "172.20.0.10".to_owned(), "10.244.0.2".to_owned())
        );
        assert_eq!(pod_address(2, 255), "10.244.2.255");
        assert_eq!(pod_address(300, 1), "10.245.44.1");
    }
}
