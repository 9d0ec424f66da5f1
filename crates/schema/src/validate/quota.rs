//! ResourceQuotas: the names of their resources, and their scopes.

use evenkeel_scalars::go;

use super::field_rules::IMMUTABLE;
use super::resources::{resource_name, resource_value};
use crate::field::{BadValue, FieldError, Path};
use crate::json::{Map, Value};
use crate::quantity::Quantity;
use crate::read::Read;
use crate::resource_names::{QUOTA_CPU_AND_MEMORY, is_standard_for_quota};

const SCOPES: [&str; 7] = [
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// Validates the spec.
pub(super) fn check(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = object.at("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    amounts(&path.child("hard"), spec.map("hard"), errors);
    scopes(&path.child("scopes"), spec, errors);
    if let Some(selector) = spec.at("scopeSelector") {
        let path = path.child("scopeSelector");
        scope_selector(&path.child("matchExpressions"), spec, selector, errors);
    }
}

/// Validates the status: the names and amounts of its resources.
pub(super) fn status(object: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status");
    for field in ["hard", "used"] {
        amounts(&path.child(field), object.at("status").unwrap_or(&Value::Null).map(field), errors);
    }
}

fn amounts(path: &Path<'_>, amounts: Option<&Map>, errors: &mut Vec<FieldError>) {
    for (name, value) in amounts.into_iter().flatten() {
        let at = path.key(name);
        resource(&at, name, errors);
        if let Ok(quantity) = Quantity::from_json(value) {
            resource_value(&at, name, &quantity, errors);
        }
    }
}

/// Validates an update, which cannot change the scopes.
pub(super) fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    check(new, errors);
    let sorted = |object: &Value| {
        let mut scopes: Vec<String> =
            object.at("spec").strs("scopes").into_iter().map(str::to_owned).collect();
        scopes.sort();
        scopes.dedup();
        scopes
    };
    if sorted(new) != sorted(old) {
        let shown = new.at("spec").at("scopes").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid("spec.scopes", shown, IMMUTABLE));
    }
}

fn resource(path: &Path<'_>, name: &str, errors: &mut Vec<FieldError>) {
    resource_name(path, name, errors);
    if !name.contains('/') && !is_standard_for_quota(name) {
        errors.push(FieldError::invalid(path, name, "must be a standard resource for quota"));
    }
}

/// Whether a scope may restrict a quota for this resource.
fn applies(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => resource == "pods" || QUOTA_CPU_AND_MEMORY.contains(&resource),
        _ => true,
    }
}

/// The resources of a quota that a scope does not support.
fn misfits<'a>(spec: &'a Value, scope: &'a str) -> impl Iterator<Item = &'a str> {
    let names = spec.map("hard").into_iter().flatten().map(|(name, _)| name.as_str());
    names.filter(move |name| is_standard_for_quota(name) && !applies(scope, name))
}

fn scopes(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    let scopes = spec.strs("scopes");
    let shown = || Value::from(scopes.clone());
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.push(FieldError::invalid(path, shown(), "unsupported scope"));
        }
        for _ in misfits(spec, scope) {
            errors.push(FieldError::invalid(path, shown(), "unsupported scope applied to resource"));
        }
    }
    for _ in CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))) {
        errors.push(FieldError::invalid(path, shown(), "conflicting scopes"));
    }
}

fn scope_selector(path: &Path<'_>, spec: &Value, selector: &Value, errors: &mut Vec<FieldError>) {
    let expressions = selector.list("matchExpressions");
    for expression in expressions {
        let scope = expression.str("scopeName");
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(path.child("scopeName"), scope, "unsupported scope"));
        }
        for _ in misfits(spec, scope) {
            let detail = "unsupported scope applied to resource";
            errors.push(FieldError::invalid(path, print(expressions), detail));
        }
        requirement(path, scope, expression, errors);
    }
    let names: Vec<&str> = expressions.iter().map(|expression| expression.str("scopeName")).collect();
    for _ in CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| names.contains(scope))) {
        let shown = spec.at("scopes").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path, shown, "conflicting scopes"));
    }
}

fn requirement(path: &Path<'_>, scope: &str, expression: &Value, errors: &mut Vec<FieldError>) {
    let operator = expression.str("operator");
    let values = expression.list("values");
    let plain = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
    if plain.contains(&scope) && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(FieldError::invalid(path.child("operator"), operator, detail));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(FieldError::required(path.child("values"), detail));
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(FieldError::invalid(path.child("values"), Value::from(values.to_vec()), detail));
        }
        "Exists" | "DoesNotExist" => {}
        _ => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(path.child("operator"), operator, detail));
        }
    }
}

/// Prints the selector as Go prints its struct.
fn print(expressions: &[Value]) -> BadValue {
    let parts: Vec<String> = expressions
        .iter()
        .map(|it| {
            format!(
                r#"{{"ScopeName":{},"Operator":{},"Values":{}}}"#,
                go::json(&Value::from(it.str("scopeName"))),
                go::json(&Value::from(it.str("operator"))),
                it.at("values").map_or("null".to_owned(), go::json)
            )
        })
        .collect();
    BadValue::Printed(format!(r#"{{"MatchExpressions":[{}]}}"#, parts.join(",")))
}
