//! The numeric fields of built-in kinds and the extreme values to try in them.

use evenkeel_schema::types::{self, Schema, Type};
use serde_json::{Value, json};

/// How many levels of missing objects are created to set a field.
const MADE_LEVELS: usize = 2;
/// How deep fields are searched for. Below that are the schemas of CRDs, which contain themselves.
const LEVELS_MAX: usize = 12;

/// The paths of the numeric fields of an object of a built-in kind, each with a value to try.
pub(crate) fn fields(object: &Value) -> Vec<(Vec<String>, Value)> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    if let Some(schema) = types::builtin(group, version, kind) {
        collect(schema, object, &[], 0, &mut found);
    }
    found
}

/// The extreme values of a numeric field.
fn extremes(schema: &Schema) -> Vec<Value> {
    let integers = [0, -1, i64::from(i32::MAX), i64::from(i32::MAX) + 1, i64::MAX, i64::MIN];
    let quantities = [
        "9223372036854775807",
        "-9223372036854775808E",
        "9223372036854775807Ei",
        "1e2147483647",
        "1e-2147483648",
        "0.000000000000000000001",
    ];
    let percentages = ["9223372036854775807%", "-1%", "100000000000000000000%"];
    match schema.value_type() {
        Some(Type::Integer) => integers.into_iter().map(Value::from).collect(),
        Some(Type::Number) => vec![json!(f64::MAX), json!(f64::MIN_POSITIVE), json!(-1.0)],
        _ => match &*schema.resolve().format {
            "int-or-string" => {
                integers.into_iter().map(Value::from).chain(percentages.map(Value::from)).collect()
            }
            "quantity" => quantities.map(Value::from).to_vec(),
            _ if schema.type_name().is_some_and(|name| name.ends_with(".Quantity")) => {
                quantities.map(Value::from).to_vec()
            }
            _ if schema.type_name().is_some_and(|name| name.ends_with(".IntOrString")) => {
                integers.into_iter().map(Value::from).chain(percentages.map(Value::from)).collect()
            }
            _ => Vec::new(),
        },
    }
}

/// Collects the numeric fields of an object, each with the values to try.
fn collect(
    schema: &Schema,
    object: &Value,
    path: &[String],
    made: usize,
    found: &mut Vec<(Vec<String>, Value)>,
) {
    let below = |part: &str| -> Vec<String> { path.iter().cloned().chain([part.to_owned()]).collect() };
    let values = extremes(schema);
    if !values.is_empty() {
        found.extend(values.into_iter().map(|value| (path.to_vec(), value)));
        return;
    }
    if path.len() >= LEVELS_MAX || made > MADE_LEVELS {
        return;
    }
    // A pod template has the same fields as a Pod, which is a sample of its own.
    let left_out = |name: &str| matches!(name, "managedFields" | "template");
    for (name, field) in schema.fields().iter().filter(|(name, _)| !left_out(name)) {
        let value = object.get(name).unwrap_or(&Value::Null);
        collect(field, value, &below(name), made + usize::from(value.is_null()), found);
    }
    if let (Some(items), Some(first)) = (schema.items(), object.get(0)) {
        collect(items, first, &below("0"), made, found);
    }
    if let (Some(values), Some(map)) = (schema.values(), object.as_object())
        && let Some((key, value)) = map.iter().next()
    {
        collect(values, value, &below(key), made, found);
    }
}

/// Returns the object with another value at a path; missing levels are created.
pub(crate) fn with(object: &Value, path: &[String], value: &Value) -> Value {
    let mut changed = object.clone();
    let mut place = &mut changed;
    for part in path {
        place = match place {
            Value::Array(items) => {
                &mut items[part.parse::<usize>().expect("a part of the path of a list is an index")]
            }
            other => &mut other[part.as_str()],
        };
    }
    *place = value.clone();
    changed
}
