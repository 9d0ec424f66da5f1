//! Whether a value fits its schema well enough to be merged, in the words of Kubernetes.

use std::collections::BTreeSet;

use super::typed::{Atom, ListView, MapView, Node, Scalar};
use crate::fieldset::PathElement;
use crate::json::{Value, go_kind, go_text};

/// What does not fit, each with the path to it.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(String, String)>);

impl Faults {
    fn push(&mut self, path: &[PathElement], message: impl Into<String>) {
        let path = path.iter().map(ToString::to_string).collect();
        self.0.push((path, message.into()));
    }

    /// One fault as it is, several as a list.
    pub(super) fn into_message(self) -> Option<String> {
        let one = |(path, message): &(String, String)| {
            if path.is_empty() { message.clone() } else { format!("{path}: {message}") }
        };
        match self.0.as_slice() {
            [] => None,
            [fault] => Some(one(fault)),
            faults => {
                let lines: String = faults.iter().map(|fault| format!("\n  {}", one(fault))).collect();
                Some(format!("errors:{lines}"))
            }
        }
    }
}

/// Checks a whole object.
pub(super) fn validate(node: Node<'_>, value: &Value, allow_duplicates: bool) -> Result<(), String> {
    let mut walk = Walk { faults: Faults::default(), path: Vec::new(), allow_duplicates };
    walk.value(node, value);
    walk.faults.into_message().map_or(Ok(()), Err)
}

struct Walk {
    faults: Faults,
    path: Vec<PathElement>,
    allow_duplicates: bool,
}

impl Walk {
    fn fault(&mut self, message: impl Into<String>) {
        self.faults.push(&self.path, message);
    }

    fn value(&mut self, node: Node<'_>, value: &Value) {
        if value.is_null() {
            return;
        }
        match (node.atom(Some(value)), value) {
            (Atom::Map(map), Value::Object(fields)) => self.map(map, fields),
            (Atom::Map(_), _) => self.fault(format!("expected map, got &{{{}}}", go_text(value))),
            (Atom::List(list), Value::Array(items)) => self.list(list, items),
            (Atom::List(_), _) => self.fault(format!("expected list, got &{{{}}}", go_text(value))),
            (Atom::Scalar(kind), _) => self.scalar(kind, value),
        }
    }

    fn map(&mut self, map: MapView<'_>, fields: &crate::json::Map<String, Value>) {
        for (name, value) in fields {
            self.path.push(PathElement::field(name));
            let known = map.field(name);
            match known {
                Some((node, _)) => self.value(node, value),
                None => self.fault("field not declared in schema"),
            }
            self.path.pop();
            if known.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, list: ListView<'_>, items: &[Value]) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = if list.atomic {
                PathElement::Index(index as i64)
            } else {
                match list.element(item) {
                    Ok(element) => element,
                    Err(message) => return self.fault(format!("element {index}: {message}")),
                }
            };
            if !list.atomic && !seen.insert(element.clone()) && !self.allow_duplicates {
                self.fault(format!("duplicate entries for key {element}"));
            }
            self.path.push(element);
            self.value(list.items(), item);
            self.path.pop();
        }
    }

    fn scalar(&mut self, kind: Scalar, value: &Value) {
        match (kind, value) {
            (Scalar::Numeric, Value::Number(_))
            | (Scalar::String, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => {}
            (Scalar::Numeric, _) => {
                self.fault(format!("expected numeric (int or float), got {}", go_type(value)));
            }
            (Scalar::String, _) => self.fault(format!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_syntax(value)
            )),
            (Scalar::Boolean, _) => self.fault(format!("expected boolean, got &{{{}}}", go_text(value))),
            (Scalar::Any, _) => self.fault(format!("expected any scalar, got &{{{}}}", go_text(value))),
        }
    }
}

/// Go's `%T` of a decoded value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        _ => go_kind(value),
    }
}

/// Go's `%#v` of a decoded value.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => crate::json::go_quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<_> = map
                .iter()
                .map(|(key, value)| format!("{}:{}", crate::json::go_quote(key), go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::Number(number) if number.is_f64() => {
            crate::json::go_float(number.as_f64().unwrap_or_default())
        }
        _ => value.to_string(),
    }
}
