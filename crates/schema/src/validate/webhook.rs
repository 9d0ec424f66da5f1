//! Webhook configurations.

use super::field_rules::{named, qualified, supported};
use super::{admission_policy, conditions as status_conditions};
use crate::admission::{self, Environment, Expected};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::object_meta::{self, NameRule};
use crate::read::Read;
use crate::selector;
use crate::webhook_client_config;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
pub(super) const FAILURE: [&str; 2] = ["Fail", "Ignore"];
pub(super) const MATCH: [&str; 2] = ["Equivalent", "Exact"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const CONDITIONS_MAX: usize = 64;

pub(super) fn create(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = object_meta::create(object, false, NameRule::Subdomain);
    rules(kind, object, &mut errors);
    errors
}

pub(super) fn update(kind: &str, new: &Value, subresource: &str) -> Vec<FieldError> {
    if subresource.is_empty() {
        return create(kind, new);
    }
    let mut errors = Vec::new();
    if subresource == "status" {
        let (status, path) = (new.at("status"), Path::new("status"));
        admission_policy::type_checking(&path.child("typeChecking"), status, &mut errors);
        status_conditions::check(&path.child("conditions"), status.list("conditions"), &mut errors);
    }
    errors
}

fn rules(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            webhooks(kind, object.list("webhooks"), errors);
        }
        _ => admission_policy::rules(kind, object, errors),
    }
}

fn webhooks(kind: &str, webhooks: &[Value], errors: &mut Vec<FieldError>) {
    let list = Path::new("webhooks");
    for (index, hook) in webhooks.iter().enumerate() {
        let path = list.index(index);
        webhook(&path, hook, errors);
        if kind == "MutatingWebhookConfiguration" && hook.has("reinvocationPolicy") {
            let at = path.child("reinvocationPolicy");
            supported(&at, hook.str("reinvocationPolicy"), &["IfNeeded", "Never"], errors);
        }
        review_versions(
            &path.child("admissionReviewVersions"),
            &hook.strs("admissionReviewVersions"),
            errors,
        );
        let name = hook.str("name");
        if !name.is_empty() && webhooks[..index].iter().any(|other| other.str("name") == name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
    }
}

fn webhook(path: &Path<'_>, hook: &Value, errors: &mut Vec<FieldError>) {
    full_name(&path.child("name"), hook.str("name"), errors);
    let list = path.child("rules");
    for (index, rule) in hook.list("rules").iter().enumerate() {
        rule_with_operations(&list.index(index), rule, errors);
    }
    for (field, allowed) in [("failurePolicy", FAILURE), ("matchPolicy", MATCH)] {
        if hook.has(field) {
            supported(&path.child(field), hook.str(field), &allowed, errors);
        }
    }
    match hook.at("sideEffects") {
        None => {
            let detail = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
            errors.push(FieldError::required(path.child("sideEffects"), detail));
        }
        Some(_) => supported(&path.child("sideEffects"), hook.str("sideEffects"), &SIDE_EFFECTS, errors),
    }
    if let Some(seconds) = hook.int("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(path.child("timeoutSeconds"), seconds, detail));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(value) = hook.at(field) {
            errors.extend(selector::validate(&path.child(field), value));
        }
    }
    webhook_client_config::validate(
        &path.child("clientConfig"),
        hook.at("clientConfig").unwrap_or(&Value::Null),
        errors,
    );
    conditions(&path.child("matchConditions"), hook.list("matchConditions"), false, errors);
}

fn full_name(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let wrong = names::dns1123_subdomain(name);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(path, name, wrong.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

fn review_versions(path: &Path<'_>, versions: &[&str], errors: &mut Vec<FieldError>) {
    if versions.is_empty() {
        errors.push(FieldError::required(path, "must specify one of v1, v1beta1"));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        match versions[..index].contains(version) {
            true => errors.push(FieldError::invalid(path.index(index), *version, "duplicate version")),
            false => named(&path.index(index), version, names::dns1035_label(version), errors),
        }
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(path, Value::from(versions.to_vec()), detail));
    }
}

pub(super) fn rule_with_operations(path: &Path<'_>, rule: &Value, errors: &mut Vec<FieldError>) {
    let operations = rule.strs("operations");
    let at = path.child("operations");
    stars(&at, &operations, "operations", errors);
    for (index, operation) in operations.iter().enumerate() {
        supported(&at.index(index), operation, &OPERATIONS, errors);
    }
    stars(&path.child("apiGroups"), &rule.strs("apiGroups"), "API groups", errors);
    let versions = rule.strs("apiVersions");
    let at = path.child("apiVersions");
    stars(&at, &versions, "API versions", errors);
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| version.is_empty()) {
        errors.push(FieldError::required(at.index(index), ""));
    }
    resources(&path.child("resources"), &rule.strs("resources"), errors);
    if rule.has("scope") {
        supported(&path.child("scope"), rule.str("scope"), &["*", "Cluster", "Namespaced"], errors);
    }
}

/// Validates a list that must not be empty, and that has no other item beside `*`.
fn stars(path: &Path<'_>, given: &[&str], what: &str, errors: &mut Vec<FieldError>) {
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if given.len() > 1 && given.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path, Value::from(given.to_vec()), detail));
    }
}

fn resources(path: &Path<'_>, given: &[&str], errors: &mut Vec<FieldError>) {
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let mut plain = false;
    for (index, name) in given.iter().enumerate() {
        let Some((resource, part)) = name.split_once('/') else {
            match name.is_empty() {
                true => errors.push(FieldError::required(path.index(index), "")),
                false => plain = *name != "*",
            }
            continue;
        };
        let before = &given[..index];
        if before.contains(&format!("{resource}/*").as_str()) {
            let detail = format!("if '{resource}/*' is present, must not specify {name}");
            errors.push(FieldError::invalid(path.index(index), *name, detail));
        }
        if before.contains(&format!("*/{part}").as_str()) {
            let detail = format!("if '*/{part}' is present, must not specify {name}");
            errors.push(FieldError::invalid(path.index(index), *name, detail));
        }
    }
    let shown = || Value::from(given.to_vec());
    if given.len() > 1 && given.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, shown(), detail));
    }
    if given.contains(&"*") && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, shown(), detail));
    }
}

pub(super) fn conditions(list: &Path<'_>, conditions: &[Value], params: bool, errors: &mut Vec<FieldError>) {
    let environment = Environment::of_conditions(params);
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(list, conditions.len(), CONDITIONS_MAX));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let path = list.index(index);
        match condition.str("expression").trim() {
            "" => errors.push(FieldError::required(path.child("expression"), "")),
            text => expression(&path.child("expression"), text, Expected::Bool, &environment, errors),
        }
        let name = condition.str("name");
        match name {
            "" => errors.push(FieldError::required(path.child("name"), "")),
            name => qualified(&path.child("name"), name, errors),
        }
        if !name.is_empty() && conditions[..index].iter().any(|other| other.str("name") == name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
    }
}

/// Validates an expression, which must compile and evaluate to the expected type.
pub(super) fn expression(
    path: &Path<'_>,
    text: &str,
    expected: Expected,
    environment: &Environment,
    errors: &mut Vec<FieldError>,
) {
    if let Err(problem) = admission::check_expression(text, environment, expected) {
        errors.push(FieldError::invalid(path, text, problem));
    }
}
