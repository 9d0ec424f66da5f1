//! Reading a value as a type, through serde.

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::Value;

/// How the names begin by which `serde_json` reads a `RawValue`.
const TEXT: &str = "$serde_json::private::";

impl<'de> Deserializer<'de> for &'de Value {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text.as_str()),
            Value::Array(items) => SeqDeserializer::new(items.iter()).deserialize_any(visitor),
            Value::Object(members) => {
                MapDeserializer::new(members.iter().map(|(name, value)| (name.as_str(), value)))
                    .deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self {
            Value::Null => visitor.visit_none(),
            other => visitor.visit_some(other),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self {
            Value::String(text) => {
                let text: StrDeserializer<'_, Self::Error> = text.as_str().into_deserializer();
                text.deserialize_enum(name, variants, visitor)
            }
            other => serde_json::Value::from(other).deserialize_enum(name, variants, visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        // The text of a value, which `serde_json` asks for by the name of a type of its own.
        if name.starts_with(TEXT) {
            return serde_json::Value::from(self).deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for &'de Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
