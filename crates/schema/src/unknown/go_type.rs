//! The names that Go has for the types of fields.

use crate::types::{Schema, Type};

/// Types that decode themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Custom {
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// Any JSON, taken as it is.
    Raw,
}

pub(super) fn custom(schema: &Schema) -> Option<Custom> {
    let name = schema.type_name()?;
    Some(match name.rsplit('.').next()? {
        "Quantity" => Custom::Quantity,
        "IntOrString" => Custom::IntOrString,
        "Time" => Custom::Time,
        "MicroTime" => Custom::MicroTime,
        "RawExtension" | "FieldsV1" => Custom::Raw,
        "JSON" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            Custom::Raw
        }
        _ => return None,
    })
}

/// The name of a struct without its package: `PodSpec`.
pub(super) fn struct_name(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

/// The Go type of a field: `int32`, `[]v1.Container`, `map[string]string`.
pub(super) fn go_type(schema: &Schema) -> String {
    if let Some(full) = schema.type_name() {
        let mut parts = full.rsplit('.');
        let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return format!("{package}.{name}");
    }
    if let Some(items) = schema.items() {
        return format!("[]{}", go_type(items));
    }
    if let Some(values) = schema.values() {
        return format!("map[string]{}", go_type(values));
    }
    scalar_type(schema).to_owned()
}

pub(super) fn scalar_type(schema: &Schema) -> &'static str {
    match (schema.kind(), schema.format.as_ref()) {
        (Some(Type::Integer), "int64") => "int64",
        (Some(Type::Integer), _) => "int32",
        (Some(Type::Number), _) => "float64",
        (Some(Type::Boolean), _) => "bool",
        (Some(Type::String), "byte") => "[]uint8",
        (Some(Type::String), _) => "string",
        _ => "interface {}",
    }
}
