//! The spelling of numbers in a JSON text. Go's errors quote a number as the client wrote it, such as `1e2`, but a
//! parsed tree contains only its value.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::value::RawValue;

use crate::json::{Number, Value};

/// One step of the path to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A field of a struct.
    Field(String),
    /// A key of a map.
    Key(String),
    /// An element of a list.
    Index(usize),
}

impl Step {
    /// Returns the name of the field or key.
    pub(super) fn into_key(self) -> String {
        match self {
            Self::Field(key) | Self::Key(key) => key,
            Self::Index(_) => String::new(),
        }
    }

    /// Whether this part of a JSON pointer refers to this step, if a value is added there.
    fn is_named(&self, part: &str) -> bool {
        match self {
            Self::Field(key) | Self::Key(key) => *key == part,
            Self::Index(index) => part == "-" || part.parse() == Ok(*index),
        }
    }
}

/// A float that the decoder refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RefusedFloat {
    pub(super) path: Vec<Step>,
    pub(super) number: Number,
    /// The float as spelled in the text, once it is found.
    pub(super) spelling: Option<Box<str>>,
}

impl RefusedFloat {
    /// Finds the spelling in the text of the object or of a merge patch, where it has the same path.
    pub(super) fn spell(&mut self, text: &str) {
        self.spelling = find(text, &self.path, &self.number).map(Into::into);
    }

    /// Finds the spelling in the text of a JSON patch, in the last operation that adds a value at this path. A number
    /// that the patch moves or copies is not found.
    pub(super) fn spell_by_json_patch(&mut self, text: &str) {
        #[derive(serde::Deserialize)]
        struct Operation<'a> {
            path: String,
            #[serde(borrow)]
            value: Option<&'a RawValue>,
        }
        let Ok(operations) = serde_json::from_str::<Vec<Operation<'_>>>(text) else { return };
        let spelled = operations.iter().rev().find_map(|operation| {
            let parts =
                operation.path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
            let mut below = self.path.as_slice();
            for part in parts {
                let (step, rest) = below.split_first()?;
                below = step.is_named(&part).then_some(rest)?;
            }
            find(operation.value?.get(), below, &self.number)
        });
        self.spelling = spelled.map(Into::into);
    }

    /// Prints a tree as JSON, with the float in its original spelling.
    pub(super) fn print(&self, tree: &Value) -> Option<String> {
        let spelling = RawValue::from_string(self.spelling.as_deref()?.to_owned()).ok()?;
        serde_json::to_string(&Spelled { tree, path: &self.path, spelling: &spelling }).ok()
    }
}

/// Returns the text of this float at a path in a JSON text. If members are duplicated, the first one with this float
/// counts, because Go's decoder reports the first error.
fn find<'a>(text: &'a str, path: &[Step], number: &Number) -> Option<&'a str> {
    let Some((step, rest)) = path.split_first() else {
        let is_spelling = text.parse::<Number>().is_ok_and(|parsed| parsed == *number);
        return is_spelling.then_some(text);
    };
    match step {
        Step::Index(index) => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            find(items.get(*index)?.get(), rest, number)
        }
        Step::Field(name) | Step::Key(name) => {
            let Members(members) = serde_json::from_str(text).ok()?;
            let named = members.into_iter().filter(|(key, _)| key == name);
            named.map(|(_, value)| value.get()).find_map(|value| find(value, rest, number))
        }
    }
}

/// The members of a JSON object in the order of the text, with duplicates.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(member) = members.next_entry()? {
                    list.push(member);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_map(InOrder).map(Members)
    }
}

/// A tree that prints one number in its original spelling.
struct Spelled<'a> {
    tree: &'a Value,
    /// The path to the number.
    path: &'a [Step],
    spelling: &'a RawValue,
}

impl Serialize for Spelled<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some((step, path)) = self.path.split_first() else { return self.spelling.serialize(serializer) };
        let spelled = |tree| Spelled { tree, path, spelling: self.spelling };
        match (step, self.tree) {
            (Step::Index(index), Value::Array(items)) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for (at, item) in items.iter().enumerate() {
                    match at == *index {
                        true => list.serialize_element(&spelled(item))?,
                        false => list.serialize_element(item)?,
                    }
                }
                list.end()
            }
            (Step::Field(name) | Step::Key(name), Value::Object(members)) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    match key == name {
                        true => map.serialize_entry(key, &spelled(value))?,
                        false => map.serialize_entry(key, value)?,
                    }
                }
                map.end()
            }
            (_, other) => other.serialize(serializer),
        }
    }
}
