//! Conversions from Rust values, and from and to `serde_json::Value`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

use crate::{Text, Tree, value};

impl Tree {
    /// Converts the tree to a `serde_json::Value`, for code that reads one.
    pub fn to_value(&self) -> Value {
        match self {
            Tree::Null => Value::Null,
            Tree::Bool(value) => (*value).into(),
            Tree::Integer(number) => (*number).into(),
            Tree::Unsigned(number) => (*number).into(),
            Tree::Float(number) => (*number).into(),
            Tree::Text(text) => text.as_str().into(),
            Tree::List(items) => items.iter().map(Tree::to_value).collect(),
            Tree::Map(map) => map.iter().map(|(name, value)| (name, value.to_value())).collect(),
        }
    }

    /// Decodes the value as a type; `None` if it does not fit.
    pub fn decode<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(self.to_value()).ok()
    }
}

/// Converts a tree to one that can be changed in place. Strings are shared.
impl From<&Tree> for value::Value {
    fn from(tree: &Tree) -> Self {
        match tree {
            Tree::Null => Self::Null,
            Tree::Bool(value) => (*value).into(),
            Tree::Integer(number) => (*number).into(),
            Tree::Unsigned(number) => (*number).into(),
            Tree::Float(number) => (*number).into(),
            Tree::Text(text) => text.clone().into(),
            Tree::List(items) => items.iter().map(Self::from).collect(),
            Tree::Map(map) => map.iter().map(|(name, value)| (name, Self::from(value))).collect(),
        }
    }
}

impl From<&value::Value> for Tree {
    fn from(value: &value::Value) -> Self {
        match value {
            value::Value::Null => Tree::Null,
            value::Value::Bool(value) => Tree::Bool(*value),
            value::Value::Number(number) => number.clone().into(),
            value::Value::String(text) => Tree::Text(text.clone()),
            value::Value::Array(items) => Tree::List(items.iter().map(Tree::from).collect()),
            value::Value::Object(members) => Tree::Map(crate::Map::new(
                members.iter().map(|(name, value)| (name.clone(), value.into())).collect(),
            )),
        }
    }
}

impl From<Value> for Tree {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(value),
            Value::Number(number) => number.into(),
            Value::String(text) => text.into(),
            Value::Array(items) => items.into(),
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| (name.as_str().into(), value.into()));
                Tree::Map(crate::Map::new(members.collect()))
            }
        }
    }
}

impl From<Number> for Tree {
    fn from(number: Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Tree::Integer(number),
            (None, Some(number)) => Tree::Unsigned(number),
            (None, None) => number.as_f64().map_or(Tree::Null, Tree::Float),
        }
    }
}

impl From<&Tree> for Tree {
    fn from(tree: &Tree) -> Self {
        tree.clone()
    }
}

impl From<bool> for Tree {
    fn from(value: bool) -> Self {
        Tree::Bool(value)
    }
}

impl From<i32> for Tree {
    fn from(number: i32) -> Self {
        Tree::Integer(number.into())
    }
}

impl From<i64> for Tree {
    fn from(number: i64) -> Self {
        Tree::Integer(number)
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Tree::Text(text.into())
    }
}

impl From<&String> for Tree {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Text> for Tree {
    fn from(text: Text) -> Self {
        Tree::Text(text)
    }
}

impl<T: Into<Tree>> From<Option<T>> for Tree {
    fn from(value: Option<T>) -> Self {
        value.map_or(Tree::Null, Into::into)
    }
}

impl<T: Into<Tree>> From<Vec<T>> for Tree {
    fn from(items: Vec<T>) -> Self {
        Tree::List(items.into_iter().map(Into::into).collect())
    }
}

impl From<&[Tree]> for Tree {
    fn from(items: &[Tree]) -> Self {
        Tree::List(items.into())
    }
}

impl From<&BTreeMap<String, String>> for Tree {
    fn from(map: &BTreeMap<String, String>) -> Self {
        Tree::map(map.iter().map(|(name, value)| (name.as_str().into(), value.into())).collect())
    }
}
