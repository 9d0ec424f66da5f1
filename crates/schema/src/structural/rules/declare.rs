//! Makes the declarations that the CEL checker and cost estimate use, from a schema.

use std::sync::Arc;

use evenkeel_cel::{Declaration, Shape, Type as CelType, escape};

use crate::types::{Additional, Schema, Text, Type};

/// The largest request that the API server accepts, in bytes. No value can be larger.
pub(super) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;
const DURATION_CHARS_MAX: u64 = 32;
const DATETIME_CHARS_MAX: u64 = 32;
const DATE_CHARS: u64 = 12;
const DURATION_BYTES_MIN: u64 = 3;
const DATETIME_BYTES_MIN: u64 = 21;
const STRING_BYTES_MIN: u64 = 2;
/// Length limits count code points, each of which takes up to four bytes.
const BYTES_PER_CHAR: u64 = 4;

/// Copies the schema of a whole object and declares `apiVersion`, `kind` and the names in `metadata`, there and in embedded
/// resources, so that rules may use them.
pub(super) fn view(schema: &Schema) -> Schema {
    view_at(schema, true)
}

/// Copies a schema and declares `apiVersion`, `kind` and the names in `metadata` of embedded resources, and of the schema
/// itself if it is the `root`.
pub(super) fn view_at(schema: &Schema, root: bool) -> Schema {
    let mut view = schema.clone();
    complete(&mut view, root);
    view
}

fn complete(schema: &mut Schema, root: bool) {
    for name in schema.properties.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>() {
        if let Some(field) = schema.properties.get_mut(&name) {
            complete(field, false);
        }
    }
    if let Some(items) = &mut schema.items {
        complete(items, false);
    }
    if let Additional::Schema(values) = &mut schema.additional {
        complete(values, false);
    }
    if (root || schema.embedded_resource) && !declares_meta(schema) {
        add_meta(schema);
    }
}

fn declares_meta(schema: &Schema) -> bool {
    let is = |schema: &Schema, name: &str, value_type| {
        schema.properties.get(name).is_some_and(|field| field.value_type == Some(value_type))
    };
    is(schema, "kind", Type::String)
        && is(schema, "apiVersion", Type::String)
        && schema.properties.get("metadata").is_some_and(|metadata| {
            metadata.value_type == Some(Type::Object)
                && is(metadata, "name", Type::String)
                && is(metadata, "generateName", Type::String)
        })
}

fn add_meta(schema: &mut Schema) {
    let text = || Schema { value_type: Some(Type::String), ..Schema::default() };
    let names = ["name", "generateName"].map(|name| (Text::Borrowed(name), text()));
    let metadata = Schema {
        value_type: Some(Type::Object),
        properties: names.into_iter().collect(),
        ..Schema::default()
    };
    schema.properties.insert("kind".into(), text());
    schema.properties.insert("apiVersion".into(), text());
    schema.properties.insert("metadata".into(), metadata);
}

/// Declares the values of a schema; `None` if the schema has no type.
pub(super) fn declare(schema: &Schema, name: &str) -> Option<Arc<Declaration>> {
    if schema.int_or_string {
        return Some(simple(CelType::Dyn, text_max(schema), 1));
    }
    match schema.value_type? {
        Type::Array => list(schema, name),
        Type::Object => match &schema.additional {
            Additional::Schema(values) => map(schema, values, name),
            _ => Some(object(schema, name)),
        },
        Type::String => Some(string(schema)),
        Type::Boolean => Some(simple(CelType::Bool, 0, 4)),
        Type::Number => Some(simple(CelType::Double, 0, 1)),
        Type::Integer => Some(simple(CelType::Int, 0, 1)),
    }
}

fn simple(cel_type: CelType, elements_max: u64, bytes_min: u64) -> Arc<Declaration> {
    Arc::new(Declaration { shape: Shape::Simple(cel_type), name: String::new(), elements_max, bytes_min })
}

fn text_max(schema: &Schema) -> u64 {
    match schema.limits.as_ref().and_then(|limits| limits.max_length) {
        Some(max) => max.saturating_mul(BYTES_PER_CHAR),
        None => REQUEST_BYTES_MAX - 2,
    }
}

fn string(schema: &Schema) -> Arc<Declaration> {
    let limit = schema.limits.as_ref().and_then(|limits| limits.max_length);
    match schema.format.as_ref() {
        "byte" => simple(CelType::Bytes, limit.unwrap_or(REQUEST_BYTES_MAX - 2), STRING_BYTES_MIN),
        "duration" => simple(CelType::Duration, DURATION_CHARS_MAX, DURATION_BYTES_MIN),
        "date" => simple(CelType::Timestamp, DATE_CHARS, DATE_CHARS),
        "date-time" => simple(CelType::Timestamp, DATETIME_CHARS_MAX, DATETIME_BYTES_MIN),
        _ if limit.is_none() && !schema.enumeration.is_empty() => {
            let lengths = schema.enumeration.iter().filter_map(|value| Some(value.as_str()?.len() as u64));
            simple(CelType::String, lengths.max().unwrap_or(0), STRING_BYTES_MIN)
        }
        _ => simple(CelType::String, text_max(schema), STRING_BYTES_MIN),
    }
}

fn list(schema: &Schema, name: &str) -> Option<Arc<Declaration>> {
    let items = declare(schema.items.as_deref()?, &format!("{name}.@idx"))?;
    let limit = schema.limits.as_ref().and_then(|limits| limits.max_items);
    let elements_max = limit.unwrap_or((REQUEST_BYTES_MAX - 2) / (items.bytes_min + 1));
    Some(Arc::new(Declaration { shape: Shape::List(items), name: String::new(), elements_max, bytes_min: 2 }))
}

fn map(schema: &Schema, values: &Schema, name: &str) -> Option<Arc<Declaration>> {
    /// The fewest bytes of an entry in JSON: two quotes, a colon, a comma and a key of two characters.
    const ENTRY_BYTES_MIN: u64 = 6;
    let values = declare(values, &format!("{name}.@elem"))?;
    let limit = schema.limits.as_ref().and_then(|limits| limits.max_properties);
    let elements_max = limit.unwrap_or((REQUEST_BYTES_MAX - 2) / (values.bytes_min + ENTRY_BYTES_MIN));
    Some(Arc::new(Declaration { shape: Shape::Map(values), name: String::new(), elements_max, bytes_min: 2 }))
}

fn object(schema: &Schema, name: &str) -> Arc<Declaration> {
    /// The fewest bytes of a field in JSON, its name and value apart: two quotes, a colon and a comma.
    const FIELD_BYTES_MIN: u64 = 4;
    let mut bytes_min = 2;
    let mut fields = std::collections::BTreeMap::new();
    for (field, schema_of) in schema.properties.iter() {
        let escaped = escape(field);
        let type_name = format!("{name}.{}", escaped.as_deref().unwrap_or(field));
        let Some(declared) = declare(schema_of, &type_name) else { continue };
        if schema.required.iter().any(|required| required == field) && schema_of.default.is_none() {
            bytes_min += field.len() as u64 + declared.bytes_min + FIELD_BYTES_MIN;
        }
        if let Some(escaped) = escaped {
            fields.insert(escaped, declared);
        }
    }
    Arc::new(Declaration { shape: Shape::Object(fields), name: name.to_owned(), elements_max: 0, bytes_min })
}
