//! The difference between two objects, printed for a person.
//!
//! Only fields that differ are shown, each below the path that leads to it. List elements are matched by their `name`
//! or another field that identifies them; if there is no such field, they are matched by position.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

/// The fields that can identify the elements of a list, in the order in which they are tried.
const ELEMENT_KEYS: [&str; 5] = ["name", "type", "containerPort", "port", "key"];
/// The indentation of each level of fields.
const INDENT: usize = 2;

/// The difference between two objects, printed field by field.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    title: String,
    root: Node,
}

/// How the second object is compared with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The two must be equal.
    Same,
    /// The second must have at least the fields of the first. A null in the first means that the field must be absent.
    Has,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// A value that only one side has, or that differs between the sides.
    Leaf { expected: Option<Value>, found: Option<Value> },
    /// Fields or list elements that contain differences.
    Inside(Vec<(String, Node)>),
}

impl Diff {
    /// Compares two objects. Returns `None` if there is no difference.
    pub(crate) fn new(expected: &Value, found: &Value, mode: Mode) -> Option<Self> {
        let root = compare(expected, found, mode)?;
        Some(Self { title: title(found), root })
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (- expected, + found):", self.title)?;
        print(f, &self.root, 0)
    }
}

/// Kind, namespace and name of an object, such as `Deployment default/web`, as far as it has them.
fn title(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or("object");
    match (text("/metadata/namespace"), text("/metadata/name")) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        _ => kind.to_owned(),
    }
}

fn compare(expected: &Value, found: &Value, mode: Mode) -> Option<Node> {
    let inside = match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => fields(expected, found, mode),
        (Value::Array(expected), Value::Array(found)) => elements(expected, found, mode),
        _ if expected == found => return None,
        _ => return Some(Node::Leaf { expected: Some(expected.clone()), found: Some(found.clone()) }),
    };
    (!inside.is_empty()).then_some(Node::Inside(inside))
}

fn fields(expected: &Map<String, Value>, found: &Map<String, Value>, mode: Mode) -> Vec<(String, Node)> {
    let names: BTreeSet<&String> = match mode {
        Mode::Same => expected.keys().chain(found.keys()).collect(),
        Mode::Has => expected.keys().collect(),
    };
    let differing = names.into_iter().filter_map(|name| {
        let node = pair(expected.get(name), found.get(name), mode)?;
        Some((name.clone(), node))
    });
    differing.collect()
}

/// Compares two values of which either may be missing. In [`Mode::Has`], an expected null matches a missing value.
fn pair(expected: Option<&Value>, found: Option<&Value>, mode: Mode) -> Option<Node> {
    match (expected.filter(|value| mode == Mode::Same || !value.is_null()), found) {
        (None, None) => None,
        (Some(expected), Some(found)) => compare(expected, found, mode),
        (expected, found) => Some(Node::Leaf { expected: expected.cloned(), found: found.cloned() }),
    }
}

fn elements(expected: &[Value], found: &[Value], mode: Mode) -> Vec<(String, Node)> {
    match ELEMENT_KEYS.into_iter().find(|key| tells_apart(key, expected) && tells_apart(key, found)) {
        Some(key) => keyed(key, expected, found, mode),
        None => placed(expected, found, mode),
    }
}

/// Whether every element is an object that has this field, with a different value in each.
fn tells_apart(key: &str, list: &[Value]) -> bool {
    let mut seen = BTreeSet::new();
    list.iter().all(|element| {
        let name = element.get(key).filter(|name| name.is_string() || name.is_number());
        name.is_some_and(|name| seen.insert(name.to_string()))
    })
}

/// Compares elements that a field identifies. In [`Mode::Has`], the found list may have more elements.
fn keyed(key: &str, expected: &[Value], found: &[Value], mode: Mode) -> Vec<(String, Node)> {
    let by_name = |list: &[Value], name: &Value| list.iter().find(|element| &element[key] == name).cloned();
    let surplus = found.iter().filter(|_| mode == Mode::Same);
    let mut names: Vec<&Value> = Vec::new();
    for element in expected.iter().chain(surplus) {
        if !names.contains(&&element[key]) {
            names.push(&element[key]);
        }
    }
    let differing = names.into_iter().filter_map(|name| {
        let node = pair(by_name(expected, name).as_ref(), by_name(found, name).as_ref(), mode)?;
        Some((format!("[{key}: {}]", scalar(name)), node))
    });
    differing.collect()
}

/// Compares elements by position. Both lists must have the same length.
fn placed(expected: &[Value], found: &[Value], mode: Mode) -> Vec<(String, Node)> {
    let places = 0..expected.len().max(found.len());
    let differing = places.filter_map(|at| {
        let node = pair(expected.get(at), found.get(at), mode)?;
        Some((format!("[{at}]"), node))
    });
    differing.collect()
}

fn print(f: &mut fmt::Formatter<'_>, node: &Node, depth: usize) -> fmt::Result {
    match node {
        Node::Inside(children) => children.iter().try_for_each(|(name, child)| match child {
            Node::Inside(_) => {
                writeln!(f, "  {:depth$}{name}:", "")?;
                print(f, child, depth + INDENT)
            }
            Node::Leaf { expected, found } => {
                side(f, '-', name, expected.as_ref(), depth)?;
                side(f, '+', name, found.as_ref(), depth)
            }
        }),
        Node::Leaf { expected, found } => {
            side(f, '-', "", expected.as_ref(), depth)?;
            side(f, '+', "", found.as_ref(), depth)
        }
    }
}

/// Prints one side of a difference like YAML, with a sign before each line.
fn side(
    f: &mut fmt::Formatter<'_>,
    sign: char,
    name: &str,
    value: Option<&Value>,
    depth: usize,
) -> fmt::Result {
    let Some(value) = value else { return Ok(()) };
    let label = if name.is_empty() { String::new() } else { format!("{name}: ") };
    match value {
        Value::Object(map) if !map.is_empty() => {
            writeln!(f, "{sign} {:depth$}{}", "", label.trim_end())?;
            map.iter().try_for_each(|(name, value)| side(f, sign, name, Some(value), depth + INDENT))
        }
        Value::Array(list) if !list.is_empty() => {
            writeln!(f, "{sign} {:depth$}{}", "", label.trim_end())?;
            let mut elements = list.iter().enumerate();
            elements
                .try_for_each(|(at, value)| side(f, sign, &format!("[{at}]"), Some(value), depth + INDENT))
        }
        scalar_value => writeln!(f, "{sign} {:depth$}{label}{}", "", scalar(scalar_value)),
    }
}

/// Prints a scalar as JSON, so that the string `"2"` and the number `2` look different.
fn scalar(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(expected: Value, found: Value, mode: Mode, shown: &str) {
        let diff = Diff::new(&expected, &found, mode).map(|diff| diff.to_string()).unwrap_or_default();
        assert_eq!(diff, shown, "\n{diff}");
    }

    #[test]
    fn only_what_differs_is_shown_below_what_leads_there() {
        let object = |image: &str| {
            json!({
                "kind": "Pod", "metadata": {"name": "a", "namespace": "default"},
                "spec": {"containers": [{"name": "side", "image": "x"}, {"name": "main", "image": image}]},
            })
        };
        let mut found = object("nginx:1.30");
        found["spec"]["containers"].as_array_mut().expect("it is a list").swap(0, 1);
        check(
            object("nginx:1.29"),
            found,
            Mode::Same,
            concat!(
                "Pod default/a (- expected, + found):\n",
                "  spec:\n",
                "    containers:\n",
                "      [name: \"main\"]:\n",
                "-       image: \"nginx:1.29\"\n",
                "+       image: \"nginx:1.30\"\n",
            ),
        );
    }

    #[test]
    fn what_is_missing_and_what_is_surplus_has_one_side() {
        check(
            json!({"data": {"a": "1", "b": "2"}}),
            json!({"data": {"b": "2", "c": {"d": [1, {"e": null}]}}}),
            Mode::Same,
            concat!(
                "object (- expected, + found):\n",
                "  data:\n",
                "-   a: \"1\"\n",
                "+   c:\n",
                "+     d:\n",
                "+       [0]: 1\n",
                "+       [1]:\n",
                "+         e: null\n",
            ),
        );
    }

    #[test]
    fn having_more_is_no_difference_unless_it_is_to_be_absent() {
        let found = json!({"spec": {"replicas": 2, "paused": true, "args": ["a", "b"], "env": [{"name": "A", "value": "1"}, {"name": "B"}]}});
        check(json!({"spec": {"replicas": 2, "env": [{"name": "B"}]}}), found.clone(), Mode::Has, "");
        check(
            json!({"spec": {"paused": null, "args": ["a"], "replicas": "2"}}),
            found,
            Mode::Has,
            concat!(
                "object (- expected, + found):\n",
                "  spec:\n",
                "    args:\n",
                "+     [1]: \"b\"\n",
                "+   paused: true\n",
                "-   replicas: \"2\"\n",
                "+   replicas: 2\n",
            ),
        );
    }

    #[test]
    fn the_same_is_no_difference() {
        check(json!([1, {"a": []}]), json!([1, {"a": []}]), Mode::Same, "");
    }
}
