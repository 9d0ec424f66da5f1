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
    let wrong = values::validate(&path.to_string(), &schema, default, None);
    if wrong.is_empty() && place.by_rules {
        errors.extend(broken_rules(path, &schema, default));
    }
    errors.extend(wrong);
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
