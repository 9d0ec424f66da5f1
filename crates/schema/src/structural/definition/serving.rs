//! Validates how the objects of a definition are served: scale, printer columns and selectable fields.

use super::field_path;
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::read::Read;

const SELECTABLE_MAX: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn subresources(path: &Path<'_>, subresources: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(scale) = subresources.at("scale") else { return };
    let mut replicas = |name: &str, root: &str| {
        let field = format!("scale.{name}");
        let path = path.child(&field);
        let text = scale.str(name);
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !text.starts_with('.') {
            errors.push(FieldError::invalid(path, text, "must be a simple json path starting with ."));
        } else if !text.starts_with(&format!("{root}.")) {
            errors.push(FieldError::invalid(path, text, format!("should be a json path under {root}")));
        }
    };
    replicas("specReplicasPath", ".spec");
    replicas("statusReplicasPath", ".status");
    let text = scale.str("labelSelectorPath");
    let path = path.child("scale.labelSelectorPath");
    if text.is_empty() {
        return;
    }
    if !text.starts_with('.') {
        errors.push(FieldError::invalid(path, text, "must be a simple json path starting with ."));
    } else if !text.starts_with(".spec.") && !text.starts_with(".status.") {
        let printed = BadValue::Printed(Value::from(text).to_string());
        errors.push(FieldError::invalid(
            path,
            printed,
            "should be a json path under either .spec or .status",
        ));
    }
}

pub(super) fn columns(path: &Path<'_>, columns: &[Value], errors: &mut Vec<FieldError>) {
    for (index, column) in columns.iter().enumerate() {
        let path = path.index(index);
        if column.str("name").is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        let kinds = format!("must be one of {}", COLUMN_TYPES.join(","));
        match column.str("type") {
            "" => errors.push(FieldError::required(path.child("type"), kinds)),
            kind if COLUMN_TYPES.contains(&kind) => {}
            kind => errors.push(FieldError::invalid(path.child("type"), kind, kinds)),
        }
        let format = column.str("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(path.child("format"), format, detail));
        }
        let json_path = column.str("jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(path.child("JSONPath"), ""));
        } else if !json_path.starts_with('.') {
            let detail = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(path.child("JSONPath"), json_path, detail));
        }
    }
}

pub(super) fn selectable_fields(
    path: &Path<'_>,
    fields: &[Value],
    schema: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    if fields.is_empty() {
        return;
    }
    let Some(schema) = schema else {
        errors.push(FieldError::invalid(path, "", "may only be set when validations.schema is included"));
        return;
    };
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("jsonPath");
        let text = field.str("jsonPath");
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        match field_path::find(schema, text, false) {
            Err(error) => {
                errors.push(FieldError::invalid(path, text, format!("is an invalid path: {error}")))
            }
            Ok((found, target)) => {
                if found == "metadata" || found.starts_with("metadata.") {
                    errors.push(FieldError::invalid(path, text, "must not point to fields in metadata"));
                }
                if !matches!(target.str("type"), "string" | "boolean" | "integer") {
                    let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                    errors.push(FieldError::invalid(path, text, detail));
                }
                match seen.contains(&found) {
                    true => errors.push(FieldError::duplicate(path, text)),
                    false => seen.push(found),
                }
            }
        }
    }
    if seen.len() > SELECTABLE_MAX {
        errors.push(FieldError::too_many(path, seen.len(), SELECTABLE_MAX));
    }
}
