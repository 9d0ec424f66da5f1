//! Validates defaults: a default must be valid under its own schema.

use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::read::Read;
use crate::structural::compile::node;
use crate::structural::rules::Rules;
use crate::structural::{embedded, pruning, values};
use crate::types::Schema;

/// Validates the defaults of a schema, also by its CEL rules if `by_rules` says so.
pub(super) fn validate(path: &Path<'_>, schema: &Value, by_rules: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(path, schema, Place { root: true, in_meta: false, by_rules }, &mut errors);
    errors
}

/// Where a schema is.
#[derive(Clone, Copy)]
struct Place {
    root: bool,
    /// In `apiVersion`, `kind` or `metadata` of a resource.
    in_meta: bool,
    /// Whether defaults are checked against rules.
    by_rules: bool,
}

fn visit(path: &Path<'_>, schema: &Value, place: Place, errors: &mut Vec<FieldError>) {
    let resource = place.root || schema.bool("x-kubernetes-embedded-resource");
    let place = Place { root: false, in_meta: place.in_meta && !resource, ..place };
    if let Some(default) = schema.at("default") {
        check(&path.child("default"), schema, default, place, errors);
    }
    if let Some(items) = schema.at("items") {
        visit(&path.child("items"), items, place, errors);
    }
    let properties = path.child("properties");
    for (name, field) in schema.map("properties").into_iter().flatten() {
        let is_meta = resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        visit(&properties.key(name), field, Place { in_meta: place.in_meta || is_meta, ..place }, errors);
    }
}

fn check(path: &Path<'_>, schema: &Value, default: &Value, place: Place, errors: &mut Vec<FieldError>) {
    let untyped = node(&without_int_or_string(schema));
    let schema = node(schema);
    if !place.in_meta {
        let mut pruned = default.clone();
        pruning::prune_embedded(&schema, &mut pruned);
        if pruned != *default {
            errors.push(FieldError::invalid(path, default, "must not have unknown fields"));
        }
        let wrong = embedded::validate(path, &schema, default);
        if !wrong.is_empty() {
            errors.extend(wrong);
            return;
        }
    }
    let wrong = values::validate(&path.to_string(), &untyped, default, None);
    if wrong.is_empty() && place.by_rules {
        errors.extend(broken_rules(path, &schema, default));
    }
    errors.extend(wrong);
}

/// Returns a schema in which `x-kubernetes-int-or-string` does not restrict the type. Kubernetes checks that type in objects,
/// but not in defaults.
fn without_int_or_string(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(fields) = &mut schema {
        fields.remove("x-kubernetes-int-or-string");
        for field in ["items", "additionalProperties"] {
            if let Some(inner) = fields.get_mut(field) {
                *inner = without_int_or_string(inner);
            }
        }
        let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
        properties.into_iter().flatten().for_each(|(_, inner)| *inner = without_int_or_string(inner));
    }
    schema
}

/// The rules of the schema that a default breaks.
fn broken_rules(path: &Path<'_>, schema: &Schema, default: &Value) -> Vec<FieldError> {
    let Some(rules) = Rules::compile(schema) else { return Vec::new() };
    let mut errors = rules.validate(default, None).errors;
    for error in &mut errors {
        error.field = match error.field.as_str() {
            "" | "<nil>" => path.to_string(),
            below if below.starts_with('[') => format!("{path}{below}"),
            below => format!("{path}.{below}"),
        };
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_default_of_an_int_or_string_may_have_any_type() {
        let schema = json!({"type": "object", "properties": {
            "a": {"x-kubernetes-int-or-string": true, "default": true},
            "b": {"type": "string", "default": true}}});
        let told: Vec<String> =
            validate(&Path::new("schema"), &schema, false).iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("schema.properties[b].default: "), "{told:?}");
    }
}
