//! Validates defaults: a default must be valid under its own schema.

use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::read::Read;
use crate::structural::compile::node;
use crate::structural::{embedded, pruning, values};

pub(super) fn validate(path: &Path<'_>, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(path, schema, true, false, &mut errors);
    errors
}

fn visit(path: &Path<'_>, schema: &Value, root: bool, in_meta: bool, errors: &mut Vec<FieldError>) {
    let resource = root || schema.bool("x-kubernetes-embedded-resource");
    let in_meta = in_meta && !resource;
    if let Some(default) = schema.at("default") {
        check(&path.child("default"), schema, default, in_meta, errors);
    }
    if let Some(items) = schema.at("items") {
        visit(&path.child("items"), items, false, in_meta, errors);
    }
    let properties = path.child("properties");
    for (name, field) in schema.map("properties").into_iter().flatten() {
        let is_meta = resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        visit(&properties.key(name), field, false, in_meta || is_meta, errors);
    }
}

fn check(path: &Path<'_>, schema: &Value, default: &Value, in_meta: bool, errors: &mut Vec<FieldError>) {
    let schema = node(schema);
    if !in_meta {
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
    errors.extend(values::validate(&path.to_string(), &schema, default, None));
}
