//! The errors of Kubernetes' converter from unstructured to typed objects, which decodes the result of a strategic merge
//! patch.

use super::DecodingErrors;
use super::go_type::{self, Custom};
use crate::json::{Text, Value, go_kind};
use crate::quantity::Quantity;
use crate::time::{self, Precision};
use crate::types::{Schema, Type};

/// Finds the errors of an object of a built-in kind. Strict errors are sorted.
pub fn convert(schema: &Schema, value: &Value) -> DecodingErrors {
    let mut findings = DecodingErrors::default();
    if let Err(refusal) = visit(schema, value, "", &mut findings) {
        findings.refusal = Some(refusal);
    }
    findings.strict.sort();
    findings
}

fn visit(schema: &Schema, value: &Value, path: &str, findings: &mut DecodingErrors) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    if let Some(custom) = go_type::custom(schema) {
        return check_custom(custom, value);
    }
    match (schema.value_type(), value) {
        (None, _) => Ok(()),
        (Some(Type::Object), Value::Object(_)) if schema.values().is_some() => {
            map(schema, value, path, findings)
        }
        (Some(Type::Object), _) if schema.values().is_some() => {
            Err(format!("cannot restore map from {}", kind(value)))
        }
        (Some(Type::Object), Value::Object(_)) => object(schema, value, path, findings),
        (Some(Type::Object), _) => Err(format!("cannot restore struct from: {}", kind(value))),
        (Some(Type::Array), Value::Array(items)) => list(schema, items, path, findings),
        (Some(Type::Array), _) => Err(format!("cannot restore slice from {}", kind(value))),
        (Some(wanted), _) => scalar(wanted, schema, value),
    }
}

fn object(schema: &Schema, value: &Value, path: &str, findings: &mut DecodingErrors) -> Result<(), String> {
    let mut fields: Vec<(&Text, &Value)> = value.as_object().into_iter().flatten().collect();
    // Go sets the fields in the order of the struct, in which type and metadata come first.
    fields.sort_by_key(|(key, _)| match key.as_str() {
        "apiVersion" | "kind" => 0,
        "metadata" => 1,
        "status" => 3,
        _ => 2,
    });
    for (key, value) in fields {
        let path = child(path, key);
        match schema.fields().get(key) {
            Some(field) => visit(field, value, &path, findings)?,
            None => findings.add(format!("unknown field \"{path}\"")),
        }
    }
    Ok(())
}

fn map(schema: &Schema, value: &Value, path: &str, findings: &mut DecodingErrors) -> Result<(), String> {
    let Some(values) = schema.values() else { return Ok(()) };
    for (key, value) in value.as_object().into_iter().flatten() {
        visit(values, value, &child(path, key), findings)?;
    }
    Ok(())
}

fn list(schema: &Schema, items: &[Value], path: &str, findings: &mut DecodingErrors) -> Result<(), String> {
    let Some(schema) = schema.items() else { return Ok(()) };
    for (index, item) in items.iter().enumerate() {
        visit(schema, item, &format!("{path}[{index}]"), findings)?;
    }
    Ok(())
}

fn child(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn scalar(wanted: Type, schema: &Schema, value: &Value) -> Result<(), String> {
    let name = go_type::scalar_type(schema);
    match (wanted, value) {
        (Type::String, Value::String(text)) if name == "[]uint8" => super::decode::first_bad_base64(text)
            .map_or(Ok(()), |at| {
                Err(format!("error decoding from json: illegal base64 data at input byte {at}"))
            }),
        (Type::String, _) if name == "[]uint8" => Err(format!("cannot restore slice from {}", kind(value))),
        (Type::String, Value::String(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Number, Value::Number(_)) => Ok(()),
        (Type::Integer, Value::Number(number)) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() != 0.0 => {
                Err(format!("cannot convert float64 to {name}"))
            }
            _ => Ok(()),
        },
        // Go's error for an integer in a string field differs from those of other types.
        (Type::String, Value::Number(number)) if !number.is_f64() => {
            Err(format!("cannot convert int64 to {name}"))
        }
        _ => Err(format!("unrecognized type: {name}")),
    }
}

fn check_custom(custom: Custom, value: &Value) -> Result<(), String> {
    let not_a = |wanted: &str| {
        Err(format!("json: cannot unmarshal {} into Go value of type {wanted}", go_kind(value)))
    };
    match (custom, value) {
        (Custom::Raw | Custom::SchemaOr { .. }, _)
        | (Custom::IntOrString, Value::String(_) | Value::Number(_)) => Ok(()),
        (Custom::Quantity, Value::String(_) | Value::Number(_)) => {
            Quantity::from_json(value).map(drop).map_err(|error| error.to_string())
        }
        (Custom::Quantity, _) => {
            Quantity::parse(&value.to_string()).map(drop).map_err(|error| error.to_string())
        }
        (Custom::IntOrString, _) => not_a("int32"),
        (Custom::Time, Value::String(text)) => time::parse(text, Precision::Seconds).map(drop),
        (Custom::MicroTime, Value::String(text)) => time::parse(text, Precision::Micros).map(drop),
        (Custom::Time | Custom::MicroTime, _) => not_a("string"),
    }
}

/// The name of a decoded value's type in Go's reflection.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
