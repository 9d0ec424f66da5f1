//! Warnings about labels of nodes that are deprecated, wherever nodes are selected by them.

use crate::json::{Value, get};
use crate::names;
use crate::read::Read as _;

/// What Kubernetes says about a deprecated label of nodes.
pub(super) fn deprecation(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => r#"use "node-role.kubernetes.io/control-plane" instead"#,
        _ => return None,
    })
}

/// Warns about the labels by which a pod chooses its nodes.
pub(super) fn of_pod(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    let selector = get(spec, &["nodeSelector"]).and_then(Value::as_object);
    for (label, _) in selector.into_iter().flatten() {
        warnings.extend(deprecation(label).map(|text| format!("{at}.nodeSelector[{label}]: {text}")));
    }
    let Some(affinity) = get(spec, &["affinity", "nodeAffinity"]) else { return };
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = affinity.at(required).list("nodeSelectorTerms");
    for (index, term) in terms.iter().enumerate() {
        let at = format!("{at}.affinity.nodeAffinity.{required}.nodeSelectorTerms[{index}]");
        of_term(term, &at, false, warnings);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in affinity.list(preferred).iter().enumerate() {
        let at = format!("{at}.affinity.nodeAffinity.{preferred}[{index}].preference");
        of_term(term.at("preference").unwrap_or(&Value::Null), &at, true, warnings);
    }
}

/// Warns about the labels of one term of a node selector, and, with `checks_values`, about malformed values.
pub(super) fn of_term(term: &Value, at: &str, checks_values: bool, warnings: &mut Vec<String>) {
    for (index, expression) in term.list("matchExpressions").iter().enumerate() {
        let (key, at) = (expression.str("key"), format!("{at}.matchExpressions[{index}]"));
        warnings.extend(deprecation(key).map(|text| format!("{at}.key: {key} is {text}")));
        let values = expression.strs("values").into_iter().enumerate().filter(|_| checks_values);
        for (index, value) in values {
            let wrong = names::label_value(value).into_iter();
            warnings.extend(wrong.map(|why| format!("{at}.values[{index}]: {value} is invalid, {why}")));
        }
    }
}
