//! The operators.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::library;
use crate::value::equality::{Fuel, equal};
use crate::value::time;
use crate::value::{Fault, Outcome, Value, compare};

/// Applies an operator.
pub(crate) fn call<'a>(function: &str, args: &[Value<'a>], fuel: &Fuel) -> Outcome<Value<'a>> {
    let order = |wanted: fn(Ordering) -> bool| match args {
        [a, b] => compare(a, b).map(|order| Value::Bool(wanted(order))),
        _ => Err(Fault::no_overload()),
    };
    match (function, args) {
        ("_==_", [a, b]) => equal(a, b, fuel).map(Value::Bool),
        ("_!=_", [a, b]) => equal(a, b, fuel).map(|equal| Value::Bool(!equal)),
        ("_<_", _) => order(Ordering::is_lt),
        ("_<=_", _) => order(Ordering::is_le),
        ("_>_", _) => order(Ordering::is_gt),
        ("_>=_", _) => order(Ordering::is_ge),
        ("_+_", [a, b]) => add(a, b),
        ("_-_", [a, b]) => subtract(a, b),
        ("_*_", [a, b]) => multiply(a, b),
        ("_/_", [a, b]) => divide(a, b),
        ("_%_", [a, b]) => modulo(a, b),
        ("-_", [Value::Int(a)]) => a.checked_neg().map(Value::Int).ok_or_else(overflow),
        ("-_", [Value::Double(a)]) => Ok(Value::Double(-a)),
        ("!_", [Value::Bool(a)]) => Ok(Value::Bool(!a)),
        ("_[_]", [a, b]) => index(a, b),
        ("_[?_]" | "_?._", [a, b]) => {
            let inner = match a {
                Value::Optional(None) => return Ok(Value::Optional(None)),
                Value::Optional(Some(inner)) => inner.as_ref(),
                other => other,
            };
            Ok(Value::Optional(index_optional(inner, b)?.map(Rc::new)))
        }
        ("@in", [a, b]) => contains(a, b, fuel),
        _ => Err(Fault::no_overload()),
    }
}

fn overflow() -> Fault {
    Fault::new("integer overflow")
}

fn unsigned_overflow() -> Fault {
    Fault::new("unsigned integer overflow")
}

pub(crate) fn add<'a>(a: &Value<'a>, b: &Value<'a>) -> Outcome<Value<'a>> {
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_add(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_add(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a + b),
        (Value::String(a), Value::String(b)) => Value::text(format!("{}{}", &**a, &**b)),
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([a.as_ref(), b.as_ref()].concat().into()),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_add(*b).ok_or_else(time::duration_overflow)?)
        }
        (Value::Timestamp(time), Value::Duration(nanos))
        | (Value::Duration(nanos), Value::Timestamp(time)) => {
            Value::Timestamp(time.plus(i128::from(*nanos)).ok_or_else(time::timestamp_overflow)?)
        }
        (Value::List(a), Value::List(b)) => {
            let mut items = a.to_vec()?;
            items.extend(b.to_vec()?);
            Value::list(items)
        }
        _ => return Err(Fault::no_overload()),
    })
}

fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> Outcome<Value<'a>> {
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_sub(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_sub(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a - b),
        (Value::Duration(a), Value::Duration(b)) => {
            Value::Duration(a.checked_sub(*b).ok_or_else(time::duration_overflow)?)
        }
        (Value::Timestamp(time), Value::Duration(nanos)) => {
            Value::Timestamp(time.plus(-i128::from(*nanos)).ok_or_else(time::timestamp_overflow)?)
        }
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            Value::Duration(a.since(b).ok_or_else(time::duration_overflow)?)
        }
        _ => return Err(Fault::no_overload()),
    })
}

fn multiply<'a>(a: &Value<'a>, b: &Value<'a>) -> Outcome<Value<'a>> {
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_mul(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a.checked_mul(*b).ok_or_else(unsigned_overflow)?),
        (Value::Double(a), Value::Double(b)) => Value::Double(a * b),
        _ => return Err(Fault::no_overload()),
    })
}

fn divide<'a>(a: &Value<'a>, b: &Value<'a>) -> Outcome<Value<'a>> {
    Ok(match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(Fault::new("division by zero"));
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_div(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a / b),
        (Value::Double(a), Value::Double(b)) => Value::Double(a / b),
        _ => return Err(Fault::no_overload()),
    })
}

fn modulo<'a>(a: &Value<'a>, b: &Value<'a>) -> Outcome<Value<'a>> {
    Ok(match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            return Err(Fault::new("modulus by zero"));
        }
        (Value::Int(a), Value::Int(b)) => Value::Int(a.checked_rem(*b).ok_or_else(overflow)?),
        (Value::Uint(a), Value::Uint(b)) => Value::Uint(a % b),
        _ => return Err(Fault::no_overload()),
    })
}

/// The list index that a number denotes; `None` for a number with a fraction.
fn position(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Int(index) => Some(*index),
        Value::Uint(index) => i64::try_from(*index).ok(),
        Value::Double(index) if index.fract() == 0.0 && index.abs() < 9e18 => Some(*index as i64),
        _ => None,
    }
}

fn index<'a>(value: &Value<'a>, key: &Value<'a>) -> Outcome<Value<'a>> {
    match value {
        Value::Map(map) => {
            map.find(key)?.ok_or_else(|| Fault::new(format!("no such key: {}", library::show(key))))
        }
        Value::List(list) => {
            let Some(at) = position(key) else {
                return Err(Fault::new(format!(
                    "unsupported index type '{}' in list",
                    key.cel_type().name()
                )));
            };
            let out_of_bounds = || Fault::new(format!("index out of bounds: {at}"));
            list.get(usize::try_from(at).map_err(|_| out_of_bounds())?)
        }
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => Ok(Value::Optional(index_optional(inner, key)?.map(Rc::new))),
        _ => Err(Fault::new(format!("no such key: {}", library::show(key)))),
    }
}

/// Looks up an index or a key; `None` if it is missing.
pub(crate) fn index_optional<'a>(value: &Value<'a>, key: &Value<'a>) -> Outcome<Option<Value<'a>>> {
    match value {
        Value::Map(map) => map.find(key),
        Value::List(list) => match position(key).and_then(|at| usize::try_from(at).ok()) {
            Some(at) if at < list.len() => list.get(at).map(Some),
            _ => Ok(None),
        },
        Value::Optional(Some(inner)) => index_optional(inner, key),
        Value::Optional(None) => Ok(None),
        _ => Ok(None),
    }
}

fn contains<'a>(item: &Value<'a>, of: &Value<'a>, fuel: &Fuel) -> Outcome<Value<'a>> {
    match of {
        Value::Map(map) => Ok(Value::Bool(map.find(item)?.is_some())),
        Value::List(list) => {
            let mut fault = None;
            for other in list.iter() {
                match equal(&other?, item, fuel) {
                    Ok(true) => return Ok(Value::Bool(true)),
                    Ok(false) => {}
                    Err(Fault::Limit) => return Err(Fault::Limit),
                    Err(error) => fault = Some(error),
                }
            }
            fault.map_or(Ok(Value::Bool(false)), Err)
        }
        _ => Err(Fault::no_overload()),
    }
}
