//! Which nodes run a pod of a DaemonSet, and how the pods are assigned to them.

use k8s_openapi::api::apps::v1::DaemonSetSpec;
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
    Toleration,
};
use kube::ResourceExt;

use crate::pod;
use crate::scheduler::affinity;

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
pub(super) fn pod_spec(spec: &DaemonSetSpec) -> PodSpec {
    let mut template = spec.template.spec.clone().unwrap_or_default();
    let mut tolerated = TOLERATED.to_vec();
    if template.host_network == Some(true) {
        tolerated.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    let tolerations = template.tolerations.get_or_insert_default();
    for (key, effect) in tolerated {
        let same = |known: &Toleration| {
            known.key.as_deref() == Some(key)
                && known.effect.as_deref() == Some(effect)
                && known.operator.as_deref() == Some("Exists")
        };
        if !tolerations.iter().any(same) {
            tolerations.push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some(effect.to_owned()),
                ..Toleration::default()
            });
        }
    }
    template
}

/// Returns whether a pod should run on the node, and whether a running pod may stay there.
pub(super) fn belongs(template: &PodSpec, node: &Node) -> (bool, bool) {
    let named = template.node_name.as_deref().is_none_or(|name| name.is_empty() || name == node.name_any());
    if !named || !affinity::matches(template, node) {
        return (false, false);
    }
    let refused = affinity::untolerated(template, node, &["NoSchedule", "NoExecute"]).is_some();
    let driven_out = affinity::untolerated(template, node, &["NoExecute"]).is_some();
    (!refused, !driven_out)
}

/// Assigns a pod to its node by node affinity, so that the scheduler still decides whether the pod fits.
pub(super) fn assign(template: &mut PodSpec, node: &str) {
    let by_name = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity: &mut Affinity = template.affinity.get_or_insert_default();
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    let required =
        affinity.required_during_scheduling_ignored_during_execution.get_or_insert(NodeSelector::default());
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    // Every term must name the node, because one matching term is enough.
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![by_name.clone()]);
    }
}

/// Returns the node that a pod is bound or assigned to.
pub(super) fn target(pod: &Pod) -> Option<String> {
    if let Some(node) = pod::node_name(pod) {
        return Some(node.to_owned());
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let mut fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let by_name = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    by_name.values.as_ref()?.first().cloned()
}
