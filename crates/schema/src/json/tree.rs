//! Decodes a JSON tree as Go's decoder does.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Map, Number, Value};

/// Below this bound (2⁵³), a float without a fraction is exactly an integer.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Builds a tree. The last of equal keys wins, as in Go, and the flag records whether there were equal keys.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a>(pub &'a Cell<bool>);

/// Converts a float to a value. A float without a fraction becomes an integer, because Go prints it as one.
pub(crate) fn float(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        return Value::Number((value as i64).into());
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Turns every float of a tree that is whole into an integer, as [`Tree`] reads it.
///
/// The caller must bound the depth of the tree; patches refuse to make a tree that is too deep.
pub fn settle_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => *value = float(number.as_f64().unwrap_or_default()),
        Value::Array(items) => items.iter_mut().for_each(settle_floats),
        Value::Object(members) => members.values_mut().for_each(settle_floats),
        _ => {}
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = members.next_value_seed(self)?;
            if map.insert(key.into(), value).is_some() {
                self.0.set(true);
            }
        }
        Ok(Value::Object(map))
    }
}
