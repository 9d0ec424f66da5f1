//! Reading and changing the parts of a value.

use std::ops;

use super::{Map, Number, Value};
use crate::Text;

/// What a value can be indexed by: a name, or a position in a list.
pub trait Index {
    /// The part of a value; `None` if it has no such part.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// The part of a value, to be changed; `None` if it has no such part.
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// The part of a value, to be changed; a missing member of a map is added.
    fn or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Index for str {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match value {
            Value::Object(members) => members.get(self),
            _ => None,
        }
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        match value {
            Value::Object(members) => members.get_mut(self),
            _ => None,
        }
    }

    fn or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(members) => members.entry(self).or_insert(Value::Null),
            other => panic!("cannot access key {self:?} in JSON {}", other.kind()),
        }
    }
}

impl Index for usize {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        let kind = value.kind();
        match value.as_array_mut().map(|items| (items.len(), items.get_mut(*self))) {
            Some((_, Some(item))) => item,
            Some((len, None)) => panic!("cannot access index {self} of JSON array of length {len}"),
            None => panic!("cannot access index {self} of JSON {kind}"),
        }
    }
}

macro_rules! as_text {
    ($($name:ty),*) => {$(
        impl Index for $name {
            fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
                str::of(self, value)
            }
            fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
                str::of_mut(self, value)
            }
            fn or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
                str::or_insert(self, value)
            }
        }
    )*};
}

as_text!(String, Text);

impl<T: Index + ?Sized> Index for &T {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).of_mut(value)
    }

    fn or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).or_insert(value)
    }
}

/// The value of a missing part.
static NULL: Value = Value::Null;

impl<I: Index> ops::Index<I> for Value {
    type Output = Value;

    /// The part of the value; null if it is missing.
    fn index(&self, index: I) -> &Value {
        index.of(self).unwrap_or(&NULL)
    }
}

impl<I: Index> ops::IndexMut<I> for Value {
    /// The part of the value, which is added if it is a missing member of a map. Null becomes a map.
    ///
    /// # Panics
    /// If the value is neither null nor a map, or the list has no such item.
    fn index_mut(&mut self, index: I) -> &mut Value {
        index.or_insert(self)
    }
}

impl Value {
    /// The part of the value with this name, or at this position; `None` if it is missing.
    pub fn get<I: Index>(&self, index: I) -> Option<&Value> {
        index.of(self)
    }

    /// The part of the value with this name, or at this position, to be changed; `None` if it is missing.
    pub fn get_mut<I: Index>(&mut self, index: I) -> Option<&mut Value> {
        index.of_mut(self)
    }

    /// The part of the value at a JSON pointer; `None` if it is missing.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Value::Object(members) => members.get(&step),
            Value::Array(items) => items.get(position(&step)?),
            _ => None,
        })
    }

    /// The part of the value at a JSON pointer, to be changed; `None` if it is missing.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Value::Object(members) => members.get_mut(&step),
            Value::Array(items) => items.get_mut(position(&step)?),
            _ => None,
        })
    }

    /// Takes the value, and leaves null.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// Whether the two values are one, because one is an unchanged clone of the other. Scalars are compared. False says
    /// nothing: the values may be equal.
    pub fn is_shared_with(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Object(a), Value::Object(b)) => a.is_shared_with(b),
            (Value::Array(a), Value::Array(b)) => a.is_shared_with(b),
            (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => false,
            (a, b) => a == b,
        }
    }

    /// The name of the value's type, for messages.
    fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// Whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Whether the value is a boolean.
    pub fn is_boolean(&self) -> bool {
        matches!(self, Value::Bool(_))
    }

    /// Whether the value is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Value::Number(_))
    }

    /// Whether the value is an integer between `i64::MIN` and `i64::MAX`.
    pub fn is_i64(&self) -> bool {
        self.as_number().is_some_and(Number::is_i64)
    }

    /// Whether the value is an integer between zero and `u64::MAX`.
    pub fn is_u64(&self) -> bool {
        self.as_number().is_some_and(Number::is_u64)
    }

    /// Whether the value is a number with a fraction or an exponent.
    pub fn is_f64(&self) -> bool {
        self.as_number().is_some_and(Number::is_f64)
    }

    /// Whether the value is a string.
    pub fn is_string(&self) -> bool {
        matches!(self, Value::String(_))
    }

    /// Whether the value is a list.
    pub fn is_array(&self) -> bool {
        matches!(self, Value::Array(_))
    }

    /// Whether the value is a map.
    pub fn is_object(&self) -> bool {
        matches!(self, Value::Object(_))
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The integer, if it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The integer, if it is one that fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// The number as a float, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The items, if the value is a list.
    pub fn as_array(&self) -> Option<&Vec<Value>> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The items to be changed, if the value is a list. A shared list is copied.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members, if the value is a map.
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The members to be changed, if the value is a map.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The null, if it is one.
    pub fn as_null(&self) -> Option<()> {
        self.is_null().then_some(())
    }
}

/// The steps of a JSON pointer; `None` if it is none.
fn steps(pointer: &str) -> Option<impl Iterator<Item = String>> {
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return None;
    }
    Some(pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")))
}

/// The position that a step of a JSON pointer means.
fn position(step: &str) -> Option<usize> {
    if step.starts_with('+') || (step.starts_with('0') && step.len() != 1) {
        return None;
    }
    step.parse().ok()
}
