//! The differences between two normalized states.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::state::{KeyParts, World};

/// How long a value may be in a message.
const VALUE_LENGTH: usize = 120;

/// One difference between the undisturbed end and that of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The key of the object.
    pub object: String,
    /// The path of the field; empty for the whole object.
    pub path: String,
    /// The undisturbed value; `None` if there was none.
    pub expected: Option<String>,
    /// The value in the run; `None` if there is none.
    pub found: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = KeyParts::of(&self.object).short();
        match (&*self.path, &self.expected, &self.found) {
            ("", Some(_), None) => write!(f, "{object} is missing"),
            ("", None, Some(_)) => write!(f, "{object} is left, which the undisturbed run does not have"),
            (path, expected, found) => {
                let shown = |value: &Option<String>| value.as_deref().map_or("nothing".to_owned(), short);
                write!(f, "{object}{path} is {}, undisturbed {}", shown(found), shown(expected))
            }
        }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(VALUE_LENGTH) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The differences between two states, without those at a path that varies between undisturbed runs.
pub(crate) fn differences(
    expected: &World,
    found: &World,
    varying: &BTreeSet<(String, String)>,
) -> Vec<Difference> {
    let keys: BTreeSet<&String> = expected.objects.keys().chain(found.objects.keys()).collect();
    let mut out = Vec::new();
    for key in keys {
        if varying.contains(&(key.clone(), String::new())) {
            continue;
        }
        match (expected.objects.get(key), found.objects.get(key)) {
            (Some(a), Some(b)) => fields(key, String::new(), a, b, &mut out),
            (a, b) => out.push(Difference {
                object: key.clone(),
                path: String::new(),
                expected: a.map(Value::to_string),
                found: b.map(Value::to_string),
            }),
        }
    }
    out.retain(|it| {
        !varying
            .iter()
            .any(|(object, path)| *object == it.object && it.path.starts_with(&**path) && !path.is_empty())
    });
    out
}

/// All paths at which two states differ, by key. A key that only one of them has differs as a whole.
pub(crate) fn paths_that_differ(one: &World, other: &World) -> BTreeSet<(String, String)> {
    let found = differences(one, other, &BTreeSet::new());
    found.into_iter().map(|difference| (difference.object, difference.path)).collect()
}

fn fields(key: &str, path: String, expected: &Value, found: &Value, out: &mut Vec<Difference>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let (a, b) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
                fields(key, format!("{path}.{name}"), a, b, out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                fields(key, format!("{path}[{at}]"), a, b, out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            let text = |value: &Value| (!value.is_null()).then(|| value.to_string());
            out.push(Difference { object: key.to_owned(), path, expected: text(a), found: text(b) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn world(objects: Value) -> World {
        let objects = objects.as_object().cloned().unwrap_or_default();
        World { objects: objects.into_iter().collect() }
    }

    #[test]
    fn differences_name_object_and_field() {
        let key = "/registry/apps/statefulsets/default/web";
        let expected = world(json!({key: {"spec": {"replicas": 2, "ports": [1, 2]}}}));
        let found = world(json!({key: {"spec": {"replicas": 1, "ports": [1, 2]}}}));
        let told: Vec<String> =
            differences(&expected, &found, &BTreeSet::new()).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["statefulsets/web.spec.replicas is 1, undisturbed 2"]);
        let told = differences(&expected, &world(json!({})), &BTreeSet::new());
        assert_eq!(told[0].to_string(), "statefulsets/web is missing");
        let varying = BTreeSet::from([(key.to_owned(), ".spec.replicas".to_owned())]);
        assert!(differences(&expected, &found, &varying).is_empty());
    }
}
