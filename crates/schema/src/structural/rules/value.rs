//! The values that expressions compute with.
//!
//! What comes from the object is borrowed from it and typed by its schema when it is looked at; what a rule makes is
//! counted, so that copying a value never copies its parts.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::kind::{Kind, Opaque as OpaqueKind};
use super::library::net::{Address, Network};
use super::library::semver::Version;
use super::library::time::Instant;
use super::library::url::Url;
use super::view::{JsonList, JsonMap};
use crate::json::Value as Json;
use crate::quantity::Quantity;

/// Why an evaluation ended without a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// An error of the language, which `&&` and `||` may absorb.
    Error(String),
    /// The evaluation cost too much; nothing absorbs that.
    Limit,
}

impl Fault {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Fault::Error(text.into())
    }

    /// The arguments of a call have types that it does not take.
    pub(super) fn no_overload() -> Self {
        Fault::new("no such overload")
    }
}

/// What a computation gives.
pub(super) type Outcome<T> = Result<T, Fault>;

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    Timestamp(Instant),
    /// In nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Rc<Value<'a>>>),
    Type(Kind),
    Opaque(Rc<Opaque>),
    /// A value without a schema, of which only equality is known.
    Preserved(&'a Json),
    /// The error that a loop met, which a later item may still outweigh.
    Failed(Rc<str>),
}

/// A value of one of Kubernetes' libraries.
#[derive(Debug, PartialEq)]
pub(super) enum Opaque {
    Url(Url),
    Quantity(Quantity),
    Ip(Address),
    Cidr(Network),
    Semver(Version),
    /// The name of a format.
    Format(&'static str),
}

impl Opaque {
    fn kind(&self) -> OpaqueKind {
        match self {
            Opaque::Url(_) => OpaqueKind::Url,
            Opaque::Quantity(_) => OpaqueKind::Quantity,
            Opaque::Ip(_) => OpaqueKind::Ip,
            Opaque::Cidr(_) => OpaqueKind::Cidr,
            Opaque::Semver(_) => OpaqueKind::Semver,
            Opaque::Format(_) => OpaqueKind::Format,
        }
    }
}

/// Text of the object or of the rule.
#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Borrowed(&'a str),
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

/// A list of the object, or one that the rule made.
#[derive(Debug, Clone)]
pub(super) enum List<'a> {
    Json(JsonList<'a>),
    Owned(Rc<Vec<Value<'a>>>),
}

/// A map or object of the object, or a map that the rule made.
#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    Json(JsonMap<'a>),
    Owned(Rc<BTreeMap<Key, (Value<'a>, Value<'a>)>>),
}

/// The key of a map: numbers that are equal are one key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Number(i128),
    String(Rc<str>),
}

impl<'a> Value<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Value::String(Text::Owned(text.into()))
    }

    pub(super) fn list(items: Vec<Value<'a>>) -> Self {
        Value::List(List::Owned(Rc::new(items)))
    }

    pub(super) fn texts<T: Into<Rc<str>>>(items: impl IntoIterator<Item = T>) -> Self {
        Value::list(items.into_iter().map(Value::text).collect())
    }

    pub(super) fn some(value: Value<'a>) -> Self {
        Value::Optional(Some(Rc::new(value)))
    }

    pub(super) fn opaque(value: Opaque) -> Self {
        Value::Opaque(Rc::new(value))
    }

    /// The value as a map key, if it can be one.
    pub(super) fn key(&self) -> Option<Key> {
        Some(match self {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Number(i128::from(*value)),
            Value::Uint(value) => Key::Number(i128::from(*value)),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 1e19 => Key::Number(*value as i128),
            Value::String(text) => Key::String(Rc::from(&**text)),
            _ => return None,
        })
    }

    /// The type at run time; what a list or map holds is not part of it.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Value::Null => Kind::Null,
            Value::Bool(_) => Kind::Bool,
            Value::Int(_) => Kind::Int,
            Value::Uint(_) => Kind::Uint,
            Value::Double(_) => Kind::Double,
            Value::String(_) => Kind::String,
            Value::Bytes(_) => Kind::Bytes,
            Value::Timestamp(_) => Kind::Timestamp,
            Value::Duration(_) => Kind::Duration,
            Value::List(_) => Kind::list(Kind::Dyn),
            Value::Map(_) => Kind::map(Kind::Dyn, Kind::Dyn),
            Value::Optional(_) => Kind::optional(Kind::Dyn),
            Value::Type(_) => Kind::type_of(Kind::Dyn),
            Value::Opaque(opaque) => Kind::Opaque(opaque.kind()),
            Value::Preserved(_) | Value::Failed(_) => Kind::Dyn,
        }
    }

    /// How many characters, bytes, items or entries there are; one for what has no size.
    pub(super) fn size(&self) -> u64 {
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

    /// Whether the value is the empty one of its type.
    pub(super) fn is_zero(&self) -> bool {
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
    pub(super) fn len(&self) -> usize {
        match self {
            List::Json(list) => list.items.len(),
            List::Owned(items) => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Outcome<Value<'a>> {
        match self {
            List::Json(list) => list.get(index),
            List::Owned(items) => {
                items.get(index).cloned().ok_or_else(|| Fault::new(format!("index out of bounds: {index}")))
            }
        }
    }

    /// Every item; one of the object may turn out not to be what its schema says.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Outcome<Value<'a>>> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(super) fn to_vec(&self) -> Outcome<Vec<Value<'a>>> {
        self.iter().collect()
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Map::Json(map) => map.fields.len(),
            Map::Owned(entries) => entries.len(),
        }
    }

    /// The value of a key, if there is one.
    pub(super) fn find(&self, key: &Value<'a>) -> Outcome<Option<Value<'a>>> {
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
    pub(super) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Json(map) => map.keys(),
            Map::Owned(entries) => entries.values().map(|(key, _)| key.clone()).collect(),
        }
    }
}

/// The order of two values that have one.
pub(super) fn compare(a: &Value<'_>, b: &Value<'_>) -> Outcome<Ordering> {
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

/// An integer against a float; none where the latter is no number.
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

/// Whether two numbers are equal, of whatever types; none where one is no number.
pub(super) fn equal_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<bool> {
    let number = |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    (number(a) && number(b)).then(|| compare_numbers(a, b) == Ok(Ordering::Equal))
}
