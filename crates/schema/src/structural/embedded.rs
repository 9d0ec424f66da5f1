//! Embedded resources: whole Kubernetes objects inside of a custom resource.

use crate::field::{FieldError, Path};
use crate::json::{Map, Value};
use crate::names;
use crate::object_meta::{NameRule, object_meta};
use crate::types::{Additional, Schema};

/// Validates `apiVersion`, `kind` and `metadata` of the objects that the schema marks as embedded resources.
pub(super) fn validate(path: &Path<'_>, schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(path, schema, value, &mut errors);
    errors
}

fn visit(path: &Path<'_>, schema: &Schema, value: &Value, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(object) => {
            if schema.embedded_resource {
                resource(path, object, errors);
            }
            for (name, value) in object {
                match (schema.properties.get(name), &schema.additional) {
                    (Some(schema), _) => visit(&path.child(name), schema, value, errors),
                    (None, Additional::Schema(schema)) => visit(&path.key(name), schema, value, errors),
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items.as_deref() else { return };
            for (index, item) in items.iter().enumerate() {
                visit(&path.index(index), schema, item, errors);
            }
        }
        _ => {}
    }
}

fn resource(path: &Path<'_>, object: &Map, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        if !object.contains_key(name) {
            errors.push(FieldError::required(path.child(name), ""));
        }
    }
    for (name, value) in object {
        match (name.as_str(), value) {
            ("apiVersion", value) => api_version(&path.child("apiVersion"), value, errors),
            ("kind", value) => kind(&path.child("kind"), value, errors),
            ("metadata", meta) => metadata(&path.child("metadata"), meta, errors),
            _ => {}
        }
    }
}

fn api_version(path: &Path<'_>, value: &Value, errors: &mut Vec<FieldError>) {
    match value.as_str() {
        None => errors.push(FieldError::invalid(path, value, "must be a string")),
        Some("") => errors.push(FieldError::invalid(path, "", "must not be empty")),
        Some(text) if text.matches('/').count() > 1 => {
            errors.push(FieldError::invalid(path, text, format!("unexpected GroupVersion string: {text}")));
        }
        Some(_) => {}
    }
}

fn kind(path: &Path<'_>, value: &Value, errors: &mut Vec<FieldError>) {
    match value.as_str() {
        None => errors.push(FieldError::invalid(path, value, "must be a string")),
        Some("") => errors.push(FieldError::invalid(path, "", "must not be empty")),
        Some(text) => {
            let wrong = names::dns1035_label(&text.to_lowercase());
            if !wrong.is_empty() {
                let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                errors.push(FieldError::invalid(path, text, detail));
            }
        }
    }
}

fn metadata(path: &Path<'_>, meta: &Value, errors: &mut Vec<FieldError>) {
    let mut meta = meta.clone();
    let Value::Object(fields) = &mut meta else { return };
    if fields.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
        // An embedded resource needs no name, but the validation of metadata always requires one.
        fields.insert("name".into(), Value::from("fakename"));
    }
    let namespaced = fields.get("namespace").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    errors.extend(object_meta(path, &meta, namespaced, NameRule::PathSegment));
}
