//! A JSON value that keeps the order of its keys: some errors name the fields of a body in the order of the request.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// A JSON value that keeps the order of its keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Ordered {
    /// A value without elements or entries.
    Scalar(Value),
    /// A list.
    List(Vec<Ordered>),
    /// An object, with its keys in the order of the script.
    Map(Vec<(String, Ordered)>),
}

impl Ordered {
    /// Returns the value of a key, or `None` if there is no such key.
    pub fn get(&self, key: &str) -> Option<&Ordered> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Converts to a JSON value, without the order of the keys.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Map(entries) => {
                entries.iter().map(|(key, value)| (key.clone(), value.to_value())).collect()
            }
        }
    }

    /// Maps every string and every key.
    pub fn map_texts(&self, map: &impl Fn(&str) -> String) -> Self {
        match self {
            Self::Scalar(Value::String(text)) => Self::Scalar(Value::String(map(text))),
            Self::Scalar(other) => Self::Scalar(other.clone()),
            Self::List(items) => Self::List(items.iter().map(|item| item.map_texts(map)).collect()),
            Self::Map(entries) => {
                Self::Map(entries.iter().map(|(key, value)| (map(key), value.map_texts(map))).collect())
            }
        }
    }
}

impl From<Value> for Ordered {
    fn from(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(map) => {
                Self::Map(map.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
            scalar => Self::Scalar(scalar),
        }
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(value) => value.serialize(to),
            Self::List(items) => items.serialize(to),
            Self::Map(entries) => {
                let mut map = to.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Ordered, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Ordered, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Ordered::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Ordered, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = from.next_entry::<String, Ordered>()? {
            entries.push((key, value));
        }
        Ok(Ordered::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_in_their_order() {
        let text = r#"{"b":1,"a":[{"z":null,"y":"x"}]}"#;
        let ordered: Ordered = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&ordered).unwrap(), text);
        assert_eq!(ordered.to_value(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(ordered.get("b"), Some(&Ordered::Scalar(1.into())));
    }
}
