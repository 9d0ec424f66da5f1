//! The differences between two normalized states.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::state::{KeyParts, World};

/// The most bytes of a value that a message shows.
const VALUE_LENGTH: usize = 120;

/// One difference between the final state of the undisturbed run and that of another run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The object's key, without its prefix.
    pub object: String,
    /// The path of the field, or an empty string if the whole object differs.
    pub path: String,
    /// The value in the undisturbed run, or `None` if the field or object does not exist there.
    pub expected: Option<String>,
    /// The value in the disturbed run, or `None` if the field or object does not exist there.
    pub found: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = KeyParts::of(&self.object).short();
        match (&*self.path, &self.expected, &self.found) {
            ("", Some(_), None) => write!(f, "{object} is missing"),
            ("", None, Some(_)) => write!(f, "{object} exists, which it does not in the undisturbed run"),
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

/// A part of the state that may differ, as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MayDiffer {
    /// The object, as `PLURAL/NAME`; a `*` at the end stands for any ending.
    pub(crate) object: String,
    /// The path of the field, or an empty string for the whole object.
    pub(crate) path: String,
}

impl MayDiffer {
    fn allows(&self, difference: &Difference) -> bool {
        let object = KeyParts::of(&difference.object).short();
        let is_named = match self.object.strip_suffix('*') {
            Some(beginning) => object.starts_with(beginning),
            None => object == self.object,
        };
        is_named && is_within(&difference.path, &self.path)
    }
}

/// Drops the differences that the user allows.
pub(crate) fn without_allowed(found: &mut Vec<Difference>, allowed: &[MayDiffer]) {
    found.retain(|difference| !allowed.iter().any(|allowed| allowed.allows(difference)));
}

/// The parts of the state that differ between undisturbed runs with other seeds, revisions and times, at one rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Varying {
    /// The fields that vary, by the key of their object.
    fields: BTreeMap<String, BTreeSet<String>>,
    /// The key prefixes under which the names of objects vary, but not their number.
    names: BTreeSet<String>,
    /// The key prefixes under which the number of objects varies.
    numbers: BTreeSet<String>,
}

impl Varying {
    /// Compares one state with the states of other undisturbed runs at the same rest.
    pub(crate) fn learn<'w>(world: &World, others: impl IntoIterator<Item = &'w World>) -> Self {
        let mut varying = Self::default();
        for other in others {
            let (mut missing, mut left) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
            let found = all_differences(world, other);
            for difference in &found {
                let folder = folder_of(&difference.object);
                match (&*difference.path, &difference.found) {
                    ("", None) => *missing.entry(folder).or_default() += 1,
                    ("", Some(_)) => *left.entry(folder).or_default() += 1,
                    (path, _) => {
                        varying.fields.entry(difference.object.clone()).or_default().insert(path.to_owned());
                    }
                }
            }
            for folder in missing.keys().chain(left.keys()) {
                let same = missing.get(folder) == left.get(folder);
                let folders = if same { &mut varying.names } else { &mut varying.numbers };
                folders.insert((*folder).to_owned());
            }
        }
        varying
    }

    /// Whether a field of this object varies.
    pub(crate) fn has_object(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// Whether the field at a path of an object varies.
    pub(crate) fn has_path(&self, key: &str, path: &str) -> bool {
        self.fields.get(key).is_some_and(|fields| fields.iter().any(|field| is_within(path, field)))
    }

    /// Drops differences that are only names: a missing object and an extra one under the same prefix cancel out if
    /// names vary there.
    fn without_names(&self, found: Vec<Difference>) -> Vec<Difference> {
        let mut spare: BTreeMap<(String, bool), usize> = BTreeMap::new();
        for difference in found.iter().filter(|it| it.path.is_empty()) {
            *spare
                .entry((folder_of(&difference.object).to_owned(), difference.found.is_some()))
                .or_default() += 1;
        }
        let mut kept = Vec::new();
        for difference in found {
            let folder = folder_of(&difference.object).to_owned();
            let whole = difference.path.is_empty();
            if whole && self.numbers.contains(&folder) {
                continue;
            }
            if whole && self.names.contains(&folder) {
                // Each missing object cancels one extra object, and the other way round.
                let other = spare.entry((folder, difference.found.is_none())).or_default();
                if *other > 0 {
                    *other -= 1;
                    continue;
                }
            }
            kept.push(difference);
        }
        kept
    }
}

/// Returns whether `path` is `field` or lies below it.
fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the key up to the last slash: the prefix shared by all objects of a kind and namespace.
fn folder_of(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(folder, _)| folder)
}

/// Returns the differences between two states, without those that also occur between undisturbed runs.
pub(crate) fn differences(expected: &World, found: &World, varying: &Varying) -> Vec<Difference> {
    let mut all = all_differences(expected, found);
    all.retain(|difference| !varying.has_path(&difference.object, &difference.path));
    varying.without_names(all)
}

/// Visits every value of an object that is neither a map nor a list, with its path as differences name it.
pub(crate) fn paths_within(object: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    fn walk(path: &mut String, value: &Value, visit: &mut dyn FnMut(&str, &Value)) {
        let length = path.len();
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    path.push('.');
                    path.push_str(name);
                    walk(path, value, visit);
                    path.truncate(length);
                }
            }
            Value::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    path.push_str(&format!("[{at}]"));
                    walk(path, value, visit);
                    path.truncate(length);
                }
            }
            value => visit(path, value),
        }
    }
    walk(&mut String::new(), object, visit);
}

fn all_differences(expected: &World, found: &World) -> Vec<Difference> {
    let keys: BTreeSet<&String> = expected.objects.keys().chain(found.objects.keys()).collect();
    let mut out = Vec::new();
    for key in keys {
        match (expected.objects.get(key), found.objects.get(key)) {
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => {}
            (Some(a), Some(b)) => fields(key, String::new(), a, b, &mut out),
            (a, b) => out.push(Difference {
                object: key.clone(),
                path: String::new(),
                expected: a.map(|value| value.to_string()),
                found: b.map(|value| value.to_string()),
            }),
        }
    }
    out
}

fn fields(key: &str, path: String, expected: &Value, found: &Value, out: &mut Vec<Difference>) {
    if expected == found {
        return;
    }
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
        World { objects: objects.into_iter().map(|(key, value)| (key, Arc::new(value))).collect() }
    }

    fn told(expected: &World, found: &World, varying: &Varying) -> Vec<String> {
        differences(expected, found, varying).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn differences_name_object_and_field() {
        let key = "/registry/apps/statefulsets/default/web";
        let expected = world(json!({key: {"spec": {"replicas": 2, "ports": [1, 2]}}}));
        let found = world(json!({key: {"spec": {"replicas": 1, "ports": [1, 2]}}}));
        let none = Varying::default();
        assert_eq!(told(&expected, &found, &none), ["statefulsets/web.spec.replicas is 1, undisturbed 2"]);
        assert_eq!(told(&expected, &world(json!({})), &none), ["statefulsets/web is missing"]);
        let varying = Varying::learn(&expected, [&found]);
        assert!(told(&expected, &found, &varying).is_empty());
    }

    #[test]
    fn what_the_user_allows_to_differ_is_dropped() {
        let key = "/registry/core/configmaps/default/zoo-1";
        let expected = world(json!({key: {"data": {"port": 1, "ports": 1}}}));
        let found = world(json!({key: {"data": {"port": 2, "ports": 2}}}));
        let told = |object: &str, path: &str, found: &World| {
            let allowed = MayDiffer { object: object.to_owned(), path: path.to_owned() };
            let mut left = differences(&expected, found, &Varying::default());
            without_allowed(&mut left, &[allowed]);
            left.len()
        };
        assert_eq!(told("configmaps/zoo-1", ".data.port", &found), 1, "the neighbour still counts");
        assert_eq!(told("configmaps/zoo-*", ".data", &found), 0);
        assert_eq!(told("configmaps/zoo", ".data", &found), 2, "another object");
        assert_eq!(told("configmaps/*", "", &world(json!({}))), 0, "the whole object");
        assert_eq!(
            told("configmaps/*", ".data", &world(json!({}))),
            1,
            "a missing object is more than a field"
        );
    }

    #[test]
    fn a_field_that_varies_does_not_hide_its_neighbour() {
        let key = "/registry/core/configmaps/default/a";
        let expected = world(json!({key: {"data": {"a": 1, "ab": 1}}}));
        let varying = Varying::learn(&expected, [&world(json!({key: {"data": {"a": 2, "ab": 1}}}))]);
        let found = world(json!({key: {"data": {"a": 3, "ab": 3}}}));
        assert_eq!(told(&expected, &found, &varying), ["configmaps/a.data.ab is 3, undisturbed 1"]);
    }

    #[test]
    fn names_that_vary_are_counted() {
        let job = |names: &[&str]| {
            let jobs = names.iter().map(|name| (format!("/registry/batch/jobs/default/{name}"), json!({})));
            world(Value::Object(jobs.collect()))
        };
        let expected = job(&["run-1"]);
        let varying = Varying::learn(&expected, [&job(&["run-7"])]);
        assert!(told(&expected, &job(&["run-9"]), &varying).is_empty());
        assert_eq!(told(&expected, &job(&[]), &varying), ["jobs/run-1 is missing"]);
        let twice = told(&expected, &job(&["run-8", "run-9"]), &varying);
        assert_eq!(twice.len(), 1, "{twice:?}");
        assert!(twice[0].contains("which it does not in the undisturbed run"), "{twice:?}");
    }
}
