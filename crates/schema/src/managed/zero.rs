//! The object that a creation is compared with: what Go's zero value of the kind prints.
//!
//! Parts that are never absent in Go (`spec` of a Pod) are there from the beginning; nobody adds them, so nobody
//! owns them as such.

use super::Context;
use crate::json::{Map, Value};
use crate::types::{Schema, Type};

/// The empty object of a kind. A custom one has nothing but its type.
pub(super) fn object(ctx: &Context<'_>) -> Value {
    let mut object = if ctx.schema.resolve().gvks.is_empty() { Map::new() } else { fields(ctx.schema) };
    if let Value::Object(type_meta) = type_meta(ctx) {
        object.extend(type_meta);
    }
    Value::Object(object)
}

/// An object that has nothing but its type.
pub(super) fn type_meta(ctx: &Context<'_>) -> Value {
    serde_json::json!({"apiVersion": ctx.api_version, "kind": ctx.kind})
}

fn fields(schema: &Schema) -> Map<String, Value> {
    let schema = schema.resolve();
    let mut object = Map::new();
    for (name, field) in schema.properties.iter() {
        if field.default.as_ref().is_some_and(Value::is_object) {
            object.insert(name.to_owned(), Value::Object(fields(field)));
        } else if schema.required.iter().any(|required| required == name) {
            object.insert(name.to_owned(), scalar(field));
        }
    }
    object
}

fn scalar(schema: &Schema) -> Value {
    match (&schema.reference, schema.kind) {
        (None, Some(Type::String)) if schema.format != "byte" => "".into(),
        (None, Some(Type::Integer | Type::Number)) => 0.into(),
        (None, Some(Type::Boolean)) => false.into(),
        _ => Value::Null,
    }
}
