//! Parses and prints `fieldsV1`.
//!
//! Keys are `f:name`, `k:{"key":"value"}`, `v:value` and `i:index`. A node without children is a member; a node with
//! children is a member if it has the key `"."`.

use std::fmt::Write as _;
use std::str::FromStr;

use super::{FieldSet, PathElement};
use crate::json::{Map, Value};

/// The error for a text that is not a field set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldSetError {
    /// The text is not a JSON object of objects.
    #[error("a field set is an object of objects")]
    Shape,
    /// A key is not a path element.
    #[error("parsing key as path element: {0}")]
    Element(String),
}

impl FieldSet {
    /// The value of `fieldsV1`.
    pub fn to_json(&self) -> Value {
        self.emit(false)
    }

    /// Parses the value of `fieldsV1`. Elements of an unknown type are skipped, as in Kubernetes.
    pub fn from_json(value: &Value) -> Result<Self, FieldSetError> {
        read(value).map(|(set, _)| set)
    }

    /// The text of `fieldsV1`, with its keys in Kubernetes' order.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.print(false, &mut text);
        text
    }

    pub(super) fn emit(&self, is_member: bool) -> Value {
        let mut map = Map::new();
        if is_member && !self.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for (element, member, children) in self.entries() {
            map.insert(element_text(element).into(), children.emit(member));
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
            let _ = write!(text, "{separator}{}:", Value::String(element_text(element).into()));
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
    let mut text = String::new();
    write_element(element, &mut text);
    text
}

/// Writes the key of an element in `fieldsV1`.
pub(super) fn write_element(element: &PathElement, text: &mut String) {
    match element {
        PathElement::Field(name) => {
            text.push_str("f:");
            text.push_str(name);
        }
        PathElement::Key(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.as_ref(), value));
            write_key(fields, text);
        }
        PathElement::Value(value) => write_value(value, text),
        PathElement::Index(index) => {
            let _ = write!(text, "i:{index}");
        }
    }
}

/// Writes the key of an item that is identified by its key fields, which must be sorted by name.
pub(crate) fn write_key<'v>(fields: impl Iterator<Item = (&'v str, &'v Value)>, text: &mut String) {
    text.push_str("k:{");
    for (index, (name, value)) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_text(name, text);
        text.push(':');
        write_json(value, text);
    }
    text.push('}');
}

/// Writes the key of an item that is identified by its value.
pub(crate) fn write_value(value: &Value, text: &mut String) {
    text.push_str("v:");
    write_json(value, text);
}

fn write_json(value: &Value, text: &mut String) {
    match value {
        Value::String(value) => write_text(value, text),
        other => {
            let _ = write!(text, "{other}");
        }
    }
}

/// Writes a JSON string. Go escapes the characters that are special in HTML.
fn write_text(value: &str, text: &mut String) {
    if value.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&')) {
        text.push('"');
        text.push_str(value);
        text.push('"');
    } else {
        let quoted = Value::from(value).to_string();
        let escaped = quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        text.push_str(&escaped);
    }
}

/// Parses a key; `None` for an element of a type that a later version may introduce.
fn parse_element(text: &str) -> Result<Option<PathElement>, FieldSetError> {
    let wrong = || FieldSetError::Element(text.to_owned());
    let (kind, rest) = text.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or_else(wrong)?;
    let json = || serde_json::from_str::<Value>(rest).map_err(|_| wrong());
    Ok(Some(match kind {
        "f" => PathElement::field(rest),
        "v" => PathElement::Value(json()?),
        "i" => PathElement::Index(rest.parse().map_err(|_| wrong())?),
        "k" => match json()? {
            Value::Object(fields) => PathElement::key(
                fields.into_iter().map(|(name, value)| (name.as_str().into(), value)).collect(),
            ),
            _ => return Err(wrong()),
        },
        _ => return Ok(None),
    }))
}
