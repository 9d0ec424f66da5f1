//! The JSON tree that this crate works on.
//!
//! Other modules import the tree type from here, so that another one can replace it.

mod tree;

use std::cmp::Ordering;

use evenkeel_scalars::go;

pub use evenkeel_tree::value::{List, Map, Number, Text, Value, from_value, json, to_value};
pub(crate) use tree::float;
pub use tree::{Tree, settle_floats};

/// Looks up a value by a chain of object keys; `None` if one is missing or its parent is not an object.
///
/// ```
/// use evenkeel_schema::json::{get, Value};
/// let pod: Value = evenkeel_schema::json::json!({"metadata": {"name": "web"}});
/// assert_eq!(get(&pod, &["metadata", "name"]), Some(&Value::from("web")));
/// assert_eq!(get(&pod, &["spec", "nodeName"]), None);
/// ```
pub fn get<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v Value> {
    keys.iter().try_fold(value, |value, key| value.get(key))
}

/// The string at a chain of object keys, or Go's zero value `""` if there is none.
pub fn text<'v>(value: &'v Value, keys: &[&str]) -> &'v str {
    get(value, keys).and_then(Value::as_str).unwrap_or_default()
}

/// The name of a value's JSON type in the errors of Go's decoder.
pub fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Compares two values in Kubernetes' order: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let first = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let pairs = a.iter().zip(b);
            let first = pairs.map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1))).find(|o| o.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Whether two values are equal; `1` and `1.0` are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || compare_numbers(a, b).is_eq(),
        _ if a.is_shared_with(b) => true,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
        }
        _ => a == b,
    }
}

/// Whether two maps have equal members, by the given comparison, apart from those that `but` selects.
pub(crate) fn same_but(
    a: &Map,
    b: &Map,
    but: impl Fn(&str) -> bool,
    same: impl Fn(&str, &Value, &Value) -> bool,
) -> bool {
    let [mut a, mut b] = [a, b].map(|map| map.iter().filter(|(name, _)| !but(name)));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some((a_name, a)), Some((b_name, b))) if a_name == b_name && same(a_name, a, b) => {}
            _ => return false,
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Prints a value for the path of a conflict, with strings quoted as by Go's `%q`.
pub(crate) fn path_text(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(path_text).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", path_text(value))).collect(),
        _ => go::text(value),
    }
}
