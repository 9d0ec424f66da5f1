//! JSON values, read as their schema says.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use evenkeel_scalars::formats;
use evenkeel_tree::Text as Name;
use evenkeel_tree::value::{Map as Fields, Value as Json};

use crate::escape;
use crate::value::time::{self, Instant};
use crate::value::{Fault, List, Map, Outcome, Text, Value};

/// The part of a schema that the evaluator needs to read a JSON value. The caller's schema type implements it.
pub trait Schema: fmt::Debug {
    /// The JSON type, unless the schema has none.
    fn json_type(&self) -> Option<JsonType>;
    /// The OpenAPI format, or an empty string.
    fn format(&self) -> &str;
    /// Whether null is a value.
    fn is_nullable(&self) -> bool;
    /// Whether the value is an integer or a string (`x-kubernetes-int-or-string`).
    fn is_int_or_string(&self) -> bool;
    /// Whether fields without a schema are kept (`x-kubernetes-preserve-unknown-fields`).
    fn preserves_unknown_fields(&self) -> bool;
    /// Whether the value is a whole Kubernetes object (`x-kubernetes-embedded-resource`).
    fn is_embedded_resource(&self) -> bool;
    /// Whether the value is an object with named fields, as opposed to a map.
    fn has_properties(&self) -> bool;
    /// The schema of a named field.
    fn property(&self, name: &str) -> Option<&dyn Schema>;
    /// The schema of the values of a map.
    fn map_values(&self) -> Option<&dyn Schema>;
    /// The schema of the items of a list.
    fn list_items(&self) -> Option<&dyn Schema>;
    /// How two lists are compared.
    fn list_type(&self) -> ListType<'_>;
}

/// A JSON type that a schema may declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the OpenAPI type of its name")]
pub enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// How two lists are compared (`x-kubernetes-list-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListType<'a> {
    /// Item by item, in order.
    Atomic,
    /// As a set: order and repetition do not count.
    Set,
    /// As a map from the values of these fields to the items: order does not count.
    Map(&'a [Cow<'static, str>]),
}

/// A list of the object.
#[derive(Debug, Clone, Copy)]
pub struct JsonList<'a> {
    pub(crate) items: &'a [Json],
    pub(crate) schema: &'a dyn Schema,
    pub(crate) list_type: ListType<'a>,
}

/// A map, or an object with named fields, of the object.
#[derive(Debug, Clone, Copy)]
pub struct JsonMap<'a> {
    pub(crate) fields: &'a Fields,
    pub(crate) schema: &'a dyn Schema,
}

/// Reads a JSON value as its schema says. Fails if the value does not match the schema.
pub fn view<'a>(json: &'a Json, schema: &'a dyn Schema) -> Outcome<Value<'a>> {
    if json.is_null() {
        return match schema.is_nullable() {
            true => Ok(Value::Null),
            false => Err(Fault::new("invalid data, got null for schema with nullable=false")),
        };
    }
    if schema.is_int_or_string() {
        return match json {
            Json::String(text) => Ok(Value::String(Text::Borrowed(text))),
            Json::Number(number) if number.is_i64() => Ok(Value::Int(number.as_i64().unwrap_or_default())),
            _ => {
                Err(Fault::new("invalid data, expected XIntOrString value to be either a string or integer"))
            }
        };
    }
    match (schema.json_type(), json) {
        (Some(JsonType::Object), Json::Object(fields)) => {
            Ok(Value::Map(Map::Json(JsonMap { fields, schema })))
        }
        (Some(JsonType::Array), Json::Array(items)) => list(items, schema),
        (Some(JsonType::String), Json::String(text)) => string(text, schema),
        (Some(JsonType::Number), Json::Number(number)) => {
            Ok(Value::Double(number.as_f64().unwrap_or_default()))
        }
        (Some(JsonType::Integer), Json::Number(number)) if number.is_i64() => {
            Ok(Value::Int(number.as_i64().unwrap_or_default()))
        }
        (Some(JsonType::Boolean), Json::Bool(value)) => Ok(Value::Bool(*value)),
        (None, json) if schema.preserves_unknown_fields() => Ok(Value::Preserved(json)),
        (cel_type, json) => Err(mismatch(cel_type, json)),
    }
}

fn mismatch(cel_type: Option<JsonType>, json: &Json) -> Fault {
    let go_type = match json {
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        _ => "map[string]interface {}",
    };
    Fault::new(match cel_type {
        Some(JsonType::Object) => "invalid data, expected a map for the provided schema with type=object".to_owned(),
        Some(JsonType::Array) => "invalid data, expected an array for the provided schema with type=array".to_owned(),
        Some(JsonType::String) => format!("invalid data, expected string, got {go_type}"),
        Some(JsonType::Number) => format!("invalid data, expected float, got {go_type}"),
        Some(JsonType::Integer) => format!("invalid data, expected int, got {go_type}"),
        Some(JsonType::Boolean) => format!("invalid data, expected bool, got {go_type}"),
        None => "invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got ".to_owned(),
    })
}

fn list<'a>(items: &'a [Json], schema: &'a dyn Schema) -> Outcome<Value<'a>> {
    let Some(of) = schema.list_items() else {
        return Err(Fault::new("invalid array type, expected Items with a non-empty Schema"));
    };
    Ok(Value::List(List::Json(JsonList { items, schema: of, list_type: schema.list_type() })))
}

fn string<'a>(text: &'a str, schema: &dyn Schema) -> Outcome<Value<'a>> {
    let wrong = |what: &str| Fault::new(format!("Invalid {what} {text}"));
    Ok(match schema.format() {
        "duration" => Value::Duration(formats::read_duration(text).ok_or_else(|| wrong("duration"))?),
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

/// The error for a string that is not base64. Expressions read bytes in the URL-safe alphabet, unlike the `byte`
/// format.
fn bad_base64(text: &str, error: &base64::DecodeError) -> Fault {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        _ => text.len() / 4 * 4,
    };
    Fault::new(format!("Invalid byte formatted string {text}: illegal base64 data at input byte {at}"))
}

impl<'a> JsonList<'a> {
    pub(crate) fn get(&self, index: usize) -> Outcome<Value<'a>> {
        match self.items.get(index) {
            Some(item) => view(item, self.schema),
            None => Err(Fault::new(format!("index out of bounds: {index}"))),
        }
    }
}

impl<'a> JsonMap<'a> {
    /// Whether this is an object with named fields, whose names are escaped in expressions.
    pub(crate) fn is_object(&self) -> bool {
        self.schema.has_properties()
    }

    /// The schema of the value at a key; `None` if expressions do not see that key.
    pub(crate) fn schema_of(&self, name: &str) -> Option<&'a dyn Schema> {
        if self.schema.is_embedded_resource() || self.is_object() {
            return self.schema.property(name);
        }
        self.schema.map_values()
    }

    pub(crate) fn find(&self, name: &str) -> Outcome<Option<Value<'a>>> {
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

    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        let known = self.fields.keys().filter(|name| self.schema_of(name).is_some());
        let key = |name: &'a Name| match self.is_object() {
            true => escape::escape(name).map_or(Value::String(Text::Borrowed(name)), Value::text),
            false => Value::String(Text::Borrowed(name)),
        };
        known.map(key).collect()
    }
}
