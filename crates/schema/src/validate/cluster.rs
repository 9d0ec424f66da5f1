//! Kinds with few rules of their own: nodes, budgets, classes, leases, autoscalers and templates.

use super::field_rules::{immutable, non_negative, one_of, optional_one_of, supported};
use super::metadata::{self, NameRule};
use super::resources::{resource_name, resource_value};
use super::service::cidr;
use super::workload::{at_most_all, int_or_percent};
use super::{pod, quota, scheduling};
use crate::field::{BadValue, FieldError, Path, go_json};
use crate::json::Value;
use crate::names;
use crate::quantity::Quantity;
use crate::read::Read;
use crate::selector;

const PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) fn create(group: &str, kind: &str, object: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = metadata::create_builtin(object, namespaced, NameRule::of(group, kind));
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
    let mut errors = metadata::update_builtin(new, old);
    match (group, kind) {
        _ if subresource == "status" => {}
        ("scheduling.k8s.io", "PriorityClass") => {
            if new.int("value") != old.int("value") {
                errors.push(FieldError::forbidden("value", "may not be changed in an update."));
            }
            let path = Path::new("preemptionPolicy");
            immutable(&path, new.at("preemptionPolicy"), old.at("preemptionPolicy"), &mut errors);
        }
        ("storage.k8s.io", "StorageClass") => {
            let mut both = create(group, kind, new, false);
            storage_class_update(new, old, &mut errors);
            both.append(&mut errors);
            return both;
        }
        ("", "Node") => {
            node(new, &mut errors);
            node_update(new, old, &mut errors);
        }
        ("", "ResourceQuota") => quota::update(new, old, &mut errors),
        ("node.k8s.io", "RuntimeClass") => {
            immutable(&Path::new("handler"), new.at("handler"), old.at("handler"), &mut errors);
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
        ("storage.k8s.io", "StorageClass") => storage_class(object, errors),
        ("coordination.k8s.io", "Lease") => lease(object, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object, errors),
        _ => {}
    }
}

fn node(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec");
    // Kubernetes names the metadata in messages about the taints of the spec.
    let path = Path::new("metadata");
    scheduling::taints(&path.child("taints"), spec.list("taints"), errors);
    let path = Path::new("spec");
    let list = path.child("podCIDRs");
    for (index, range) in spec.strs("podCIDRs").into_iter().enumerate() {
        cidr(&list.index(index), range, errors);
    }
}

/// What identifies a node to its network and its cloud stays once it is set.
fn node_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (new, old) = (new.at("spec"), old.at("spec"));
    // The older field holds the first range where the list is not given.
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
        let field = |name: &str| spec.at(name).map_or("null".to_owned(), go_json);
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

fn runtime_class(object: &Value, errors: &mut Vec<FieldError>) {
    let handler = object.str("handler");
    super::field_rules::named(&Path::new("handler"), handler, names::dns1123_label(handler), errors);
    let path = Path::new("overhead");
    let limits = path.child("limits");
    for (name, value) in object.at("overhead").at("podFixed").and_then(Value::as_object).into_iter().flatten()
    {
        let at = limits.key(name);
        resource_name(&at, name, errors);
        if let Ok(quantity) = Quantity::from_json(value) {
            resource_value(&at, name, &quantity, errors);
        }
    }
}

fn storage_class(object: &Value, errors: &mut Vec<FieldError>) {
    let provisioner = object.str("provisioner");
    match provisioner {
        "" => errors.push(FieldError::required("provisioner", "")),
        name => {
            let wrong = names::qualified_name(&name.to_lowercase());
            super::field_rules::named(&Path::new("provisioner"), name, wrong, errors);
        }
    }
    let policy = object.str("reclaimPolicy");
    if !policy.is_empty() {
        supported(&Path::new("reclaimPolicy"), policy, &["Delete", "Retain"], errors);
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    one_of(&Path::new("volumeBindingMode"), object.str("volumeBindingMode"), &modes, errors);
    let list = Path::new("allowedTopologies");
    for (index, term) in object.list("allowedTopologies").iter().enumerate() {
        let path = list.index(index);
        let expressions = path.child("matchLabelExpressions");
        for (index, expression) in term.list("matchLabelExpressions").iter().enumerate() {
            let path = expressions.index(index);
            if expression.list("values").is_empty() {
                errors.push(FieldError::required(path.child("values"), ""));
            }
            let key = expression.str("key");
            super::field_rules::named(&path.child("key"), key, names::qualified_name(key), errors);
        }
    }
}

fn storage_class_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(&Path::new(field), new.at(field), old.at(field), errors);
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

fn autoscaler(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let minimum = spec.int("minReplicas");
    if let Some(count) = minimum.filter(|count| *count < 1) {
        errors.push(FieldError::invalid(
            path.child("minReplicas"),
            count,
            "must be greater than or equal to 1",
        ));
    }
    let maximum = spec.int("maxReplicas").unwrap_or_default();
    let at = path.child("maxReplicas");
    match maximum {
        0 => errors.push(FieldError::required(at, "must be set and greater than 0")),
        count if count < 0 => {
            errors.push(FieldError::invalid(at, count, "must be greater than or equal to 1"))
        }
        _ => {}
    }
    if minimum.is_some_and(|minimum| maximum < minimum) {
        errors.push(FieldError::invalid(at, maximum, "must be greater than or equal to `minReplicas`"));
    }
    let target = spec.at("scaleTargetRef");
    let path = path.child("scaleTargetRef");
    for field in ["kind", "name"] {
        match target.str(field) {
            "" => errors.push(FieldError::required(path.child(field), "")),
            text => super::field_rules::named(&path.child(field), text, names::path_segment(text), errors),
        }
    }
    let version = target.str("apiVersion");
    let detail = match version.matches('/').count() {
        0 => Some("apiVersion must specify API group".to_owned()),
        1 => None,
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    };
    errors.extend(detail.map(|detail| FieldError::invalid(path.child("apiVersion"), version, detail)));
    metrics(&Path::new("spec.metrics"), spec.list("metrics"), errors);
}

const METRICS: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

fn metrics(list: &Path<'_>, metrics: &[Value], errors: &mut Vec<FieldError>) {
    for (index, metric) in metrics.iter().enumerate() {
        let path = list.index(index);
        let kind = metric.str("type");
        if kind.is_empty() {
            errors.push(FieldError::required(path.child("type"), "must specify a metric source type"));
        }
        supported(&path.child("type"), kind, &METRIC_TYPES, errors);
        let present: Vec<&str> =
            METRICS.iter().map(|(_, field)| *field).filter(|field| metric.has(field)).collect();
        if let Some(first) = present.first() {
            metric_source(&path.child(first), first, metric.at(first).unwrap_or(&Value::Null), errors);
        }
        let expected = METRICS.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
        match expected {
            Some(field) if !metric.has(field) => {
                let detail = "must populate information for the given metric source";
                errors.push(FieldError::required(path.child(field), detail));
            }
            Some(_) => {}
            None => supported(&path.child("type"), kind, &METRIC_TYPES, errors),
        }
        for field in present.iter().filter(|field| present.len() > 1 && Some(**field) != expected) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    }
}

fn metric_source(path: &Path<'_>, kind: &str, source: &Value, errors: &mut Vec<FieldError>) {
    if matches!(kind, "resource" | "containerResource") && source.str("name").is_empty() {
        errors.push(FieldError::required(path.child("name"), "must specify a resource name"));
    }
    let target = source.at("target").unwrap_or(&Value::Null);
    let at = path.child("target");
    let kind_of_target = target.str("type");
    if kind_of_target.is_empty() {
        errors.push(FieldError::required(at.child("type"), "must specify a metric target type"));
    }
    if !matches!(kind_of_target, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(at.child("type"), kind_of_target, detail));
    }
    for field in ["value", "averageValue"] {
        let quantity = target.at(field).and_then(|value| Quantity::from_json(value).ok());
        if let Some(quantity) = quantity.filter(|quantity| *quantity <= Quantity::zero()) {
            let printed = BadValue::Printed(Value::from(quantity.to_string()).to_string());
            errors.push(FieldError::invalid(at.child(field), printed, "must be positive"));
        }
    }
    let utilization = target.int("averageUtilization");
    if let Some(percent) = utilization.filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(at.child("averageUtilization"), percent, "must be greater than 0"));
    }
    if matches!(kind, "resource" | "containerResource") {
        match (utilization.is_some(), target.has("averageValue")) {
            (false, false) => {
                let detail = "must set either a target raw value or a target utilization";
                errors.push(FieldError::required(at.child("averageUtilization"), detail));
            }
            (true, true) => {
                let detail = "may not set both a target raw value and a target utilization";
                errors.push(FieldError::forbidden(at.child("averageValue"), detail));
            }
            _ => {}
        }
    }
}
