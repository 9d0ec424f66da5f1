//! Kinds with few rules: PodDisruptionBudgets, PriorityClasses, RuntimeClasses, Leases and PodTemplates.

use evenkeel_scalars::go;

use super::field_rules::{immutable, non_negative, optional_one_of};
use super::resources::{container_resource_name, resource_value};
use super::workload::{at_most_all, int_or_percent};
use super::{autoscaler, conditions, limitrange, node, pod, quota, scheduling, storage};
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
        ("coordination.k8s.io", "Lease") | ("node.k8s.io", "RuntimeClass") => {
            object_meta::create(object, namespaced, NameRule::of(group, kind))
        }
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
    let mut errors = match (group, kind) {
        ("policy", "PodDisruptionBudget") => Vec::new(),
        ("coordination.k8s.io", "Lease") => object_meta::update(new, old),
        _ => object_meta::update_builtin(new, old),
    };
    if subresource == "status" {
        update_status(group, kind, new, old, &mut errors);
        return errors;
    }
    match (group, kind) {
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
            // Kubernetes applies the rules of creation before those of an update, so common errors occur twice.
            let mut errors = create(group, kind, new, false);
            errors.extend(object_meta::update_builtin(new, old));
            node::update(new, old, &mut errors);
            return errors;
        }
        ("", "ResourceQuota") => quota::update(new, old, &mut errors),
        ("node.k8s.io", "RuntimeClass") => {
            let mut errors = create(group, kind, new, false);
            errors.extend(object_meta::update(new, old));
            let name = Value::from(new.str("handler"));
            if new.at("handler") != old.at("handler") {
                immutable(&Path::new("handler"), Some(&name), None, &mut errors);
            }
            return errors;
        }
        ("", "Namespace") if subresource == "finalize" => {
            let path = Path::new("spec");
            let list = path.child("finalizers");
            for (index, name) in new.at("spec").strs("finalizers").into_iter().enumerate() {
                object_meta::finalizer(&list.index(index), name, &mut errors);
            }
        }
        ("", "Namespace") => {
            let mut errors = create(group, kind, new, false);
            errors.extend(object_meta::update_builtin(new, old));
            return errors;
        }
        ("", "LimitRange") => return create(group, kind, new, true),
        ("", "ServiceAccount") => errors.extend(create(group, kind, new, true)),
        ("apps", "ControllerRevision") => {
            errors.extend(object_meta::create_builtin(new, true, NameRule::Subdomain));
            non_negative(new, &Path::ROOT, "revision", &mut errors);
            if new.at("data") != old.at("data") {
                let shown = BadValue::Printed(go::json(new.at("data").unwrap_or(&Value::Null)));
                errors.push(FieldError::invalid("data", shown, super::field_rules::IMMUTABLE));
            }
        }
        _ => rules(group, kind, new, &mut errors),
    }
    errors
}

fn update_status(group: &str, kind: &str, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    match (group, kind) {
        ("policy", "PodDisruptionBudget") => budget_status(new, errors),
        ("", "ResourceQuota") => quota::status(new, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::status(new, errors),
        ("", "Node") => node::update(new, old, errors),
        ("", "Namespace") => namespace_phase(new, errors),
        _ => {}
    }
}

/// Validates that the phase of a Namespace agrees with its deletion timestamp.
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
        ("", "Node") => node::create(object, errors),
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
        ("apps", "ControllerRevision") => {
            non_negative(object, &Path::ROOT, "revision", errors);
            match object.at("data") {
                None => errors.push(FieldError::required("data", "data is mandatory")),
                Some(Value::Object(_)) => {}
                Some(_) => errors.push(FieldError::required("data", "data must be a valid JSON object")),
            }
        }
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

/// Validates the status of a PodDisruptionBudget.
fn budget_status(object: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status");
    let status = object.at("status").unwrap_or(&Value::Null);
    conditions::check(&path.child("conditions"), status.list("conditions"), errors);
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        non_negative(status, &path, field, errors);
    }
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
        if policy.is_empty() {
            errors.push(FieldError::required("preemptionPolicy", ""));
            return;
        }
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

/// Validates tolerations, which must differ in key, operator, value or effect.
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
