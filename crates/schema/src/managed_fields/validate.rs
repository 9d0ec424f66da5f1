//! Checks that a value matches its schema well enough to be merged. The messages are those of Kubernetes.

use evenkeel_scalars::go;

use super::items::{Index, Key};
use super::typed::{Atom, ListView, MapView, Node, Scalar};
use crate::fieldset::PathElement;
use crate::json::{Map, Value, go_kind};

/// The errors, each with its path.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(String, String)>);

impl Faults {
    fn push(&mut self, path: &[Step<'_>], message: impl Into<String>) {
        let path = path.iter().map(|step| step.element().to_string()).collect();
        self.0.push((path, message.into()));
    }

    /// Joins the errors to one message; `None` if there are none.
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

/// A step of the path to a value, printed only if there is an error.
#[derive(Clone, Copy)]
enum Step<'v> {
    Field(&'v str),
    Index(usize),
    Item(Key<'v>),
}

impl Step<'_> {
    fn element(&self) -> PathElement {
        match self {
            Self::Field(name) => PathElement::field(name),
            Self::Index(index) => PathElement::Index(*index as i64),
            Self::Item(key) => key.element(),
        }
    }
}

/// Checks a whole object. `known` is a valid object: values equal to its own are skipped.
pub(super) fn validate<'v>(
    node: Node<'v>,
    value: &'v Value,
    known: Option<&Value>,
    allow_duplicates: bool,
) -> Result<(), String> {
    let mut walk = Walk { faults: Faults::default(), path: Vec::new(), allow_duplicates };
    walk.value(node, value, known);
    walk.faults.into_message().map_or(Ok(()), Err)
}

struct Walk<'v> {
    faults: Faults,
    path: Vec<Step<'v>>,
    allow_duplicates: bool,
}

impl<'v> Walk<'v> {
    fn fault(&mut self, message: impl Into<String>) {
        self.faults.push(&self.path, message);
    }

    fn value(&mut self, node: Node<'v>, value: &'v Value, known: Option<&Value>) {
        if value.is_null() {
            return;
        }
        match (node.atom(Some(value)), value) {
            (Atom::Map(map), Value::Object(fields)) => self.map(map, fields, known),
            (Atom::Map(_), _) => self.fault(format!("expected map, got &{{{}}}", go::text(value))),
            (Atom::List(list), Value::Array(items)) => self.list(list, items, known),
            (Atom::List(_), _) => self.fault(format!("expected list, got &{{{}}}", go::text(value))),
            (Atom::Scalar(kind), _) => self.scalar(kind, value),
        }
    }

    fn map(&mut self, map: MapView<'v>, fields: &'v Map, known: Option<&Value>) {
        let mut known = known.and_then(Value::as_object).into_iter().flatten().peekable();
        for (name, value) in fields {
            while known.next_if(|(other, _)| *other < name).is_some() {}
            let there = known.next_if(|(other, _)| *other == name).map(|(_, there)| there);
            if there.is_some_and(|there| there.is_shared_with(value)) {
                continue;
            }
            self.path.push(Step::Field(name));
            let field = map.field(name);
            match field {
                Some((node, _)) => self.value(node, value, there),
                None => self.fault("field not declared in schema"),
            }
            self.path.pop();
            if field.is_none() {
                return;
            }
        }
    }

    fn list(&mut self, list: ListView<'v>, items: &'v [Value], known: Option<&Value>) {
        if list.atomic {
            for (index, item) in items.iter().enumerate() {
                self.path.push(Step::Index(index));
                self.value(list.items(), item, None);
                self.path.pop();
            }
            return;
        }
        let duplicates =
            if self.allow_duplicates { Vec::new() } else { Index::new(list, items).duplicates() };
        let known = known.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate() {
            let key = match Key::of(list, item) {
                Ok(key) => key,
                Err(message) => return self.fault(format!("element {index}: {message}")),
            };
            if duplicates.binary_search(&index).is_ok() {
                self.fault(format!("duplicate entries for key {}", key.element()));
            }
            let there = known.get(index).filter(|there| Key::of(list, there).is_ok_and(|there| there == key));
            self.path.push(Step::Item(key));
            self.value(list.items(), item, there);
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
            (Scalar::Boolean, _) => self.fault(format!("expected boolean, got &{{{}}}", go::text(value))),
            (Scalar::Any, _) => self.fault(format!("expected any scalar, got &{{{}}}", go::text(value))),
        }
    }
}

/// Prints the type of a decoded value as Go's `%T` does.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        _ => go_kind(value),
    }
}

/// Prints a decoded value as Go's `%#v` does.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => go::quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<_> =
                map.iter().map(|(key, value)| format!("{}:{}", go::quote(key), go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::Number(number) if number.is_f64() => go::float(number.as_f64().unwrap_or_default()),
        _ => value.to_string(),
    }
}
