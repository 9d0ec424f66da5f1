//! The values of an object, as its schema says that they are to be read.

use base64::Engine;

use super::escape;
use super::library::time::{self, Instant};
use super::value::{Fault, List, Map, Outcome, Text, Value};
use crate::json::{Map as Fields, Value as Json};
use crate::types::{Additional, ListType, Schema, Type};

/// A list of the object.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonList<'a> {
    pub(super) items: &'a [Json],
    pub(super) schema: &'a Schema,
    /// How the list is compared: sets and maps do not care for order.
    pub(super) list_type: Option<ListType>,
    pub(super) keys: &'a [crate::types::Text],
}

/// A map or an object of the object.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonMap<'a> {
    pub(super) fields: &'a Fields<String, Json>,
    pub(super) schema: &'a Schema,
}

/// A value of the object under its schema.
pub(super) fn view<'a>(json: &'a Json, schema: &'a Schema) -> Outcome<Value<'a>> {
    if json.is_null() {
        return match schema.nullable {
            true => Ok(Value::Null),
            false => Err(Fault::new("invalid data, got null for schema with nullable=false")),
        };
    }
    if schema.int_or_string {
        return match json {
            Json::String(text) => Ok(Value::String(Text::Borrowed(text))),
            Json::Number(number) if number.is_i64() => Ok(Value::Int(number.as_i64().unwrap_or_default())),
            _ => {
                Err(Fault::new("invalid data, expected XIntOrString value to be either a string or integer"))
            }
        };
    }
    match (schema.kind, json) {
        (Some(Type::Object), Json::Object(fields)) => Ok(Value::Map(Map::Json(JsonMap { fields, schema }))),
        (Some(Type::Array), Json::Array(items)) => list(items, schema),
        (Some(Type::String), Json::String(text)) => string(text, schema),
        (Some(Type::Number), Json::Number(number)) => Ok(Value::Double(number.as_f64().unwrap_or_default())),
        (Some(Type::Integer), Json::Number(number)) if number.is_i64() => {
            Ok(Value::Int(number.as_i64().unwrap_or_default()))
        }
        (Some(Type::Boolean), Json::Bool(value)) => Ok(Value::Bool(*value)),
        (None, json) if schema.preserve_unknown_fields => Ok(Value::Preserved(json)),
        (kind, json) => Err(mismatch(kind, json)),
    }
}

fn mismatch(kind: Option<Type>, json: &Json) -> Fault {
    let go_type = match json {
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        _ => "map[string]interface {}",
    };
    Fault::new(match kind {
        Some(Type::Object) => "invalid data, expected a map for the provided schema with type=object".to_owned(),
        Some(Type::Array) => "invalid data, expected an array for the provided schema with type=array".to_owned(),
        Some(Type::String) => format!("invalid data, expected string, got {go_type}"),
        Some(Type::Number) => format!("invalid data, expected float, got {go_type}"),
        Some(Type::Integer) => format!("invalid data, expected int, got {go_type}"),
        Some(Type::Boolean) => format!("invalid data, expected bool, got {go_type}"),
        None => "invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got ".to_owned(),
    })
}

fn list<'a>(items: &'a [Json], schema: &'a Schema) -> Outcome<Value<'a>> {
    let Some(of) = schema.items.as_deref() else {
        return Err(Fault::new("invalid array type, expected Items with a non-empty Schema"));
    };
    let (list_type, keys) = (schema.list_type, schema.list_map_keys.as_slice());
    Ok(Value::List(List::Json(JsonList { items, schema: of, list_type, keys })))
}

fn string<'a>(text: &'a str, schema: &Schema) -> Outcome<Value<'a>> {
    let wrong = |what: &str| Fault::new(format!("Invalid {what} {text}"));
    Ok(match schema.format.as_ref() {
        "duration" => Value::Duration(time::parse_loose_duration(text).ok_or_else(|| wrong("duration"))?),
        "date" => Value::Timestamp(Instant::from_date(text).ok_or_else(|| wrong("date formatted string"))?),
        "date-time" => Value::Timestamp(
            time::parse_loose_timestamp(text).ok_or_else(|| wrong("date-time formatted string"))?,
        ),
        "byte" => {
            let decoded = base64::engine::general_purpose::URL_SAFE.decode(text);
            Value::Bytes(decoded.map_err(|error| bad_base64(text, &error))?.into())
        }
        _ => Value::String(Text::Borrowed(text)),
    })
}

/// Rules read bytes in the alphabet for URLs, whatever the format takes.
fn bad_base64(text: &str, error: &base64::DecodeError) -> Fault {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        _ => text.len() / 4 * 4,
    };
    Fault::new(format!("Invalid byte formatted string {text}: illegal base64 data at input byte {at}"))
}

impl<'a> JsonList<'a> {
    pub(super) fn get(&self, index: usize) -> Outcome<Value<'a>> {
        match self.items.get(index) {
            Some(item) => view(item, self.schema),
            None => Err(Fault::new(format!("index out of bounds: {index}"))),
        }
    }
}

impl<'a> JsonMap<'a> {
    /// Whether this is an object with named fields, whose names are escaped in expressions.
    fn is_object(&self) -> bool {
        !self.schema.properties.is_empty()
    }

    /// The schema of what a key holds; none for what expressions do not see.
    pub(super) fn schema_of(&self, name: &str) -> Option<&'a Schema> {
        if self.schema.embedded_resource || self.is_object() {
            return self.schema.properties.get(name);
        }
        match &self.schema.additional {
            Additional::Schema(values) => Some(values),
            _ => None,
        }
    }

    pub(super) fn find(&self, name: &str) -> Outcome<Option<Value<'a>>> {
        let unescaped;
        let name = if self.is_object() {
            match escape::unescape(name) {
                Some(name) => {
                    unescaped = name;
                    &unescaped
                }
                None => return Ok(None),
            }
        } else {
            name
        };
        match (self.fields.get(name), self.schema_of(name)) {
            (Some(Json::Null), _) if self.is_object() => Ok(None),
            (Some(value), Some(schema)) => view(value, schema).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn keys(&self) -> Vec<Value<'a>> {
        let known = self.fields.keys().filter(|name| self.schema_of(name).is_some());
        let key = |name: &'a String| match self.is_object() {
            true => escape::escape(name).map_or(Value::String(Text::Borrowed(name)), Value::text),
            false => Value::String(Text::Borrowed(name)),
        };
        known.map(key).collect()
    }
}
