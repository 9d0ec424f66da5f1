//! A JSON tree that is changed in place and shared by its clones: the tree that the API server works on.
//!
//! A [`Value`] has the shape and the methods of `serde_json::Value`. Three things differ. A clone shares maps and lists
//! with the original, and whoever changes a shared part copies that part alone. So a changed copy of an object shares
//! all that did not change, and [`Value::is_shared_with`] tells so at once, without looking inside. Strings and names
//! of up to [`Text::INLINE_MAX`](crate::Text::INLINE_MAX) bytes need no allocation, and an empty map or list has none.
//!
//! ```
//! use evenkeel_tree::value::{Value, json};
//!
//! let pod = json!({"metadata": {"name": "web"}, "spec": {"nodeName": "a"}});
//! let mut moved = pod.clone();
//! moved["spec"]["nodeName"] = "b".into();
//! assert_eq!(pod["spec"]["nodeName"], "a");
//! assert!(moved["metadata"].is_shared_with(&pod["metadata"]));
//! ```

mod access;
mod compare;
mod deserializer;
mod from;
mod list;
mod map;
mod serde_impl;

pub use access::Index;
pub use list::List;
pub use map::{Entry, IntoIter, Iter, IterMut, Map};
pub use serde_json::Number;

use std::fmt;

pub use crate::Text;

/// A JSON value. Clones share maps and lists until one of them is changed.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// A list.
    Array(List),
    /// A map.
    Object(Map),
}

/// Makes a [`Value`] of JSON text with expressions in it, like `serde_json::json!`.
///
/// ```
/// use evenkeel_tree::value::json;
///
/// let name = "web";
/// assert_eq!(json!({"metadata": {"name": name}}).to_string(), r#"{"metadata":{"name":"web"}}"#);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __json {
    ($($json:tt)+) => {
        $crate::value::Value::from($crate::value::__json($crate::value::__serde_json::json!($($json)+)))
    };
}

pub use crate::__json as json;

#[doc(hidden)]
pub use serde_json as __serde_json;

#[doc(hidden)]
pub fn __json(value: serde_json::Value) -> serde_json::Value {
    value
}

/// Prints the value as compact JSON, or indented by two spaces with `{:#}`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            if f.alternate() { serde_json::to_string_pretty(self) } else { serde_json::to_string(self) };
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

/// Prints the value as `serde_json` does.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("Null"),
            Value::Bool(value) => write!(f, "Bool({value})"),
            Value::Number(number) => fmt::Debug::fmt(number, f),
            Value::String(text) => write!(f, "String({text:?})"),
            Value::Array(items) => {
                f.write_str("Array ")?;
                fmt::Debug::fmt(items, f)
            }
            Value::Object(members) => {
                f.write_str("Object ")?;
                fmt::Debug::fmt(members, f)
            }
        }
    }
}

/// Reads a value as another type.
///
/// # Errors
/// If the value does not have the fields of the type.
pub fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    T::deserialize(&value)
}

/// Converts anything that can be JSON to a value.
///
/// # Errors
/// If the conversion fails, or a map has keys that are no strings.
pub fn to_value<T: serde::Serialize>(value: T) -> serde_json::Result<Value> {
    serde_json::to_value(value).map(Value::from)
}

#[cfg(test)]
mod tests;
