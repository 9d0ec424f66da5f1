//! The form that field sets have in `fieldsV1`.
//!
//! Keys are `f:name`, `k:{"key":"value"}`, `v:value` and `i:index`; a node that is a member and has children
//! carries `"."`; a node without children is a member.

use std::fmt::Write as _;
use std::str::FromStr;

use super::{FieldSet, PathElement};
use crate::json::{Map, Value};

/// A text that is no field set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSetError {
    /// The text is no JSON object of objects.
    #[error("a field set is an object of objects")]
    Shape,
    /// A key is no path element.
    #[error("parsing key as path element: {0}")]
    Element(String),
}

impl FieldSet {
    /// The value of `fieldsV1`.
    pub fn to_json(&self) -> Value {
        self.emit(false)
    }

    /// Reads the value of `fieldsV1`. Elements of a kind that is not known are left out, as Kubernetes does.
    pub fn from_json(value: &Value) -> Result<Self, FieldSetError> {
        read(value).map(|(set, _)| set)
    }

    /// The text of `fieldsV1`, keys in the order in which Kubernetes prints them.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.print(false, &mut text);
        text
    }

    /// What of this set is in the one that a value of `fieldsV1` is; the value is not read any further than that.
    pub(crate) fn intersection_with_json(&self, value: &Value) -> Self {
        let mut both = Self::new();
        for (element, member, children) in self.entries() {
            let Some(there) = value.get(element_text(element)) else { continue };
            let is_member = there.as_object().is_none_or(|there| there.is_empty() || there.contains_key("."));
            both.put(element.clone(), member && is_member, children.intersection_with_json(there));
        }
        both
    }

    fn emit(&self, is_member: bool) -> Value {
        let mut map = Map::new();
        if is_member && !self.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, member, children) in self.entries() {
            map.insert(element_text(element), children.emit(member));
        }
        Value::Object(map)
    }

    fn print(&self, is_member: bool, text: &mut String) {
        text.push('{');
        let mut separator = "";
        if is_member && !self.is_empty() {
            text.push_str(r#"".":{}"#);
            separator = ",";
        }
        for (element, member, children) in self.entries() {
            let _ = write!(text, "{separator}{}:", Value::String(element_text(element)));
            children.print(member, text);
            separator = ",";
        }
        text.push('}');
    }
}

impl FromStr for FieldSet {
    type Err = FieldSetError;

    fn from_str(text: &str) -> Result<Self, FieldSetError> {
        Self::from_json(&serde_json::from_str(text).map_err(|_| FieldSetError::Shape)?)
    }
}

/// The set beneath a node, and whether the node itself is a member.
fn read(value: &Value) -> Result<(FieldSet, bool), FieldSetError> {
    let map = match value {
        Value::Null => return Ok((FieldSet::new(), true)),
        Value::Object(map) => map,
        _ => return Err(FieldSetError::Shape),
    };
    let mut set = FieldSet::new();
    for (key, value) in map.iter().filter(|(key, _)| *key != ".") {
        if let Some(element) = parse_element(key)? {
            let (children, member) = read(value)?;
            set.put(element, member, children);
        }
    }
    let member = set.is_empty() || map.contains_key(".");
    Ok((set, member))
}

fn element_text(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{}:{value}", Value::from(name.as_ref())))
                .collect();
            format!("k:{{{}}}", fields.join(","))
        }
        PathElement::Value(value) => format!("v:{value}"),
        PathElement::Index(index) => format!("i:{index}"),
    }
}

/// `None` is an element of a kind that a later version may know.
fn parse_element(text: &str) -> Result<Option<PathElement>, FieldSetError> {
    let wrong = || FieldSetError::Element(text.to_owned());
    let (kind, rest) = text.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or_else(wrong)?;
    let json = || serde_json::from_str::<Value>(rest).map_err(|_| wrong());
    Ok(Some(match kind {
        "f" => PathElement::field(rest),
        "v" => PathElement::Value(json()?),
        "i" => PathElement::Index(rest.parse().map_err(|_| wrong())?),
        "k" => match json()? {
            Value::Object(fields) => {
                PathElement::key(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
            _ => return Err(wrong()),
        },
        _ => return Ok(None),
    }))
}
