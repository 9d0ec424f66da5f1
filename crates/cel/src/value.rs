//! The values that expressions compute with.
//!
//! Values of an object are borrowed from it, and typed by its schema when an expression reads them. Values that an
//! expression makes are reference-counted, so that cloning a value never copies its parts.

pub(crate) mod access;
pub(crate) mod equality;
pub(crate) mod nesting;
pub(crate) mod net;
pub(crate) mod semver;
pub(crate) mod time;
pub(crate) mod url;
pub(crate) mod view;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::types::{Opaque as OpaqueType, Type};
use crate::value::access::Access;
use crate::value::net::{Address, Network};
use crate::value::semver::Version;
use crate::value::time::Instant;
use crate::value::url::Url;
use crate::value::view::{JsonList, JsonMap};
use evenkeel_scalars::quantity::Quantity;
use evenkeel_tree::value::Value as Json;

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A run-time error of CEL, which `&&` and `||` may absorb.
    Error(String),
    /// The evaluation exceeded its cost limit; nothing absorbs that.
    Limit,
}

impl Fault {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Fault::Error(text.into())
    }

    /// The error for a string that cannot be converted to the type.
    pub(crate) fn conversion(to: &str) -> Self {
        Fault::new(format!("type conversion error from 'string' to '{to}'"))
    }

    /// The error for a call whose argument types match no overload.
    pub(crate) fn no_overload() -> Self {
        Fault::new("no such overload")
    }
}

/// The result of a computation.
pub type Outcome<T> = Result<T, Fault>;

/// A value of the language.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `double`.
    Double(f64),
    /// `string`.
    String(Text<'a>),
    /// `bytes`.
    Bytes(Rc<[u8]>),
    /// `google.protobuf.Timestamp`.
    Timestamp(Instant),
    /// `google.protobuf.Duration`, in nanoseconds.
    Duration(i64),
    /// `list`.
    List(List<'a>),
    /// `map`, or an object with named fields.
    Map(Map<'a>),
    /// `optional_type`.
    Optional(Option<Rc<Value<'a>>>),
    /// `type`.
    Type(Type),
    /// A value of one of Kubernetes' libraries.
    Opaque(Rc<Opaque>),
    /// The `authorizer` of an admission policy, a question to it, or its answer.
    Access(Rc<Access<'a>>),
    /// A value without a schema, kept by `x-kubernetes-preserve-unknown-fields`. Expressions can only compare it.
    Preserved(&'a Json),
    /// The error of a loop's earlier iteration, or of a policy's variable. It fails the expression only if the expression uses it.
    Failed(Rc<str>),
}

/// A value of one of Kubernetes' libraries.
#[derive(Debug, PartialEq)]
pub enum Opaque {
    Url(Url),
    Quantity(Quantity),
    Ip(Address),
    Cidr(Network),
    Semver(Version),
    /// The name of a format.
    Format(&'static str),
}

impl Opaque {
    fn cel_type(&self) -> OpaqueType {
        match self {
            Opaque::Url(_) => OpaqueType::Url,
            Opaque::Quantity(_) => OpaqueType::Quantity,
            Opaque::Ip(_) => OpaqueType::Ip,
            Opaque::Cidr(_) => OpaqueType::Cidr,
            Opaque::Semver(_) => OpaqueType::Semver,
            Opaque::Format(_) => OpaqueType::Format,
        }
    }
}

/// The text of a string value.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    /// Text of the object.
    Borrowed(&'a str),
    /// Text that the expression made.
    Owned(Rc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Owned(text) => text,
        }
    }
}

/// The items of a list value.
#[derive(Debug, Clone)]
pub enum List<'a> {
    /// A list of the object.
    Json(JsonList<'a>),
    /// A list that the expression made.
    Owned(Rc<Vec<Value<'a>>>),
}

/// The entries of a map value.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// A map or an object with named fields, of the object.
    Json(JsonMap<'a>),
    /// A map that the expression made: each key with its value.
    Owned(Rc<BTreeMap<Key, (Value<'a>, Value<'a>)>>),
}

/// The key of a map entry. Numbers that are equal are one key, whatever their types.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `bool`.
    Bool(bool),
    /// `int`, `uint`, or a `double` without a fraction.
    Number(i128),
    /// `string`.
    String(Rc<str>),
}

impl<'a> Value<'a> {
    /// A JSON value without a schema, as admission policies see objects.
    pub fn dynamic(json: &'a Json) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Value::Int(number),
                None => Value::Double(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Value::String(Text::Borrowed(text)),
            Json::Array(items) => Value::list(items.iter().map(Value::dynamic).collect()),
            Json::Object(fields) => {
                Value::fields(fields.iter().map(|(name, value)| (name.as_str(), Value::dynamic(value))))
            }
        }
    }

    /// A map from names to values.
    pub fn fields<'n>(fields: impl IntoIterator<Item = (&'n str, Value<'a>)>) -> Self {
        let entry = |(name, value): (&str, _)| {
            let name: Rc<str> = name.into();
            (Key::String(name.clone()), (Value::String(Text::Owned(name)), value))
        };
        Value::Map(Map::Owned(Rc::new(fields.into_iter().map(entry).collect())))
    }

    /// A text that the expression made.
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Value::String(Text::Owned(text.into()))
    }

    /// A list that the expression made.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Value::List(List::Owned(Rc::new(items)))
    }

    pub(crate) fn texts<T: Into<Rc<str>>>(items: impl IntoIterator<Item = T>) -> Self {
        Value::list(items.into_iter().map(Value::text).collect())
    }

    /// An optional that holds a value.
    pub fn some(value: Value<'a>) -> Self {
        Value::Optional(Some(Rc::new(value)))
    }

    pub(crate) fn opaque(value: Opaque) -> Self {
        Value::Opaque(Rc::new(value))
    }

    /// The value as a map key, if it can be one.
    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Number(i128::from(*value)),
            Value::Uint(value) => Key::Number(i128::from(*value)),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 1e19 => Key::Number(*value as i128),
            Value::String(text) => Key::String(Rc::from(&**text)),
            _ => return None,
        })
    }

    /// The type at run time, without the item type of a list or the value type of a map.
    pub fn cel_type(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Duration(_) => Type::Duration,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Type(_) => Type::type_of(Type::Dyn),
            Value::Opaque(opaque) => Type::Opaque(opaque.cel_type()),
            Value::Access(access) => Type::Opaque(access.cel_type()),
            Value::Preserved(_) | Value::Failed(_) => Type::Dyn,
        }
    }

    /// The number of characters, bytes, items or entries; one for a value without a size.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Optional(Some(value)) => value.size(),
            Value::Opaque(opaque) => match opaque.as_ref() {
                Opaque::Ip(address) => address.bytes(),
                Opaque::Cidr(network) => network.address.bytes(),
                _ => 1,
            },
            _ => 1,
        }
    }

    /// Whether the value is the zero value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Int(value) => *value == 0,
            Value::Uint(value) => *value == 0,
            Value::Double(value) => *value == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Duration(nanos) => *nanos == 0,
            Value::List(list) => list.len() == 0,
            Value::Map(map) => map.len() == 0,
            Value::Optional(value) => value.is_none(),
            _ => false,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            List::Json(list) => list.items.len(),
            List::Owned(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Outcome<Value<'a>> {
        match self {
            List::Json(list) => list.get(index),
            List::Owned(items) => {
                items.get(index).cloned().ok_or_else(|| Fault::new(format!("index out of bounds: {index}")))
            }
        }
    }

    /// Every item. An item of the object is an error if it does not match its schema.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Outcome<Value<'a>>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// All items.
    pub fn to_vec(&self) -> Outcome<Vec<Value<'a>>> {
        self.iter().collect()
    }
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Map::Json(map) => map.fields.len(),
            Map::Owned(entries) => entries.len(),
        }
    }

    /// The value of a key, if there is one.
    pub(crate) fn find(&self, key: &Value<'a>) -> Outcome<Option<Value<'a>>> {
        match self {
            Map::Json(map) => match key {
                Value::String(name) => map.find(name),
                _ => Err(Fault::no_overload()),
            },
            Map::Owned(entries) => {
                Ok(key.key().and_then(|key| entries.get(&key)).map(|(_, value)| value.clone()))
            }
        }
    }

    /// The keys, as expressions see them.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Json(map) => map.keys(),
            Map::Owned(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
        }
    }
}

/// Compares two values of an ordered type.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Outcome<Ordering> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        _ => return compare_numbers(a, b),
    })
}

fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Outcome<Ordering> {
    let nan = || Fault::new("NaN values cannot be ordered");
    match (integer(a), integer(b), float(a), float(b)) {
        (Some(a), Some(b), ..) => Ok(a.cmp(&b)),
        (_, _, Some(a), Some(b)) => a.partial_cmp(&b).ok_or_else(nan),
        (Some(a), _, _, Some(b)) => compare_mixed(a, b).ok_or_else(nan),
        (_, Some(b), Some(a), _) => compare_mixed(b, a).map(Ordering::reverse).ok_or_else(nan),
        _ => Err(Fault::no_overload()),
    }
}

fn integer(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    }
}

fn float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        _ => None,
    }
}

/// Compares an integer with a float; `None` if the float is NaN.
fn compare_mixed(a: i128, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    // Every integer here is below 2^64.
    if b >= 2e19 || b <= -2e19 {
        return Some(if b > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let whole = b.trunc() as i128;
    let order = a.cmp(&whole);
    Some(order.then_with(|| 0.0_f64.partial_cmp(&b.fract()).unwrap_or(Ordering::Equal)))
}

/// Whether two numbers are equal, whatever their types; `None` if one of the values is not a number.
pub(crate) fn equal_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<bool> {
    let number = |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    (number(a) && number(b)).then(|| compare_numbers(a, b) == Ok(Ordering::Equal))
}
