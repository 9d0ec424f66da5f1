//! JSON to a value, seeing keys that stand twice.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{Decoded, Oddities, syntax};

/// Below this, a float that is whole is the same number as an integer (2⁵³).
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Parses a body; the error is worded as Go words it. With `strict`, keys that stand twice are reported.
pub(crate) fn parse(body: &[u8], strict: bool) -> Result<Decoded, String> {
    let repeats = Cell::new(false);
    let object = read(body, &repeats)?;
    let mut oddities = Oddities::default();
    // The path of a repeat is wanted rarely: only then is the body read a second time, with a path at hand.
    if strict && repeats.get() {
        syntax::repeated_keys(body, &mut oddities.0);
    }
    Ok(Decoded { object, oddities })
}

fn read(body: &[u8], repeats: &Cell<bool>) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Seed(repeats).deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| syntax::explain(body).unwrap_or_else(|| error.to_string()))
}

/// The name Go gives to a JSON type in its errors.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Builds a value, the last of equal keys winning as in Go, and notes whether there were any.
struct Seed<'a>(&'a Cell<bool>);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
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
        // Go prints a float that is whole without a fraction, and so it is stored.
        if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
            return Ok(Value::Number((value as i64).into()));
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Seed(self.0))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = members.next_value_seed(Seed(self.0))?;
            if map.insert(key, value).is_some() {
                self.0.set(true);
            }
        }
        Ok(Value::Object(map))
    }
}
