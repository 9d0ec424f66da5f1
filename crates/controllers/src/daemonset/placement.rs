//! Which nodes run a pod of a DaemonSet, and how the pods are assigned to them.

use evenkeel_tree::{Tree, tree};

use crate::kinds::{DaemonSet, Node, Pod};
use crate::pod;
use crate::scheduler::affinity::{self, REQUIRED};

/// The taints that pods of every DaemonSet tolerate, so that they run on unhealthy nodes too.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Returns the spec of the pods, with the default tolerations.
pub(super) fn pod_spec(set: &DaemonSet) -> Tree {
    let mut spec = set.at("spec/template/spec").clone();
    let mut tolerated = TOLERATED.to_vec();
    if spec.is_true("hostNetwork") {
        tolerated.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    for (key, effect) in tolerated {
        let same = |known: &Tree| {
            known.is("key", key) && known.is("effect", effect) && known.is("operator", "Exists")
        };
        if !spec.list("tolerations").iter().any(same) {
            spec.push("tolerations", tree!({"key": key, "operator": "Exists", "effect": effect}));
        }
    }
    spec
}

/// Returns whether a pod should run on the node, and whether a running pod may stay there.
pub(super) fn belongs(spec: &Tree, node: &Node) -> (bool, bool) {
    let named = spec.str("nodeName").is_none_or(|name| name.is_empty() || name == node.name());
    if !named || !affinity::matches(spec, node) {
        return (false, false);
    }
    let refused = affinity::untolerated(spec, node, &["NoSchedule", "NoExecute"]).is_some();
    let driven_out = affinity::untolerated(spec, node, &["NoExecute"]).is_some();
    (!refused, !driven_out)
}

/// Assigns a pod to its node by node affinity, so that the scheduler still decides whether the pod fits.
pub(super) fn assign(spec: &mut Tree, node: &str) {
    let by_name = tree!({"key": "metadata.name", "operator": "In", "values": vec![node]});
    let mut terms = spec.at(REQUIRED).list("nodeSelectorTerms").to_vec();
    if terms.is_empty() {
        terms.push(tree!({}));
    }
    // Every term must name the node, because one matching term is enough.
    for term in &mut terms {
        term.set("matchFields", vec![&by_name]);
    }
    spec.set(&format!("{REQUIRED}/nodeSelectorTerms"), terms);
}

/// Returns the node that a pod is bound or assigned to.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    let assigned = || {
        let terms = pod.at("spec").at(REQUIRED).list("nodeSelectorTerms").iter();
        let mut fields = terms.flat_map(|term| term.list("matchFields"));
        fields.find(|field| field.is("key", "metadata.name") && field.is("operator", "In"))?.str("values/0")
    };
    pod::node_name(pod).or_else(assigned)
}
