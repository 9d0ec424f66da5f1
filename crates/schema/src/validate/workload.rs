//! Workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers.

mod stateful_set;

use evenkeel_scalars::go;

use stateful_set::{stateful_set, stateful_set_update};

use super::field_rules::{IMMUTABLE, non_negative, supported};
use super::pod;
use crate::field::{BadValue, FieldError, Path};
use crate::int_or_string::IntOrString;
use crate::internal_structs;
use crate::json::{Map, Value};
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::selector::{self, LabelSelector};

const MISMATCH: &str = "`selector` does not match template `labels`";

/// Validates a new object.
pub(super) fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let rule = if kind == "StatefulSet" { NameRule::Label } else { NameRule::Subdomain };
    let mut errors = object_meta::create_builtin(object, true, rule);
    spec(kind, object, None, &mut errors);
    errors
}

/// Validates an update.
pub(super) fn update(kind: &str, new: &Value, old: &Value, subresource: &str) -> Vec<FieldError> {
    let mut errors = object_meta::update_builtin(new, old);
    if subresource == "status" {
        status(kind, new, old, &mut errors);
        return errors;
    }
    let path = Path::new("spec");
    let selectors = (new.at("spec").at("selector"), old.at("spec").at("selector"));
    if kind == "DaemonSet" {
        fixed_selector(&path.child("selector"), selectors.0, selectors.1, &mut errors);
    }
    spec(kind, new, Some(old), &mut errors);
    match kind {
        "DaemonSet" => {}
        "StatefulSet" => stateful_set_update(&path, new, old, &mut errors),
        "ReplicationController" => {}
        _ => fixed_selector(&path.child("selector"), selectors.0, selectors.1, &mut errors),
    }
    errors
}

/// Validates that an update does not change the selector.
fn fixed_selector(path: &Path<'_>, new: Option<&Value>, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if new != old {
        let shown = internal_structs::bad_value("*meta.LabelSelector", new);
        errors.push(FieldError::invalid(path, shown, IMMUTABLE));
    }
}

fn spec(kind: &str, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let spec = object.at("spec").unwrap_or(&Value::Null);
    match kind {
        "Deployment" => deployment(&path, spec, errors),
        "ReplicaSet" => {
            non_negative(spec, &path, "replicas", errors);
            non_negative(spec, &path, "minReadySeconds", errors);
            selected_template(&path, spec, "deployment", errors);
        }
        "StatefulSet" => stateful_set(&path, spec, old, errors),
        "DaemonSet" => daemon_set(&path, spec, errors),
        _ => replication_controller(&path, spec, errors),
    }
}

/// Validates the selector, and the template that it must match.
fn selected_template(path: &Path<'_>, spec: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    check_selector(path, spec, kind, errors);
    let template = spec.at("template").unwrap_or(&Value::Null);
    let at = path.child("template");
    if !matching(&at, spec, template, "invalid label selector", errors) {
        return;
    }
    pod::template(&at, template, errors);
    always_restarts(&at, template, "ReplicaSet", errors);
}

fn check_selector(path: &Path<'_>, spec: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let at = path.child("selector");
    let Some(selector) = spec.at("selector") else {
        errors.push(FieldError::required(at, ""));
        return;
    };
    errors.extend(selector::validate(&at, selector));
    let empty =
        selector.map("matchLabels").is_none_or(Map::is_empty) && selector.list("matchExpressions").is_empty();
    if empty {
        let shown = internal_structs::bad_value("*meta.LabelSelector", Some(selector));
        errors.push(FieldError::invalid(at, shown, format!("empty selector is invalid for {kind}")));
    }
}

/// Validates that the selector matches the template. Returns whether the selector is valid.
fn matching(
    path: &Path<'_>,
    spec: &Value,
    template: &Value,
    unreadable: &str,
    errors: &mut Vec<FieldError>,
) -> bool {
    let labels = template.at("metadata").at("labels");
    let Ok(selector) = LabelSelector::from_object(spec.at("selector").unwrap_or(&Value::Null)) else {
        let shown = internal_structs::bad_value("*meta.LabelSelector", spec.at("selector"));
        let field = path.to_string().replace(".template", ".selector");
        errors.push(FieldError::invalid(field, shown, unreadable));
        return false;
    };
    if !selector.is_everything() && !selector.matches(|key| labels.at(key).and_then(Value::as_str)) {
        let shown = labels.cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path.child("metadata.labels"), shown, MISMATCH));
    }
    true
}

fn always_restarts(path: &Path<'_>, template: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let path = path.child("spec");
    supported(&path.child("restartPolicy"), template.at("spec").str("restartPolicy"), &["Always"], errors);
    if template.at("spec").has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(path.child("activeDeadlineSeconds"), detail));
    }
}

fn deployment(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    non_negative(spec, path, "replicas", errors);
    selected_template(path, spec, "deployment", errors);
    deployment_strategy(&path.child("strategy"), spec.at("strategy").unwrap_or(&Value::Null), errors);
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        non_negative(spec, path, field, errors);
    }
    let deadline = spec.int("progressDeadlineSeconds");
    if let Some(seconds) =
        deadline.filter(|seconds| *seconds <= spec.int("minReadySeconds").unwrap_or_default())
    {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(path.child("progressDeadlineSeconds"), seconds, detail));
    }
}

/// Prints a strategy as Go prints its struct.
fn print_strategy(strategy: &Value) -> BadValue {
    let kind = Value::from(strategy.str("type"));
    let rolling = strategy.at("rollingUpdate").map_or("null".to_owned(), rolling_text);
    BadValue::Printed(format!("{{\"Type\":{kind},\"RollingUpdate\":{rolling}}}"))
}

/// Prints the bounds of a rolling update as Go prints their struct.
fn print_rolling(rolling: &Value) -> BadValue {
    BadValue::Printed(rolling_text(rolling))
}

fn rolling_text(rolling: &Value) -> String {
    let field = |name: &str| rolling.at(name).map_or("null".to_owned(), go::json);
    match rolling.has("partition") {
        true => {
            format!("{{\"Partition\":{},\"MaxUnavailable\":{}}}", field("partition"), field("maxUnavailable"))
        }
        false => {
            format!("{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}", field("maxUnavailable"), field("maxSurge"))
        }
    }
}

fn deployment_strategy(path: &Path<'_>, strategy: &Value, errors: &mut Vec<FieldError>) {
    let rolling = strategy.at("rollingUpdate");
    let at = path.child("rollingUpdate");
    match strategy.str("type") {
        "Recreate" => {
            if rolling.is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden(at, detail));
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            int_or_percent(&at.child("maxUnavailable"), unavailable, errors);
            int_or_percent(&at.child("maxSurge"), surge, errors);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                let shown = unavailable.cloned().unwrap_or(Value::from(0));
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(at.child("maxUnavailable"), shown, detail));
            }
            at_most_all(&at.child("maxUnavailable"), unavailable, errors);
        }
        _ => errors.push(FieldError::not_supported(
            path,
            print_strategy(strategy),
            &["Recreate", "RollingUpdate"],
        )),
    }
}

/// Validates a number that is not negative, or a percentage.
pub(super) fn int_or_percent(path: &Path<'_>, value: Option<&Value>, errors: &mut Vec<FieldError>) {
    match value {
        Some(Value::String(text)) => super::field_rules::named(path, text, names::percent(text), errors),
        Some(Value::Number(number)) if number.as_i64().is_some_and(|number| number < 0) => {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(path, number.as_i64().unwrap_or_default(), detail));
        }
        _ => {}
    }
}

fn amount(value: Option<&Value>) -> i32 {
    match value.and_then(IntOrString::from_json) {
        Some(IntOrString::Int(number)) => number,
        Some(percent) => percent.percent().unwrap_or_default(),
        None => 0,
    }
}

pub(super) fn at_most_all(path: &Path<'_>, value: Option<&Value>, errors: &mut Vec<FieldError>) {
    let percent = value.and_then(IntOrString::from_json).and_then(|value| value.percent());
    if let (Some(value), true) = (value, percent.is_some_and(|percent| percent > 100)) {
        errors.push(FieldError::invalid(path, value, "must not be greater than 100%"));
    }
}

fn daemon_set(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    check_selector_only(path, spec, errors);
    let template = spec.at("template").unwrap_or(&Value::Null);
    let at = path.child("template");
    if let Ok(selector) = LabelSelector::from_object(spec.at("selector").unwrap_or(&Value::Null)) {
        let labels = template.at("metadata").at("labels");
        if !selector.is_everything() && !selector.matches(|key| labels.at(key).and_then(Value::as_str)) {
            let shown = labels.cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(at.child("metadata.labels"), shown, MISMATCH));
        }
    }
    if spec.at("selector").is_some_and(is_empty_selector) {
        // Go omits the empty maps and lists of a selector.
        let shown = Value::Object(Map::new());
        errors.push(FieldError::invalid(
            path.child("selector"),
            shown,
            "empty selector is invalid for daemonset",
        ));
    }
    pod::template(&at, template, errors);
    let pod_path = at.child("spec");
    supported(
        &pod_path.child("restartPolicy"),
        template.at("spec").str("restartPolicy"),
        &["Always"],
        errors,
    );
    if template.at("spec").has("activeDeadlineSeconds") {
        let detail = "activeDeadlineSeconds in DaemonSet is not Supported";
        errors.push(FieldError::forbidden(pod_path.child("activeDeadlineSeconds"), detail));
    }
    non_negative(spec, path, "minReadySeconds", errors);
    daemon_strategy(&path.child("updateStrategy"), spec.at("updateStrategy").unwrap_or(&Value::Null), errors);
    non_negative(spec, path, "revisionHistoryLimit", errors);
}

fn is_empty_selector(selector: &Value) -> bool {
    selector.map("matchLabels").is_none_or(Map::is_empty) && selector.list("matchExpressions").is_empty()
}

fn check_selector_only(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    if let Some(selector) = spec.at("selector") {
        errors.extend(selector::validate(&path.child("selector"), selector));
    }
}

fn daemon_strategy(path: &Path<'_>, strategy: &Value, errors: &mut Vec<FieldError>) {
    match strategy.str("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.at("rollingUpdate");
            let at = path.child("rollingUpdate");
            if rolling.is_none() {
                errors.push(FieldError::required(at, ""));
                return;
            }
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            int_or_percent(&at.child("maxUnavailable"), unavailable, errors);
            at_most_all(&at.child("maxUnavailable"), unavailable, errors);
            int_or_percent(&at.child("maxSurge"), surge, errors);
            at_most_all(&at.child("maxSurge"), surge, errors);
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => {
                    let shown = surge.cloned().unwrap_or(Value::from(0));
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(at.child("maxSurge"), shown, detail));
                }
                (false, false) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(at.child("maxUnavailable"), detail));
                }
                _ => {}
            }
        }
        _ => errors.push(FieldError::not_supported(
            path,
            print_strategy(strategy),
            &["RollingUpdate", "OnDelete"],
        )),
    }
}

fn replication_controller(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    non_negative(spec, path, "minReadySeconds", errors);
    let selected = spec.pairs("selector");
    if selected.is_empty() {
        errors.push(FieldError::required(path.child("selector"), ""));
    }
    non_negative(spec, path, "replicas", errors);
    let at = path.child("template");
    let Some(template) = spec.at("template") else {
        errors.push(FieldError::required(at, ""));
        return;
    };
    let labels = template.at("metadata").at("labels");
    if selected.iter().any(|(key, value)| labels.at(key).and_then(Value::as_str) != Some(value)) {
        let shown = labels.cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(at.child("metadata.labels"), shown, MISMATCH));
    }
    pod::template(&at, template, errors);
    always_restarts(&at, template, "ReplicationController", errors);
}

/// Validates the status: its counts must not be negative, nor exceed the number of replicas.
fn status(kind: &str, new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status");
    let Some(status) = new.at("status") else { return };
    let counts: &[&str] = match kind {
        "StatefulSet" => &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        "Deployment" => &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "DaemonSet" => {
            for field in DAEMON_COUNTS {
                non_negative(status, &path, field, errors);
            }
            collisions(&path.child("collisionCount"), status, old, errors);
            return;
        }
        _ => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    };
    for field in ["replicas"].iter().chain(counts).chain(&[
        "observedGeneration",
        "terminatingReplicas",
        "unavailableReplicas",
        "collisionCount",
    ]) {
        non_negative(status, &path, field, errors);
    }
    let count = |field: &str| status.int(field).unwrap_or_default();
    for field in counts {
        if count(field) > count("replicas") {
            let detail = "cannot be greater than status.replicas";
            errors.push(FieldError::invalid(path.child(field), count(field), detail));
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let name = if kind == "StatefulSet" { "status.readyReplicas" } else { "readyReplicas" };
        let detail = format!("cannot be greater than {name}");
        errors.push(FieldError::invalid(path.child("availableReplicas"), count("availableReplicas"), detail));
    }
    collisions(&path.child("collisionCount"), status, old, errors);
}

/// The counts in a DaemonSet's status.
const DAEMON_COUNTS: [&str; 9] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

/// Validates that the number of hash collisions does not decrease.
fn collisions(path: &Path<'_>, status: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let count = status.int("collisionCount").unwrap_or_default();
    if old.at("status").int("collisionCount").is_some_and(|before| before > count) {
        errors.push(FieldError::invalid(path, count, "cannot be decremented"));
    }
}
