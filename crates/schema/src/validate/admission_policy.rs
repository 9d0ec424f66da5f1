//! Admission policies and their bindings: what they match, their parameters, and their expressions.

use super::field_rules::{named, qualified, subdomain, supported};
use super::webhook::{FAILURE, MATCH, conditions, expression, rule_with_operations};
use crate::admission::{Environment, Expected};
use crate::api_resources::split_api_version;
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;
use crate::selector;

/// The operations that a mutating policy may match: all but `DELETE`.
const MUTABLE: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
const ANNOTATION_BYTES_MAX: usize = 5 * 1024;

pub(super) fn rules(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec").unwrap_or(&Value::Null);
    match kind {
        "ValidatingAdmissionPolicy" => {
            policy(spec, errors);
            validations(object, spec, errors);
        }
        "MutatingAdmissionPolicy" => {
            policy(spec, errors);
            mutations(spec, errors);
        }
        "ValidatingAdmissionPolicyBinding" => {
            binding(spec, errors);
            actions(&Path::new("spec").child("validationActions"), &spec.strs("validationActions"), errors);
        }
        "MutatingAdmissionPolicyBinding" => {
            binding(spec, errors);
            mutable_operations("spec.matchResources", spec.at("matchResources"), errors);
        }
        _ => {}
    }
}

/// Validates the results of type checking in a status.
pub(super) fn type_checking(path: &Path<'_>, status: Option<&Value>, errors: &mut Vec<FieldError>) {
    let list = path.child("expressionWarnings");
    for (index, warning) in status.at("typeChecking").list("expressionWarnings").iter().enumerate() {
        let at = list.index(index);
        for field in ["warning", "fieldRef"] {
            if warning.str(field).trim().is_empty() {
                errors.push(FieldError::required(at.child(field), ""));
            }
        }
    }
}

/// Validates the fields that validating and mutating policies share.
fn policy(spec: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    match spec.str("failurePolicy") {
        "" if !spec.has("failurePolicy") => {
            errors.push(FieldError::required(path.child("failurePolicy"), ""))
        }
        policy => supported(&path.child("failurePolicy"), policy, &FAILURE, errors),
    }
    if let Some(kind) = spec.at("paramKind") {
        param_kind(&path.child("paramKind"), kind, errors);
    }
    let constraints = path.child("matchConstraints");
    match spec.at("matchConstraints") {
        None => errors.push(FieldError::required(constraints, "")),
        Some(resources) => {
            match_resources(&constraints, resources, errors);
            if resources.list("resourceRules").is_empty() {
                errors.push(FieldError::required(constraints.child("resourceRules"), ""));
            }
            if spec.has("mutations") || spec.has("reinvocationPolicy") {
                mutable_operations("spec.matchConstraints", Some(resources), errors);
            }
        }
    }
    conditions(&path.child("matchConditions"), spec.list("matchConditions"), spec.has("paramKind"), errors);
    let list = path.child("variables");
    let mut environment = Environment::of_policy(spec.has("paramKind"), !spec.list("variables").is_empty());
    for (index, variable) in spec.list("variables").iter().enumerate() {
        let path = list.index(index);
        let name = variable.str("name");
        if name.trim().is_empty() {
            errors.push(FieldError::required(path.child("name"), "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(FieldError::invalid(path.child("name"), name, "must be a valid CEL identifier"));
        }
        let text = variable.str("expression");
        let at = path.child("expression");
        match text.trim() {
            "" => errors.push(FieldError::required(at, "expression is not specified")),
            _ => expression(&at, text, Expected::Anything, &environment, errors),
        }
        environment.define(name, text);
    }
}

/// The variables of the expressions of a policy.
fn environment(spec: &Value) -> Environment {
    let mut environment = Environment::of_policy(spec.has("paramKind"), !spec.list("variables").is_empty());
    for variable in spec.list("variables") {
        environment.define(variable.str("name"), variable.str("expression"));
    }
    environment
}

/// Whether a text is a CEL identifier.
fn is_identifier(name: &str) -> bool {
    const RESERVED: [&str; 21] = [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "namespace",
        "null",
        "package",
        "return",
        "true",
        "var",
        "void",
        "while",
    ];
    let start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    start && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !RESERVED.contains(&name)
}

fn validations(object: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let (validations, audits) = (spec.list("validations"), spec.list("auditAnnotations"));
    if validations.is_empty() && audits.is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(path.child(field), detail));
        }
    }
    let list = path.child("validations");
    for (index, validation) in validations.iter().enumerate() {
        check_validation(&list.index(index), validation, &environment(spec), errors);
    }
    let list = path.child("auditAnnotations");
    let name = object.at("metadata").str("name");
    for (index, audit) in audits.iter().enumerate() {
        let path = list.index(index);
        let key = audit.str("key");
        match name {
            "" => errors.push(FieldError::invalid(
                path.child("key"),
                key,
                "requires metadata.name be non-empty",
            )),
            name => qualified(&path.child("key"), &format!("{name}/{key}"), errors),
        }
        let at = path.child("valueExpression");
        match audit.str("valueExpression").trim() {
            "" => errors.push(FieldError::required(at, "valueExpression is not specified")),
            text if text.len() > ANNOTATION_BYTES_MAX => {
                let detail = format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length");
                errors.push(FieldError::required(at, detail));
            }
            text => expression(&at, text, Expected::StringOrNull, &environment(spec), errors),
        }
        if audits[..index].iter().any(|other| other.str("key") == key) {
            errors.push(FieldError::duplicate(path.child("key"), key));
        }
    }
}

fn mutations(spec: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let list = path.child("mutations");
    if spec.list("mutations").is_empty() {
        errors.push(FieldError::required(list, "mutations must contain at least one item"));
    }
    for (index, mutation) in spec.list("mutations").iter().enumerate() {
        check_mutation(&list.index(index), mutation, &environment(spec), errors);
    }
    match spec.str("reinvocationPolicy") {
        "" => errors.push(FieldError::required(path.child("reinvocationPolicy"), "")),
        policy => supported(&path.child("reinvocationPolicy"), policy, &["IfNeeded", "Never"], errors),
    }
}

fn check_mutation(
    path: &Path<'_>,
    mutation: &Value,
    environment: &Environment,
    errors: &mut Vec<FieldError>,
) {
    let kind = mutation.str("patchType");
    let (own, other, expected) = match kind {
        "" => {
            errors.push(FieldError::required(path.child("patchType"), ""));
            return;
        }
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Expected::JsonPatches),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Expected::Object),
        _ => {
            supported(&path.child("patchType"), kind, &PATCH_TYPES, errors);
            return;
        }
    };
    let at = path.child(own);
    match mutation.at(own) {
        None => errors.push(FieldError::required(at, format!("must be specified when patchType is {kind}"))),
        Some(patch) => match patch.str("expression").trim() {
            "" => errors.push(FieldError::required(at.child("expression"), "")),
            text => expression(&at.child("expression"), text, expected, environment, errors),
        },
    }
    if mutation.has(other) {
        let value = BadValue::Printed(format!("\"{{{other}}}\""));
        let detail = format!("must not be specified when patchType is {kind}");
        errors.push(FieldError::invalid(path.child(other), value, detail));
    }
}

fn mutable_operations(field: &str, resources: Option<&Value>, errors: &mut Vec<FieldError>) {
    let path = format!("{field}.resourceRules.operations");
    for rule in resources.list("resourceRules") {
        for operation in rule.strs("operations").into_iter().filter(|it| !MUTABLE.contains(it)) {
            errors.push(FieldError::not_supported(&path, operation, &MUTABLE));
        }
    }
}

fn param_kind(path: &Path<'_>, kind: &Value, errors: &mut Vec<FieldError>) {
    let at = path.child("apiVersion");
    let version = kind.str("apiVersion");
    match version.matches('/').count() {
        0 if version.is_empty() => errors.push(FieldError::required(at, "")),
        0 | 1 => {
            let (group, own) = split_api_version(version);
            let mut refuse = |value: &str, wrong: Vec<String>| {
                if !wrong.is_empty() {
                    errors.push(FieldError::invalid(at, value, wrong.join(",")));
                }
            };
            if !group.is_empty() {
                refuse(group, names::dns1123_subdomain(group));
            }
            match own {
                "" => refuse(version, vec!["version must be specified".to_owned()]),
                own => refuse(own, names::dns1035_label(own)),
            }
        }
        _ => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(at, version, detail));
        }
    }
    let name = kind.str("kind");
    let wrong = names::dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        errors.push(FieldError::required(path.child("kind"), ""));
    } else if !wrong.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.push(FieldError::invalid(path.child("kind"), name, detail));
    }
}

fn param_ref(path: &Path<'_>, reference: &Value, errors: &mut Vec<FieldError>) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let name = reference.str("name");
    let selected = reference.at("selector");
    if !name.is_empty() {
        named(&path.child("name"), name, names::path_segment(name), errors);
        if selected.is_some() {
            errors.push(FieldError::forbidden(path.child("name"), EXCLUSIVE));
        }
    }
    if let Some(value) = selected {
        errors.extend(selector::validate(&path.child("selector"), value));
        if !name.is_empty() {
            errors.push(FieldError::forbidden(path.child("selector"), EXCLUSIVE));
        }
    }
    if name.is_empty() && selected.is_none() {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    let at = path.child("parameterNotFoundAction");
    match reference.str("parameterNotFoundAction") {
        "" => errors.push(FieldError::required(at, "")),
        "Deny" | "Allow" => {}
        other => errors.push(FieldError::not_supported(at, other, &["Deny", "Allow"])),
    }
}

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

fn check_validation(
    path: &Path<'_>,
    validation: &Value,
    environment: &Environment,
    errors: &mut Vec<FieldError>,
) {
    let text = validation.str("expression");
    match text.trim() {
        "" => errors.push(FieldError::required(path.child("expression"), "expression is not specified")),
        _ => expression(&path.child("expression"), text, Expected::Bool, environment, errors),
    }
    let message = validation.str("messageExpression");
    let at = path.child("messageExpression");
    match message.trim() {
        "" if !message.is_empty() => {
            errors.push(FieldError::invalid(at, message, "must be non-empty if specified"));
        }
        "" => {}
        _ => expression(&at, message, Expected::String, environment, errors),
    }
    let message = validation.str("message");
    let at = path.child("message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(at, message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(FieldError::invalid(at, message, "must not contain line breaks"));
    }
    if validation.has("reason") {
        supported(&path.child("reason"), validation.str("reason"), &REASONS, errors);
    }
}

fn match_resources(path: &Path<'_>, resources: &Value, errors: &mut Vec<FieldError>) {
    match resources.str("matchPolicy") {
        "" if !resources.has("matchPolicy") => {
            errors.push(FieldError::required(path.child("matchPolicy"), ""))
        }
        policy => supported(&path.child("matchPolicy"), policy, &MATCH, errors),
    }
    for field in ["namespaceSelector", "objectSelector"] {
        match resources.at(field) {
            Some(value) => errors.extend(selector::validate(&path.child(field), value)),
            None => errors.push(FieldError::required(path.child(field), "")),
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let list = path.child(field);
        for (index, rule) in resources.list(field).iter().enumerate() {
            let path = list.index(index);
            let given = rule.strs("resourceNames");
            let at = path.child("resourceNames");
            for (index, name) in given.iter().enumerate() {
                named(&at.index(index), name, names::path_segment(name), errors);
                if given[..index].contains(name) {
                    errors.push(FieldError::duplicate(at.index(index), *name));
                }
            }
            rule_with_operations(&path, rule, errors);
        }
    }
}

/// Validates the fields that the bindings of validating and mutating policies share.
fn binding(spec: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    match spec.str("policyName") {
        "" => errors.push(FieldError::required(path.child("policyName"), "")),
        name => subdomain(&path.child("policyName"), name, errors),
    }
    if let Some(reference) = spec.at("paramRef") {
        param_ref(&path.child("paramRef"), reference, errors);
    }
    if let Some(resources) = spec.at("matchResources") {
        match_resources(&path.child("matchResources"), resources, errors);
    }
}

fn actions(list: &Path<'_>, actions: &[&str], errors: &mut Vec<FieldError>) {
    for (index, action) in actions.iter().enumerate() {
        supported(&list.index(index), action, &["Audit", "Deny", "Warn"], errors);
        if actions[..index].contains(action) {
            errors.push(FieldError::duplicate(list.index(index), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(list, Value::from(actions.to_vec()), detail));
    }
    if actions.is_empty() {
        errors.push(FieldError::required(list, "at least one validation action is required"));
    }
}
