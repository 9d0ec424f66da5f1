//! `Serialize` and `Deserialize`.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Map, Text, Tree};

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Tree::Null => serializer.serialize_unit(),
            Tree::Bool(value) => serializer.serialize_bool(*value),
            Tree::Integer(number) => serializer.serialize_i64(*number),
            Tree::Unsigned(number) => serializer.serialize_u64(*number),
            Tree::Float(number) => serializer.serialize_f64(*number),
            Tree::Text(text) => serializer.serialize_str(text.as_str()),
            Tree::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Tree::Map(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TreeSeed { nulls: true }.deserialize(deserializer)
    }
}

/// A tree that is read without map members that are null, which mean the same as missing members in a Kubernetes
/// object.
///
/// ```
/// use evenkeel_tree::{WithoutNulls, tree};
///
/// let WithoutNulls(read) = serde_json::from_str(r#"{"name": "a", "deletionTimestamp": null, "list": [null]}"#)?;
/// assert_eq!(read.to_string(), r#"{"list":[null],"name":"a"}"#);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WithoutNulls(pub Tree);

impl<'de> Deserialize<'de> for WithoutNulls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TreeSeed { nulls: false }.deserialize(deserializer).map(Self)
    }
}

/// Reads a tree, with or without the members of maps that are null.
#[derive(Clone, Copy)]
struct TreeSeed {
    nulls: bool,
}

impl<'de> DeserializeSeed<'de> for TreeSeed {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TreeSeed {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(i64::try_from(number).map_or(Tree::Unsigned(number), Tree::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(if number.is_finite() { Tree::Float(number) } else { Tree::Null })
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Tree::List(items.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members: Vec<(Text, Tree)> = Vec::new();
        while let Some(name) = map.next_key()? {
            let value = map.next_value_seed(self)?;
            if self.nulls || !value.is_null() {
                members.push((name, value));
            }
        }
        Ok(Tree::Map(Map::new(members)))
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Any JSON value: all forms of numbers, texts around the length that is kept inline, names that repeat.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // Eighths: `serde_json` reads other fractions with a rounding error in the last digit.
            any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
            "[a-zé~/]{0,30}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                proptest::collection::btree_map("[a-cé/~]{0,2}|[a-z]{22,24}", inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_tree_says_what_a_value_says(value in any_json(), other in any_json()) {
            let text = value.to_string();
            let tree: Tree = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&tree).unwrap(), text);
            prop_assert_eq!(&Tree::from(value.clone()), &tree);
            prop_assert_eq!(&tree.to_value(), &value);
            prop_assert_eq!(tree == Tree::from(other.clone()), value == other);
        }

        #[test]
        fn a_path_reads_and_writes_as_a_pointer_does(value in any_json(), steps in proptest::collection::vec("[a-cé/~]{0,2}|[0-2]", 1..4)) {
            let escaped = steps.iter().map(|step| step.replace('~', "~0").replace('/', "~1"));
            let path = escaped.collect::<Vec<_>>().join("/");
            let mut tree = Tree::from(value.clone());
            let expected = value.pointer(&format!("/{path}")).cloned().unwrap_or_default();
            prop_assert_eq!(tree.at(&path).to_value(), expected.clone());
            if !expected.is_null() {
                let mut changed = value;
                *changed.pointer_mut(&format!("/{path}")).unwrap() = 7.into();
                tree.set(&path, 7);
                prop_assert_eq!(tree.to_value(), changed);
            }
        }
    }

    #[test]
    fn the_last_of_two_members_with_one_name_counts() {
        let text = r#"{"b": 1, "a": 1, "b": 2, "a": 3, "b": 4}"#;
        let tree: Tree = serde_json::from_str(text).unwrap();
        assert_eq!(tree.to_string(), r#"{"a":3,"b":4}"#);
        assert_eq!(tree.to_value(), serde_json::from_str::<Value>(text).unwrap());
    }
}
