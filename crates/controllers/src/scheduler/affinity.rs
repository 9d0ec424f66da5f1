//! Which nodes a pod may run on and prefers: node selector, node affinity, taints.

use evenkeel_tree::{Tree, tree};

use crate::counts;
use crate::kinds::Node;

/// The path of the required node affinity in a pod spec.
pub(crate) const REQUIRED: &str = "affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
/// The effect of a taint by which pods avoid a node.
const AVOIDED: &str = "PreferNoSchedule";
const PREFERRED: &str = "affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";

/// Whether the node matches the node selector and required node affinity of a pod with this spec.
pub(crate) fn matches(spec: &Tree, node: &Node) -> bool {
    let selected = spec.entries("nodeSelector").all(|(key, value)| node.label(key) == value.as_str());
    let required = spec.at(REQUIRED);
    selected
        && (required.is_null()
            || required.list("nodeSelectorTerms").iter().any(|term| term_matches(term, node)))
}

/// Returns the sum of the weights of the preferred node affinity terms that match.
pub(crate) fn preference(spec: &Tree, node: &Node) -> i32 {
    let preferred = spec.list(PREFERRED).iter();
    let liked = preferred.filter(|preferred| term_matches(preferred.at("preference"), node));
    counts::sum(liked.filter_map(|preferred| preferred.i32("weight")))
}

/// Whether a pod with this spec prefers some nodes by their labels.
pub(crate) fn has_preference(spec: &Tree) -> bool {
    !spec.list(PREFERRED).is_empty()
}

/// Whether a node has a taint by which pods avoid it.
pub(crate) fn is_avoided(node: &Node) -> bool {
    node.list("spec/taints").iter().any(|taint| taint.is("effect", AVOIDED))
}

/// Returns how many taints of a node let a pod with this spec avoid it.
pub(crate) fn avoidance(spec: &Tree, node: &Node) -> i64 {
    let taints = node.list("spec/taints").iter().filter(|taint| taint.is("effect", AVOIDED));
    i64::try_from(taints.filter(|taint| !is_tolerated(spec, taint)).count()).unwrap_or(i64::MAX)
}

/// Whether a term matches. A term without requirements matches nothing.
fn term_matches(term: &Tree, node: &Node) -> bool {
    let field = |key: &str| (key == "metadata.name").then(|| node.name());
    let (expressions, fields) = (term.list("matchExpressions"), term.list("matchFields"));
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|requirement| holds(requirement, node.label(key(requirement))))
        && fields.iter().all(|requirement| holds(requirement, field(key(requirement))))
}

fn key(requirement: &Tree) -> &str {
    requirement.str("key").unwrap_or_default()
}

/// Whether a label or field with this value satisfies a requirement.
fn holds(requirement: &Tree, value: Option<&str>) -> bool {
    let listed = value.is_some_and(|value| requirement.texts("values").any(|listed| listed == value));
    let compared = || Some((value?.parse::<i64>().ok()?, requirement.str("values/0")?.parse::<i64>().ok()?));
    match requirement.str("operator").unwrap_or_default() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared().is_some_and(|(value, bound)| value > bound),
        "Lt" => compared().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Returns the first taint with one of these effects that a pod with this spec does not tolerate.
pub(crate) fn untolerated<'a>(spec: &Tree, node: &'a Node, effects: &[&str]) -> Option<&'a Tree> {
    node.list("spec/taints")
        .iter()
        .find(|taint| effects.iter().any(|effect| taint.is("effect", effect)) && !is_tolerated(spec, taint))
}

fn is_tolerated(spec: &Tree, taint: &Tree) -> bool {
    spec.list("tolerations").iter().any(|toleration| tolerates(toleration, taint))
}

/// Whether a toleration matches a taint. An empty key with `Exists` matches all keys, an empty effect all effects.
pub(crate) fn tolerates(toleration: &Tree, taint: &Tree) -> bool {
    let (key, effect) = (toleration.at("key"), toleration.at("effect"));
    (effect.is_empty() || effect == taint.at("effect"))
        && (key.is_empty() || key == taint.at("key"))
        && match toleration.str("operator").unwrap_or("Equal") {
            "Exists" => true,
            "Equal" | "" => !key.is_empty() && value(toleration) == value(taint),
            _ => false,
        }
}

fn value(tree: &Tree) -> &str {
    tree.str("value").unwrap_or_default()
}

/// Whether a pod with this spec tolerates a node with `spec.unschedulable`.
pub(crate) fn tolerates_unschedulable(spec: &Tree) -> bool {
    is_tolerated(spec, &tree!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use crate::object::object as node;

    fn pod(spec: serde_json::Value) -> Tree {
        spec.into()
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
