//! Kinds with few rules: Nodes, PodDisruptionBudgets, PriorityClasses, RuntimeClasses, Leases and PodTemplates.

use evenkeel_scalars::{formats, go};

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
        ("", "Node") if subresource == "status" => node_update(new, old, &mut errors),
        ("", "Namespace") if subresource == "status" => namespace_phase(new, &mut errors),
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
            // Kubernetes runs the rules of creation before those of an update, so that common errors occur twice.
            let mut errors = create(group, kind, new, false);
            errors.extend(object_meta::update_builtin(new, old));
            node_update(new, old, &mut errors);
            return errors;
        }
        ("", "ResourceQuota") => quota::update(new, old, &mut errors),
        ("node.k8s.io", "RuntimeClass") => {
            handler(new, &mut errors);
            let name = Value::from(new.str("handler"));
            if new.at("handler") != old.at("handler") {
                immutable(&Path::new("handler"), Some(&name), None, &mut errors);
            }
        }
        ("", "Namespace") if subresource == "finalize" => {
            let path = Path::new("spec");
            let list = path.child("finalizers");
            for (index, name) in new.at("spec").strs("finalizers").into_iter().enumerate() {
                object_meta::finalizer(&list.index(index), name, &mut errors);
            }
        }
        ("", "Namespace") => {}
        _ => rules(group, kind, new, &mut errors),
    }
    errors
}

/// Validates that the phase of a Namespace tells whether it is being deleted.
fn namespace_phase(namespace: &Value, errors: &mut Vec<FieldError>) {
    let (expected, when) = match namespace.at("metadata").has("deletionTimestamp") {
        false => ("Active", "is empty"),
        true => ("Terminating", "is not empty"),
    };
    let phase = namespace.at("status").str("phase");
    if phase != expected {
        let detail = format!("may only be '{expected}' if `deletionTimestamp` {when}");
        errors.push(FieldError::invalid("status.Phase", phase, detail));
    }
}

fn rules(group: &str, kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    match (group, kind) {
        ("", "Node") => node(object, errors),
        ("", "Namespace") => {
            let path = Path::new("spec");
            for name in object.at("spec").strs("finalizers") {
                object_meta::finalizer(&path.child("finalizers"), name, errors);
            }
        }
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
    node_resources(object, errors);
    let path = Path::new("spec");
    let list = path.child("podCIDRs");
    let ranges = pod_ranges(spec);
    for (index, range) in ranges.iter().enumerate() {
        cidr(&list.index(index), range, errors);
    }
    let families = ranges.iter().map(|range| family(range));
    let families: Option<Vec<bool>> = families.collect();
    match families {
        _ if ranges.len() < 2 => {}
        Some(families) if matches!(families[..], [first, second] if first != second) => {}
        _ => {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.push(FieldError::invalid(list, Value::from(ranges), detail));
        }
    }
}

/// Validates the amounts of resources in the status of a Node.
fn node_resources(object: &Value, errors: &mut Vec<FieldError>) {
    let status = Path::new("status");
    for field in ["capacity", "allocatable"] {
        let list = status.child(field);
        for (name, value) in object.at("status").at(field).and_then(Value::as_object).into_iter().flatten() {
            if let Ok(quantity) = Quantity::from_json(value) {
                resource_value(&list.child(name), name, &quantity, errors);
            }
        }
    }
}

/// Whether an address range is one of IPv4; `None` if it is malformed.
fn family(range: &str) -> Option<bool> {
    let (address, _) = range.split_once('/').filter(|_| formats::is_cidr(range))?;
    formats::parse_ip(address).map(|address| address.is_ipv4())
}

/// The address ranges of a node's pods. `podCIDR`, the field of old clients, decides if it is not the first of them.
fn pod_ranges(spec: Option<&Value>) -> Vec<String> {
    let mut ranges: Vec<String> = spec.strs("podCIDRs").into_iter().map(str::to_owned).collect();
    let first = spec.str("podCIDR");
    if !first.is_empty() && ranges.first().is_none_or(|range| range != first) {
        ranges = vec![first.to_owned()];
    }
    ranges
}

/// Validates an update of a Node or of its status: its pod CIDRs and provider id cannot change once they are set.
fn node_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    node_resources(new, errors);
    let addresses = new.at("status").list("addresses");
    for (index, address) in
        addresses.iter().enumerate().filter(|(index, it)| addresses[..*index].contains(it))
    {
        let [kind, text] = ["type", "address"].map(|field| Value::from(address.str(field)));
        let printed = BadValue::Printed(format!(r#"{{"Type":{kind},"Address":{text}}}"#));
        errors.push(FieldError::duplicate(Path::new("status").child("addresses").index(index), printed));
    }
    let (new, old) = (new.at("spec"), old.at("spec"));
    let (ranges, before) = (pod_ranges(new), pod_ranges(old));
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
    scheduling::taints(&Path::new("metadata").child("taints"), new.list("taints"), errors);
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
    let Some(scheduling) = object.at("scheduling") else { return };
    let path = Path::new("scheduling");
    let selector = scheduling.at("nodeSelector").unwrap_or(&Value::Null);
    selector::validate_labels(&path.child("nodeSelector"), selector, errors);
    unique_tolerations(&path.child("tolerations"), scheduling.list("tolerations"), errors);
}

/// Validates tolerations of which no two may have the same key, operator, value and effect.
fn unique_tolerations(path: &Path<'_>, tolerations: &[Value], errors: &mut Vec<FieldError>) {
    scheduling::tolerations(path, tolerations, errors);
    let key = |toleration: &Value| {
        ["key", "operator", "value", "effect"].map(|field| toleration.str(field).to_owned())
    };
    let mut seen = Vec::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let key = key(toleration);
        if seen.contains(&key) {
            let [key, operator, value, effect] = key.map(Value::from);
            let seconds = toleration.at("tolerationSeconds").map_or("null".to_owned(), go::json);
            let printed = format!(
                r#"{{"Key":{key},"Operator":{operator},"Value":{value},"Effect":{effect},"TolerationSeconds":{seconds}}}"#
            );
            errors.push(FieldError::duplicate(path.index(index), BadValue::Printed(printed)));
        } else {
            seen.push(key);
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
