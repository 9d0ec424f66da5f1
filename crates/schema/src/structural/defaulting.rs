//! Fills in the defaults of a schema.

use crate::json::Value;
use crate::types::{Additional, Schema};

/// Sets the defaults of absent fields, and drops nulls that are neither allowed nor replaced by a default.
pub fn default(schema: &Schema, object: &mut Value) {
    drop_nulls(schema, object);
    fill_in(schema, object);
}

/// Sets the defaults of absent fields and keeps nulls. The result of a server-side apply never goes through the decoder that
/// drops nulls, so Kubernetes refuses a map that the apply emptied as null.
pub fn default_applied(schema: &Schema, object: &mut Value) {
    fill_in(schema, object);
}

fn field<'a>(schema: &'a Schema, name: &str) -> Option<&'a Schema> {
    schema.properties.get(name).or(match &schema.additional {
        Additional::Schema(values) => Some(values),
        _ => None,
    })
}

/// Drops nulls that are neither allowed nor replaced by a default.
pub fn drop_nulls(schema: &Schema, object: &mut Value) {
    drop_nulls_of(Some(schema), object);
}

fn drop_nulls_of(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|name, value| {
                let schema = schema.and_then(|schema| field(schema, name));
                let refused = schema.is_some_and(|schema| !schema.nullable && schema.default.is_none());
                !(value.is_null() && refused)
            });
            for (name, value) in object.iter_mut() {
                drop_nulls_of(schema.and_then(|schema| field(schema, name)), value);
            }
        }
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls_of(schema, item));
        }
        _ => {}
    }
}

fn fill_in(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (name, field) in schema.properties.iter() {
                let Some(default) = &field.default else { continue };
                match object.get(name) {
                    None => drop(object.insert(name.into(), default.clone())),
                    Some(Value::Null) if !field.nullable => drop(object.insert(name.into(), default.clone())),
                    Some(_) => {}
                }
            }
            for (name, value) in object.iter_mut() {
                if let Some(schema) = field(schema, name) {
                    replace_null(schema, value);
                    fill_in(schema, value);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items.as_deref() else { return };
            for item in items {
                replace_null(schema, item);
                fill_in(schema, item);
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Schema, value: &mut Value) {
    if let (Value::Null, false, Some(default)) = (&*value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::structural::compile::node;

    #[test]
    fn defaults_reach_lists_and_maps() {
        let item = json!({"type": "object", "properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "string"}}});
        let schema = node(&json!({"type": "object", "properties": {
            "l": {"type": "array", "items": item}, "m": {"type": "object", "additionalProperties": item},
            "o": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "y"}}},
            "n": {"type": "string", "nullable": true, "default": "z"}}}));
        let mut object = json!({"l": [{}, {"a": null, "b": null}], "m": {"k": {"a": 2}}, "n": null});
        default(&schema, &mut object);
        assert_eq!(
            object,
            json!({"l": [{"a": 1}, {"a": 1}], "m": {"k": {"a": 2}}, "o": {"x": "y"}, "n": null})
        );
    }
}
