//! HorizontalPodAutoscalers.

use super::field_rules::{label, named, non_negative, supported};
use super::resources::container_resource_name;
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::quantity::Quantity;
use crate::read::Read;

const WINDOW_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;

/// The metric sources in the order of their validation: type and field.
const METRICS: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(super) fn check(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    replicas(&path, spec, errors);
    let target = spec.at("scaleTargetRef").unwrap_or(&Value::Null);
    reference(&path.child("scaleTargetRef"), target, false, errors);
    // In `v1`, the one metric is a field of its own. Kubernetes validates it as the metric of `v2` that it stands for.
    if let Some(percent) = spec.int("targetCPUUtilizationPercentage").filter(|percent| *percent < 1) {
        let field = "spec.metrics[0].resource.target.averageUtilization";
        errors.push(FieldError::invalid(field, percent, "must be greater than 0"));
    }
    let list = path.child("metrics");
    metrics(&list, spec.list("metrics"), errors);
    let from_outside = |metric: &Value| matches!(metric.str("type"), "Object" | "External");
    if spec.int("minReplicas") == Some(0) && !spec.list("metrics").iter().any(from_outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(list, detail));
    }
    let behavior = path.child("behavior");
    for field in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.at("behavior").at(field) {
            scaling(&behavior.child(field), rules, errors);
        }
    }
}

/// Validates the status.
pub(super) fn status(object: &Value, errors: &mut Vec<FieldError>) {
    let status = object.at("status").unwrap_or(&Value::Null);
    let path = Path::new("status");
    for field in ["currentReplicas", "desiredReplicas"] {
        non_negative(status, &path, field, errors);
    }
}

fn replicas(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let minimum = spec.int("minReplicas");
    if let Some(count) = minimum.filter(|count| *count < 1) {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(path.child("minReplicas"), count, detail));
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
}

/// Validates a reference to an object. With `core`, it may be of the core group.
fn reference(path: &Path<'_>, target: &Value, core: bool, errors: &mut Vec<FieldError>) {
    for field in ["kind", "name"] {
        match target.str(field) {
            "" => errors.push(FieldError::required(path.child(field), "")),
            text => named(&path.child(field), text, names::path_segment(text), errors),
        }
    }
    let version = target.str("apiVersion");
    let detail = match version.matches('/').count() {
        0 if !core => Some("apiVersion must specify API group".to_owned()),
        0 | 1 => None,
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    };
    errors.extend(detail.map(|detail| FieldError::invalid(path.child("apiVersion"), version, detail)));
}

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
            source(&path.child(first), first, metric.at(first).unwrap_or(&Value::Null), errors);
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

fn source(path: &Path<'_>, kind: &str, source: &Value, errors: &mut Vec<FieldError>) {
    match kind {
        "object" => {
            let described = source.at("describedObject").unwrap_or(&Value::Null);
            reference(&path.child("describedObject"), described, true, errors);
            metric_name(&path.child("metric"), source, errors);
        }
        "external" | "pods" => metric_name(&path.child("metric"), source, errors),
        "resource" => {
            if source.str("name").is_empty() {
                errors.push(FieldError::required(path.child("name"), "must specify a resource name"));
            }
        }
        _ => container_source(path, source, errors),
    }
    let target = source.at("target").unwrap_or(&Value::Null);
    let at = path.child("target");
    target_values(&at, target, errors);
    required_values(&at, kind, target, errors);
}

fn metric_name(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    match source.at("metric").str("name") {
        "" => errors.push(FieldError::required(path.child("name"), "must specify a metric name")),
        name => named(&path.child("name"), name, names::path_segment(name), errors),
    }
}

fn container_source(path: &Path<'_>, source: &Value, errors: &mut Vec<FieldError>) {
    match source.str("name") {
        "" => errors.push(FieldError::required(path.child("name"), "must specify a resource name")),
        name => container_resource_name(&path.child("name"), name, errors),
    }
    match source.str("container") {
        "" => errors.push(FieldError::required(path.child("container"), "must specify a container")),
        name => label(&path.child("container"), name, errors),
    }
}

fn target_values(at: &Path<'_>, target: &Value, errors: &mut Vec<FieldError>) {
    let kind = target.str("type");
    if kind.is_empty() {
        errors.push(FieldError::required(at.child("type"), "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(at.child("type"), kind, detail));
    }
    for field in ["value", "averageValue"] {
        let quantity = target.at(field).and_then(|value| Quantity::from_json(value).ok());
        if let Some(quantity) = quantity.filter(|quantity| *quantity <= Quantity::zero()) {
            let printed = BadValue::Printed(Value::from(quantity.to_string()).to_string());
            errors.push(FieldError::invalid(at.child(field), printed, "must be positive"));
        }
    }
    if let Some(percent) = target.int("averageUtilization").filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(at.child("averageUtilization"), percent, "must be greater than 0"));
    }
}

/// Validates which values a metric target must have, and which exclude each other.
fn required_values(at: &Path<'_>, kind: &str, target: &Value, errors: &mut Vec<FieldError>) {
    let (value, average) = (target.has("value"), target.has("averageValue"));
    let missing = |field: &str, detail: &str| FieldError::required(at.child(field), detail);
    match kind {
        "object" if !value && !average => {
            errors.push(missing("averageValue", "must set either a target value or averageValue"));
        }
        "external" if !value && !average => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.push(missing("averageValue", detail));
        }
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(at.child("value"), detail));
        }
        "pods" if !average => {
            errors.push(missing("averageValue", "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" => match (target.has("averageUtilization"), average) {
            (false, false) => {
                let detail = "must set either a target raw value or a target utilization";
                errors.push(missing("averageUtilization", detail));
            }
            (true, true) => {
                let detail = "may not set both a target raw value and a target utilization";
                errors.push(FieldError::forbidden(at.child("averageValue"), detail));
            }
            _ => {}
        },
        _ => {}
    }
}

fn scaling(path: &Path<'_>, rules: &Value, errors: &mut Vec<FieldError>) {
    let at = path.child("stabilizationWindowSeconds");
    match rules.int("stabilizationWindowSeconds") {
        Some(seconds) if seconds < 0 => {
            errors.push(FieldError::invalid(at, seconds, "must be greater than or equal to zero"));
        }
        Some(seconds) if seconds > WINDOW_SECONDS_MAX => {
            let detail = format!("must be less than or equal to {WINDOW_SECONDS_MAX}");
            errors.push(FieldError::invalid(at, seconds, detail));
        }
        _ => {}
    }
    if rules.has("selectPolicy") {
        let policy = rules.str("selectPolicy");
        supported(&path.child("selectPolicy"), policy, &["Disabled", "Max", "Min"], errors);
    }
    let list = path.child("policies");
    if rules.list("policies").is_empty() {
        errors.push(FieldError::required(list, "must specify at least one Policy"));
    }
    for (index, policy) in rules.list("policies").iter().enumerate() {
        let path = list.index(index);
        supported(&path.child("type"), policy.str("type"), &["Percent", "Pods"], errors);
        for field in ["value", "periodSeconds"] {
            let number = policy.int(field).unwrap_or_default();
            if number <= 0 {
                errors.push(FieldError::invalid(path.child(field), number, "must be greater than zero"));
            }
        }
        if let Some(seconds) = policy.int("periodSeconds").filter(|seconds| *seconds > PERIOD_SECONDS_MAX) {
            let detail = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
            errors.push(FieldError::invalid(path.child("periodSeconds"), seconds, detail));
        }
    }
    let tolerance = rules.at("tolerance").and_then(|value| Quantity::from_json(value).ok());
    if let Some(tolerance) = tolerance.filter(Quantity::is_negative) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.child("tolerance"), tolerance.to_string(), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn errors(spec: Value) -> Vec<String> {
        let mut spec = spec;
        spec["maxReplicas"] = json!(3);
        spec["scaleTargetRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let mut errors = Vec::new();
        check(&json!({"spec": spec}), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn metrics_say_what_they_measure() {
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": ""},
            "target": {"type": "AverageValue"}}});
        assert_eq!(
            errors(json!({"metrics": [pods]})),
            [
                "spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
                "spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue"
            ]
        );
        let object = json!({"type": "Object", "object": {"metric": {"name": "m"},
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
            "target": {"type": "Value", "value": "1"}}});
        assert_eq!(errors(json!({"metrics": [object]})), Vec::<String>::new());
    }

    #[test]
    fn scaling_has_policies_within_bounds() {
        let behavior = json!({"scaleUp": {"policies": [], "stabilizationWindowSeconds": 3601},
            "scaleDown": {"selectPolicy": "Best", "policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]}});
        assert_eq!(
            errors(json!({"behavior": behavior})),
            [
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy",
                "spec.behavior.scaleDown.selectPolicy: Unsupported value: \"Best\": supported values: \"Disabled\", \"Max\", \"Min\"",
                "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800"
            ]
        );
    }
}
