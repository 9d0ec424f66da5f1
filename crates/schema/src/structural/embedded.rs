//! Embedded resources: whole Kubernetes objects inside of a custom resource.

use crate::field::{FieldError, Path};
use crate::json::{Map, Value};
use crate::names;
use crate::normalize::normalize_metadata;
use crate::object_meta::{NameRule, object_meta};
use crate::strict_decoding::{self, DecodingErrors};
use crate::types::{self, Additional, Schema};

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

/// Brings the metadata of embedded resources into the form of Go's struct and returns the paths of its unknown fields,
/// sorted.
///
/// # Errors
/// The first `apiVersion`, `kind` or `metadata` that has a wrong type.
pub fn coerce(schema: &Schema, object: &mut Value) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    coerce_value(&Path::ROOT, schema, object, &mut unknown)?;
    unknown.sort_unstable();
    Ok(unknown)
}

fn coerce_value(
    path: &Path<'_>,
    schema: &Schema,
    value: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    match value {
        Value::Object(object) => {
            for (name, value) in object.iter_mut() {
                if schema.embedded_resource {
                    coerce_field(&path.child(name), name, value, unknown)?;
                }
                match (schema.properties.get(name), &schema.additional) {
                    (Some(schema), _) => coerce_value(&path.child(name), schema, value, unknown)?,
                    (None, Additional::Schema(schema)) => {
                        coerce_value(&path.key(name), schema, value, unknown)?
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items.as_deref() else { return Ok(()) };
            for (index, item) in items.iter_mut().enumerate() {
                coerce_value(&path.index(index), schema, item, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Coerces a field of an embedded resource.
fn coerce_field(
    path: &Path<'_>,
    name: &str,
    value: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    match name {
        "apiVersion" | "kind" if !value.is_string() => {
            Err(FieldError::invalid(path, &*value, "must be a string"))
        }
        "metadata" => {
            let found = metadata_errors(value);
            if let Some(why) = found.refusal {
                return Err(FieldError::invalid(path, &*value, why));
            }
            let names = found
                .strict
                .iter()
                .filter_map(|error| error.strip_prefix("unknown field \"")?.strip_suffix('"'));
            unknown.extend(names.map(|name| format!("{path}.{name}")));
            normalize_metadata(value);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The errors with which Go decodes metadata.
fn metadata_errors(metadata: &Value) -> DecodingErrors {
    let schema = types::builtin_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    schema.map(|schema| strict_decoding::decode_value(schema, "ObjectMeta", metadata)).unwrap_or_default()
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
    if let Some(why) = metadata_errors(meta).refusal {
        errors.push(FieldError::invalid(path, meta, why));
        return;
    }
    let mut meta = meta.clone();
    let Value::Object(fields) = &mut meta else { return };
    if fields.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
        // An embedded resource needs no name, but the validation of metadata always requires one.
        fields.insert("name".into(), Value::from("fakename"));
    }
    let namespaced = fields.get("namespace").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    errors.extend(object_meta(path, &meta, namespaced, NameRule::PathSegment));
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;
    use crate::structural::compile::node;

    fn holder() -> Schema {
        node(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "objects": {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}}}}}))
    }

    fn object(embedded: Value) -> Value {
        json!({"spec": {"objects": [embedded]}})
    }

    #[test]
    fn unknown_metadata_of_embedded_resources_is_dropped_and_told() {
        let mut with = object(json!({"apiVersion": "v1", "kind": "X", "more": 1,
            "metadata": {"name": "x", "bogus": 1, "labels": {"a": "b"}, "annotations": {}}}));
        assert_eq!(coerce(&holder(), &mut with), Ok(vec!["spec.objects[0].metadata.bogus".to_owned()]));
        let kept = object(json!({"apiVersion": "v1", "kind": "X", "more": 1,
            "metadata": {"name": "x", "labels": {"a": "b"}}}));
        assert_eq!(with, kept);
    }

    #[test]
    fn mistyped_fields_of_embedded_resources_are_refused() {
        let refused = |embedded: Value| {
            coerce(&holder(), &mut object(embedded)).map_err(|error| error.to_string()).unwrap_err()
        };
        assert_eq!(
            refused(json!({"apiVersion": "v1", "kind": 5})),
            "spec.objects[0].kind: Invalid value: 5: must be a string"
        );
        let why = refused(json!({"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": 5}}}));
        assert!(why.starts_with("spec.objects[0].metadata: Invalid value: {"), "{why}");
        assert!(
            why.contains("json: cannot unmarshal number into Go struct field ObjectMeta.labels"),
            "{why}"
        );
    }
}
