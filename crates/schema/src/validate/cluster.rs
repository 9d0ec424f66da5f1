//! Kinds with few rules: Nodes, PodDisruptionBudgets, PriorityClasses, RuntimeClasses, Leases and PodTemplates.

use evenkeel_scalars::go;

use super::field_rules::{immutable, non_negative, optional_one_of};
use super::resources::{container_resource_name, resource_value};
use super::service::cidr;
use super::workload::{at_most_all, int_or_percent};
use super::{autoscaler, limitrange, pod, quota, scheduling, storage};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::quantity::Quantity;
use crate::read::Read;
use crate::selector;

const PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) fn create(group: &str, kind: &str, object: &Value, namespaced: bool) -> Vec<FieldError> {
    // The metadata of a PodDisruptionBudget is validated only if everything else is valid.
    let mut errors = match (group, kind) {
        ("policy", "PodDisruptionBudget") => Vec::new(),
        _ => object_meta::create_builtin(object, namespaced, NameRule::of(group, kind)),
    };
    rules(group, kind, object, &mut errors);
    errors
}

pub(super) fn update(
    group: &str,
    kind: &str,
    new: &Value,
    old: &Value,
    subresource: &str,
) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    match (group, kind) {
        ("autoscaling", "HorizontalPodAutoscaler") if subresource == "status" => {
            autoscaler::status(new, &mut errors);
        }
        _ if subresource == "status" => {}
        ("scheduling.k8s.io", "PriorityClass") => {
            if new.int("value") != old.int("value") {
                errors.push(FieldError::forbidden("value", "may not be changed in an update."));
            }
            let path = Path::new("preemptionPolicy");
            immutable(&path, new.at("preemptionPolicy"), old.at("preemptionPolicy"), &mut errors);
        }
        ("storage.k8s.io", _) => {
            let mut errors = Vec::new();
            storage::update(kind, new, old, &mut errors);
            return errors;
        }
        ("", "Node") => {
            node(new, &mut errors);
            node_update(new, old, &mut errors);
        }
        ("", "ResourceQuota") => quota::update(new, old, &mut errors),
        ("node.k8s.io", "RuntimeClass") => {
            handler(new, &mut errors);
            let name = Value::from(new.str("handler"));
            if new.at("handler") != old.at("handler") {
                immutable(&Path::new("handler"), Some(&name), None, &mut errors);
            }
        }
        ("", "Namespace") => {}
        _ => rules(group, kind, new, &mut errors),
    }
    errors
}

fn rules(group: &str, kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    match (group, kind) {
        ("", "Node") => node(object, errors),
        ("", "PodTemplate") => {
            pod::template(&Path::new("template"), object.at("template").unwrap_or(&Value::Null), errors);
        }
        ("", "ResourceQuota") => quota::check(object, errors),
        ("policy", "PodDisruptionBudget") => budget(object, errors),
        ("scheduling.k8s.io", "PriorityClass") => priority_class(object, errors),
        ("node.k8s.io", "RuntimeClass") => runtime_class(object, errors),
        ("storage.k8s.io", _) => storage::check(kind, object, errors),
        ("", "LimitRange") => limitrange::check(object, errors),
        ("coordination.k8s.io", "Lease") => lease(object, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::check(object, errors),
        _ => {}
    }
}

fn node(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec");
    // Kubernetes' errors for the taints of the spec have the path `metadata`.
    let path = Path::new("metadata");
    scheduling::taints(&path.child("taints"), spec.list("taints"), errors);
    let path = Path::new("spec");
    let list = path.child("podCIDRs");
    for (index, range) in spec.strs("podCIDRs").into_iter().enumerate() {
        cidr(&list.index(index), range, errors);
    }
}

/// Validates an update of a Node: its pod CIDRs and provider id cannot change once they are set.
fn node_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (new, old) = (new.at("spec"), old.at("spec"));
    // `podCIDR` counts as the only range if `podCIDRs` is empty.
    let ranges_of = |spec: Option<&Value>| -> Vec<String> {
        let mut ranges = spec.strs("podCIDRs");
        if ranges.is_empty() && !spec.str("podCIDR").is_empty() {
            ranges.push(spec.str("podCIDR"));
        }
        ranges.into_iter().map(str::to_owned).collect()
    };
    let (ranges, before) = (ranges_of(new), ranges_of(old));
    let changed = match ranges.len() == before.len() {
        true => before.iter().zip(&ranges).filter(|(old, new)| old != new).count(),
        false => usize::from(!before.is_empty()),
    };
    for _ in 0..changed {
        let detail = r#"node updates may not change podCIDR except from "" to valid"#;
        errors.push(FieldError::forbidden("spec.podCIDRs", detail));
    }
    let provider = old.str("providerID");
    if !provider.is_empty() && provider != new.str("providerID") {
        let detail = r#"node updates may not change providerID except from "" to valid"#;
        errors.push(FieldError::forbidden("spec.providerID", detail));
    }
}

fn budget(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let (available, unavailable) = (spec.at("minAvailable"), spec.at("maxUnavailable"));
    if available.is_some() && unavailable.is_some() {
        let field = |name: &str| spec.at(name).map_or("null".to_owned(), go::json);
        let printed = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            field("minAvailable"),
            field("selector"),
            field("maxUnavailable"),
            field("unhealthyPodEvictionPolicy")
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(path, BadValue::Printed(printed), detail));
    }
    for (name, value) in [("minAvailable", available), ("maxUnavailable", unavailable)] {
        int_or_percent(&path.child(name), value, errors);
        at_most_all(&path.child(name), value, errors);
    }
    if let Some(value) = spec.at("selector") {
        errors.extend(selector::validate(&path.child("selector"), value));
    }
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    optional_one_of(spec, &path, "unhealthyPodEvictionPolicy", &policies, errors);
}

fn priority_class(object: &Value, errors: &mut Vec<FieldError>) {
    let name = object.at("metadata").str("name");
    let value = object.int("value").unwrap_or_default();
    let known = matches!(
        (name, value),
        ("system-cluster-critical", 2_000_000_000) | ("system-node-critical", 2_000_001_000)
    );
    if name.starts_with("system-") && !known {
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
        );
        errors.push(FieldError::forbidden("metadata.name", detail));
    } else if value > PRIORITY_MAX && !known {
        let detail = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        errors.push(FieldError::forbidden("value", detail));
    }
    if let Some(policy) = object.at("preemptionPolicy").and_then(Value::as_str)
        && !matches!(policy, "PreemptLowerPriority" | "Never")
    {
        let printed = BadValue::Printed(Value::from(policy).to_string());
        errors.push(FieldError::not_supported(
            "preemptionPolicy",
            printed,
            &["PreemptLowerPriority", "Never"],
        ));
    }
}

fn handler(object: &Value, errors: &mut Vec<FieldError>) {
    match object.str("handler") {
        "" => errors.push(FieldError::required("handler", "")),
        name => super::field_rules::named(&Path::new("handler"), name, names::dns1123_label(name), errors),
    }
}

fn runtime_class(object: &Value, errors: &mut Vec<FieldError>) {
    handler(object, errors);
    let path = Path::new("overhead");
    let limits = path.child("limits");
    for (name, value) in object.at("overhead").at("podFixed").and_then(Value::as_object).into_iter().flatten()
    {
        let at = limits.key(name);
        container_resource_name(&at, name, errors);
        if let Ok(quantity) = Quantity::from_json(value) {
            resource_value(&at, name, &quantity, errors);
        }
    }
}

fn lease(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            path.child("leaseDurationSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    non_negative(spec, &path, "leaseTransitions", errors);
}
