//! A fast check that an object has no decoding errors, which is true for nearly all. It needs no paths and no copies.

use super::decode::{SCHEMA, first_bad_base64};
use super::go_type::{self, Custom};
use crate::json::{Map, Value};
use crate::quantity::Quantity;
use crate::time::{self, Precision};
use crate::types::{self, Schema, Type};

/// Whether [`decode_value`](super::decode_value) and [`convert`](super::convert) find no errors in a value of a built-in
/// kind. `known` is a value without errors: parts equal to its own are skipped. The result may be false for a value without
/// errors, but is never true for a value with errors.
pub fn fits(schema: &Schema, value: &Value, known: Option<&Value>) -> bool {
    if value.is_null() {
        return true;
    }
    if let Some(custom) = go_type::custom(schema) {
        return fits_custom(custom, value);
    }
    match (schema.value_type(), value) {
        (None, _) => true,
        (Some(Type::Object), Value::Object(map)) => match schema.values() {
            Some(values) => fits_map(values, map, known),
            None => fits_fields(schema, map, known),
        },
        (Some(Type::Array), Value::Array(items)) => {
            let Some(schema) = schema.items() else { return false };
            let known = known.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            // Checking an entry of `managedFields` is faster than comparing it, because it may contain any fields.
            let compared = schema.type_name().is_none_or(|name| !name.ends_with(".ManagedFieldsEntry"));
            items.iter().enumerate().all(|(at, item)| {
                let known = known.get(at);
                is_known(item, known) || compared && known == Some(item) || fits(schema, item, known)
            })
        }
        (Some(Type::String), Value::String(text)) if schema.format == "byte" => {
            first_bad_base64(text).is_none()
        }
        (Some(Type::String), Value::String(_))
        | (Some(Type::Boolean), Value::Bool(_))
        | (Some(Type::Number), Value::Number(_)) => true,
        (Some(Type::Integer), Value::Number(number)) => {
            let wide = go_type::scalar_type(schema) == "int64";
            number.as_i64().is_some_and(|number| wide || i32::try_from(number).is_ok())
        }
        _ => false,
    }
}

/// Iterates over a sorted map, with the value of another sorted map at each name.
fn beside<'v>(
    map: &'v Map,
    known: Option<&'v Value>,
) -> impl Iterator<Item = (&'v str, &'v Value, Option<&'v Value>)> {
    let mut known = known.and_then(Value::as_object).into_iter().flatten().peekable();
    map.iter().map(move |(name, value)| {
        while known.next_if(|(other, _)| *other < name).is_some() {}
        let there = known.next_if(|(other, _)| *other == name).map(|(_, there)| there);
        (name.as_str(), value, there)
    })
}

/// Whether a value is an equal scalar, or shared with the known one.
fn is_known(value: &Value, known: Option<&Value>) -> bool {
    known.is_some_and(|known| value.is_shared_with(known))
}

fn fits_map(values: &Schema, map: &Map, known: Option<&Value>) -> bool {
    beside(map, known).all(|(_, value, known)| is_known(value, known) || fits(values, value, known))
}

fn fits_fields(schema: &Schema, map: &Map, known: Option<&Value>) -> bool {
    let fields = schema.fields();
    beside(map, known).all(|(name, value, known)| {
        is_known(value, known) || fields.get(name).is_some_and(|field| fits(field, value, known))
    })
}

/// Whether a value is a schema of a definition.
fn fits_schema(value: &Value) -> bool {
    types::builtin_type(SCHEMA).is_some_and(|schema| fits(schema, value, None))
}

fn fits_custom(custom: Custom, value: &Value) -> bool {
    match (custom, value) {
        (Custom::Raw, _) | (Custom::IntOrString, Value::String(_)) => true,
        (Custom::SchemaOr { .. }, Value::Object(_)) => fits_schema(value),
        (Custom::SchemaOr { or_bool: false }, Value::Array(items)) => items.iter().all(fits_schema),
        (Custom::SchemaOr { or_bool: true }, value) => value.is_boolean(),
        (Custom::IntOrString, Value::Number(number)) => {
            number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
        }
        (Custom::Quantity, Value::String(_) | Value::Number(_)) => Quantity::from_json(value).is_ok(),
        (Custom::Time, Value::String(text)) => time::parse(text, Precision::Seconds).is_ok(),
        (Custom::MicroTime, Value::String(text)) => time::parse(text, Precision::Micros).is_ok(),
        _ => false,
    }
}
