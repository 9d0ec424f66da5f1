//! Which nodes a pod may run on and prefers: node selector, node affinity, taints.

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

use crate::counts;

/// Whether the node matches the pod's node selector and required node affinity.
pub(crate) fn matches(pod: &PodSpec, node: &Node) -> bool {
    let selected =
        pod.node_selector.iter().flatten().all(|(key, value)| label(node, key) == Some(value.as_str()));
    let required = pod
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected
        && required
            .is_none_or(|required| required.node_selector_terms.iter().any(|term| term_matches(term, node)))
}

/// Returns the sum of the weights of the preferred node affinity terms that match.
pub(crate) fn preference(pod: &PodSpec, node: &Node) -> i32 {
    let preferred = pod
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let liked = preferred.into_iter().flatten().filter(|preferred| term_matches(&preferred.preference, node));
    counts::sum(liked.map(|preferred| preferred.weight))
}

/// Whether a term matches. A term without requirements matches nothing.
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let field = |key: &str| match key {
        "metadata.name" => Some(node.metadata.name.as_deref().unwrap_or_default()),
        _ => None,
    };
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let field_expressions = term.match_fields.as_deref().unwrap_or_default();
    !(expressions.is_empty() && field_expressions.is_empty())
        && expressions.iter().all(|requirement| holds(requirement, label(node, &requirement.key)))
        && field_expressions.iter().all(|requirement| holds(requirement, field(&requirement.key)))
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// Whether a requirement holds for a label or field with this value.
fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let compared = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|(value, bound)| value > bound),
        "Lt" => compared().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Returns the first taint with one of these effects that the pod does not tolerate.
pub(crate) fn untolerated<'a>(pod: &PodSpec, node: &'a Node, effects: &[&str]) -> Option<&'a Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    taints.iter().find(|taint| {
        effects.contains(&taint.effect.as_str())
            && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
    })
}

/// Whether a toleration matches a taint. An empty key with `Exists` matches all keys, an empty effect all effects.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or_default();
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().unwrap_or("Equal");
    let value = taint.value.as_deref().unwrap_or_default();
    (effect.is_empty() || effect == taint.effect)
        && (key.is_empty() || key == taint.key)
        && match operator {
            "Exists" => true,
            "Equal" | "" => !key.is_empty() && toleration.value.as_deref().unwrap_or_default() == value,
            _ => false,
        }
}

/// Whether the pod tolerates a node with `spec.unschedulable`.
pub(crate) fn tolerates_unschedulable(pod: &PodSpec) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    pod.tolerations.iter().flatten().any(|toleration| tolerates(toleration, &taint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(value: serde_json::Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    fn pod(value: serde_json::Value) -> PodSpec {
        let mut spec = json!({"containers": []});
        spec.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn node_affinity_is_a_choice_of_terms() {
        let node = node(json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}}}));
        let affine = |terms: serde_json::Value| {
            let spec = pod(json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}));
            matches(&spec, &node)
        };
        assert!(affine(
            json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}])
        ));
        assert!(affine(json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}])));
        assert!(!affine(
            json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}])
        ));
        assert!(affine(
            json!([{}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])
        ));
        assert!(!affine(json!([{}])), "an empty term matches nothing");
        assert!(!matches(&pod(json!({"nodeSelector": {"zone": "b"}})), &node));
    }

    #[test]
    fn taints_need_tolerations() {
        let node =
            node(json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}));
        let hit = |tolerations: serde_json::Value| {
            untolerated(&pod(json!({"tolerations": tolerations})), &node, &["NoSchedule", "NoExecute"])
                .is_some()
        };
        assert!(hit(json!([])));
        assert!(!hit(json!([{"operator": "Exists"}])));
        assert!(!hit(json!([{"key": "gpu", "value": "yes"}])));
        assert!(hit(json!([{"key": "gpu", "value": "no"}])));
        assert!(hit(json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}])));
    }
}
