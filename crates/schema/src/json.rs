//! The JSON tree that every engine of this crate works on.
//!
//! The tree type is named here and nowhere else, so that a faster one can replace it where a profile says so.

pub use serde_json::{Map, Number, Value};

/// Looks a value up by a chain of object keys; `None` as soon as one is missing or its parent is no object.
///
/// ```
/// use evenkeel_schema::json::{get, Value};
/// let pod: Value = serde_json::json!({"metadata": {"name": "web"}});
/// assert_eq!(get(&pod, &["metadata", "name"]), Some(&Value::from("web")));
/// assert_eq!(get(&pod, &["spec", "nodeName"]), None);
/// ```
pub fn get<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v Value> {
    keys.iter().try_fold(value, |value, key| value.get(key))
}

/// The string at a chain of object keys, or `""` where there is none: Go's zero value, which most rules want.
pub fn text<'v>(value: &'v Value, keys: &[&str]) -> &'v str {
    get(value, keys).and_then(Value::as_str).unwrap_or_default()
}

/// The name that Go's decoder has for the type of a JSON value.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
