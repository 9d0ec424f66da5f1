//! The fields that a write changed: their paths, and the values of numbers, booleans and words such as phases and
//! condition statuses.

use std::cell::OnceCell;
use std::ops::Range;

use evenkeel_record::Change;
use serde::Serialize;
use serde_json::{Map, Value};

use super::sections::{Content, Name, Sections};

/// How many changed fields of one write are recorded. Further ones are only counted.
const CHANGES_KEPT: usize = 16;

/// How many items two lists may have together to be compared item by item; a change of longer ones is one change. Each item
/// of one is looked up in the other, within the reconcile that wrote it.
const ITEMS_COMPARED_MAX: usize = 256;

/// The longest path that is recorded, in bytes.
const PATH_BYTES_MAX: usize = 200;

/// The longest word whose value is recorded, in bytes.
const WORD_BYTES_MAX: usize = 48;

/// Fields of `metadata` that the server sets on every write.
const OF_SERVER: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];

/// Parts of field names, in lower case, that mark a field as sensitive: its values must not be kept.
const SENSITIVE_WORDS: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "privatekey"];

/// Fields whose string values are words of an API, such as `Running` and `MinimumReplicasAvailable`.
const WORD_FIELDS: [&str; 4] = ["phase", "status", "reason", "state"];

/// The kind whose values are never kept.
const SECRET: &str = "Secret";

/// Which fields are sensitive.
#[derive(Debug, Default)]
pub(crate) struct Sensitive {
    /// Paths without the brackets of list items.
    marked: Vec<String>,
}

impl Sensitive {
    /// Marks a field, such as `spec.admin.pin`, and everything below it.
    pub(crate) fn mark(&mut self, path: &str) {
        self.marked.push(without_brackets(path.trim_start_matches('.')));
    }

    fn covers(&self, path: &str) -> bool {
        let lower: String = path.to_lowercase().chars().filter(|it| !matches!(it, '-' | '_')).collect();
        let plain = without_brackets(path);
        let below = |marked: &String| {
            plain.strip_prefix(marked.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        SENSITIVE_WORDS.iter().any(|word| lower.contains(word)) || self.marked.iter().any(below)
    }
}

fn without_brackets(path: &str) -> String {
    let mut depth = 0;
    let keep = |it: &char| {
        match it {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => return depth == 0,
        }
        false
    };
    path.chars().filter(keep).collect()
}

/// The body of a write, which says what the write may have changed.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    /// Whether the body names the fields that the write changes, as patches do. Other bodies are whole objects.
    is_patch: bool,
    parsed: OnceCell<Option<Value>>,
}

impl Body {
    pub(crate) fn new(bytes: Vec<u8>, is_patch: bool) -> Self {
        Self { bytes, is_patch, parsed: OnceCell::new() }
    }

    /// The body, if it is an object. It is parsed once, when it is first needed.
    fn object(&self) -> Option<&Value> {
        let parsed = || serde_json::from_slice::<Value>(&self.bytes).ok().filter(Value::is_object);
        self.parsed.get_or_init(parsed).as_ref()
    }

    /// Whether the body has this field, and the field of it. A body that is no object, such as a JSON patch, may write any
    /// field.
    fn names(&self, outer: &str, inner: Option<&str>) -> bool {
        let Some(object) = self.object() else { return true };
        match (object.get(outer), inner) {
            (None, _) => false,
            (Some(Value::Object(fields)), Some(inner)) => fields.contains_key(inner),
            // A patch that replaces a field, or removes it with `null`, names everything in it.
            (Some(_), _) => true,
        }
    }

    /// What the body has for this field, or for the field of it, if that is an object.
    fn below(&self, outer: &str, inner: Option<&str>) -> Option<&Value> {
        let value = self.object()?.get(outer)?;
        let value = inner.map_or(Some(value), |inner| value.get(inner))?;
        Some(value).filter(|value| value.is_object())
    }
}

/// Returns the fields that differ between two states of an object, limited to those that the write named. Returns the first
/// ones, and how many more there are.
///
/// Only what the write can have changed is encoded, and only fields that differ are parsed.
pub(crate) fn changes<K: Serialize>(
    kind: &str,
    before: &K,
    after: &K,
    body: &Body,
    sensitive: &Sensitive,
) -> (Vec<Change>, u64) {
    let mut found = Found { values: kind != SECRET, sensitive, list: Vec::new(), more: 0 };
    // Fields that the server sets are none of the write's. A whole object is parsed only if something differs.
    let named = |outer: &str, inner: Option<&str>| {
        !is_of_server(outer, inner) && (!body.is_patch || body.names(outer, inner))
    };
    let states = Sections::of(after, &named).and_then(|after| {
        // A field that the write does not name, and that is gone, was given up by the write.
        let wanted = |outer: &str, inner: Option<&str>| {
            named(outer, inner) || (!is_of_server(outer, inner) && !after.has(outer, inner))
        };
        Some((Sections::of(before, &wanted)?, after))
    });
    match states {
        Some((before, after)) => found.sections(&before, &after, body),
        None => {
            let json = |object: &K| serde_json::to_value(object).unwrap_or_default();
            found.compare(&mut String::new(), &json(before), &json(after), body.object());
        }
    }
    (found.list, found.more)
}

/// Whether the server sets the field on every write.
fn is_of_server(outer: &str, inner: Option<&str>) -> bool {
    outer == "metadata" && inner.is_some_and(|inner| OF_SERVER.contains(&inner))
}

/// Returns the fields that a request sends, without values. Used when the previous state is unknown.
pub(crate) fn fields(body: &Body) -> (Vec<Change>, u64) {
    let sensitive = Sensitive::default();
    let mut found = Found { values: false, sensitive: &sensitive, list: Vec::new(), more: 0 };
    let fields = body.object().and_then(Value::as_object).into_iter().flatten();
    for (name, value) in
        fields.filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&name.as_str()))
    {
        found.leaves(&mut name.clone(), value);
    }
    (found.list, found.more)
}

/// The fields of a field, with what is known of their values.
type Fields = [(Name, Option<Range<usize>>)];

/// A state of an object, and the fields of one of its fields.
type State<'a> = (&'a Sections, &'a Fields);

struct Found<'a> {
    /// Whether values may be kept.
    values: bool,
    sensitive: &'a Sensitive,
    list: Vec<Change>,
    more: u64,
}

impl Found<'_> {
    /// Compares two states of an object in sections.
    fn sections(&mut self, before: &Sections, after: &Sections, body: &Body) {
        let added = after.fields.iter().filter(|field| before.field(&field.name).is_none());
        for field in before.fields.iter().chain(added) {
            let name = &*field.name;
            match (before.field(name), after.field(name)) {
                (_, Some(Content::Skipped)) => {}
                (Some(Content::Object(old)), Some(Content::Object(new))) => {
                    self.inner(name, (before, old), (after, new), body);
                }
                (Some(Content::Whole(old)), Some(Content::Whole(new)))
                    if before.text(old) == after.text(new) => {}
                (_, new) if new.is_some() && !body.names(name, None) => {}
                (old, new) => {
                    let value = |state: &Sections, content: Option<&Content>| {
                        content.map_or(Value::Null, |content| state.content(content))
                    };
                    let (old, new) = (value(before, old), value(after, new));
                    self.compare(&mut name.to_owned(), &old, &new, body.below(name, None));
                }
            }
        }
    }

    /// Compares the fields of a field that is an object in both states.
    fn inner(&mut self, outer: &str, before: State<'_>, after: State<'_>, body: &Body) {
        let ((before, old), (after, new)) = (before, after);
        let find = |fields: &'_ Fields, name: &str| {
            fields.iter().find(|(other, _)| other == name).map(|(_, range)| range.clone())
        };
        let added = new.iter().filter(|(name, _)| find(old, name).is_none());
        for (name, was) in old.iter().chain(added) {
            let was = find(old, name).and(was.as_ref());
            let is = find(new, name);
            let same = match (was, &is) {
                (_, Some(None)) => true,
                (Some(was), Some(Some(is))) => before.text(was) == after.text(is),
                _ => false,
            };
            let unwritten = !body.names(outer, None) || (is.is_some() && !body.names(outer, Some(name)));
            if same || unwritten || is_of_server(outer, Some(name)) {
                continue;
            }
            let old = was.map_or(Value::Null, |range| before.value(range));
            let new = is.flatten().map_or(Value::Null, |range| after.value(&range));
            let below = body.below(outer, Some(name));
            self.compare(&mut format!("{outer}.{name}"), &old, &new, below);
        }
    }

    fn compare(&mut self, path: &mut String, before: &Value, after: &Value, written: Option<&Value>) {
        if before == after {
            return;
        }
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.maps(path, before, after, written),
            (Value::Array(before), Value::Array(after)) => match keyed_by(before, after) {
                Some(key) => self.items(path, key, before, after),
                None => self.add(path, &Value::Null, &Value::Null),
            },
            _ => self.add(path, before, after),
        }
    }

    fn maps(
        &mut self,
        path: &mut String,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
        written: Option<&Value>,
    ) {
        let added = after.keys().filter(|name| !before.contains_key(*name));
        for name in before.keys().chain(added) {
            let of_server = is_of_server(path, Some(name));
            let below = written.map(|written| written.get(name));
            // A field missing from the request but present before was given up by this write.
            let unwritten = below == Some(None) && after.contains_key(name);
            if of_server || unwritten {
                continue;
            }
            let length = push(path, name);
            let (before, after) = (before.get(name), after.get(name));
            let below = below.flatten().filter(|below| below.is_object());
            self.compare(path, before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null), below);
            path.truncate(length);
        }
    }

    /// Compares the items of two lists, matched by the key field that identifies each item.
    fn items(&mut self, path: &mut String, key: &str, before: &[Value], after: &[Value]) {
        let added = after.iter().filter(|item| !before.iter().any(|other| other[key] == item[key]));
        for item in before.iter().chain(added) {
            let (name, length) = (&item[key], path.len());
            path.push_str(&format!("[{key}={}]", name.as_str().unwrap_or_default()));
            self.compare(path, item_named(before, key, name), item_named(after, key, name), None);
            path.truncate(length);
        }
    }

    fn leaves(&mut self, path: &mut String, value: &Value) {
        match value.as_object().filter(|map| !map.is_empty()) {
            Some(map) => {
                for (name, value) in map {
                    let length = push(path, name);
                    self.leaves(path, value);
                    path.truncate(length);
                }
            }
            None => self.add(path, &Value::Null, &Value::Null),
        }
    }

    fn add(&mut self, path: &str, before: &Value, after: &Value) {
        if self.list.len() == CHANGES_KEPT {
            self.more += 1;
            return;
        }
        let values = self.values && !self.sensitive.covers(path);
        let shown = |value: &Value| if values { shown(path, value) } else { None };
        let (from, to) = (shown(before), shown(after));
        let end = (0..=path.len().min(PATH_BYTES_MAX)).rev().find(|at| path.is_char_boundary(*at));
        self.list.push(Change { path: path[..end.unwrap_or_default()].to_owned(), from, to });
    }
}

/// Returns the item of a list whose key field has this value, or `null`.
fn item_named<'v>(list: &'v [Value], key: &str, name: &Value) -> &'v Value {
    list.iter().find(|item| item[key] == *name).unwrap_or(&Value::Null)
}

/// Appends a field's name to a path. Returns the length of the path before.
fn push(path: &mut String, name: &str) -> usize {
    let length = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
    length
}

/// Returns the field that identifies the items of both lists, if there is one and the lists are short.
fn keyed_by(before: &[Value], after: &[Value]) -> Option<&'static str> {
    if before.len() + after.len() > ITEMS_COMPARED_MAX {
        return None;
    }
    let all = || before.iter().chain(after);
    ["type", "name", "key"].into_iter().find(|key| all().all(|item| item[*key].is_string()))
}

/// Returns the value of a number, a boolean, or a word, as text.
fn shown(path: &str, value: &Value) -> Option<String> {
    let is_word =
        |text: &str| text.len() <= WORD_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let field = path.rsplit(['.', ']']).next().unwrap_or_default();
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::String(text)
            if path.starts_with("status.") && WORD_FIELDS.contains(&field) && is_word(text) =>
        {
            Some(text.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A body that may write any field.
    fn any_field() -> Body {
        Body::new(b"[]".to_vec(), true)
    }

    fn patch(value: &Value) -> Body {
        Body::new(value.to_string().into_bytes(), true)
    }

    fn told(kind: &str, before: Value, after: Value, sensitive: &Sensitive) -> Vec<String> {
        let (list, more) = changes(kind, &before, &after, &any_field(), sensitive);
        assert_eq!(more, 0);
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn changes_are_paths_with_the_values_of_numbers_and_words_only() {
        let before = json!({
            "metadata": {"resourceVersion": "1", "labels": {"a": "b"}},
            "spec": {"replicas": 2, "image": "x", "ports": [80], "paused": false},
            "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False", "message": "m"}]},
        });
        let after = json!({
            "metadata": {"resourceVersion": "2", "labels": {"a": "c"}},
            "spec": {"replicas": 3, "image": "y", "ports": [80, 81]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "message": "n"}]},
        });
        let wanted = [
            "metadata.labels.a",
            "spec.image",
            "spec.paused false → none",
            "spec.ports",
            "spec.replicas 2 → 3",
            "status.conditions[type=Ready].message",
            "status.conditions[type=Ready].status False → True",
            "status.phase Pending → Running",
        ];
        assert_eq!(told("Site", before, after, &Sensitive::default()), wanted);
    }

    #[test]
    fn nothing_of_a_secret_or_of_a_sensitive_field_is_kept() {
        let mut sensitive = Sensitive::default();
        sensitive.mark("spec.admin.pin");
        let before = json!({"spec": {"admin": {"pin": 1}, "tokenAge": 1, "api_key": 1, "count": 1}});
        let after = json!({"spec": {"admin": {"pin": 2}, "tokenAge": 2, "api_key": 2, "count": 2}});
        let site = told("Site", before.clone(), after.clone(), &sensitive);
        assert_eq!(site, ["spec.admin.pin", "spec.api_key", "spec.count 1 → 2", "spec.tokenAge"]);
        let secret = told("Secret", before, after, &Sensitive::default());
        assert_eq!(secret, ["spec.admin.pin", "spec.api_key", "spec.count", "spec.tokenAge"]);
    }

    /// Users choose how long the lists of an object are, and the comparison runs within the operator's reconcile.
    #[test]
    fn a_change_of_a_long_list_is_one_change() {
        let list = |items: usize, value: u64| -> Value {
            (0..items).map(|n| json!({"name": n.to_string(), "value": value})).collect()
        };
        let short = told("Site", json!({"a": list(2, 1)}), json!({"a": list(2, 2)}), &Sensitive::default());
        assert_eq!(short, ["a[name=0].value 1 → 2", "a[name=1].value 1 → 2"]);
        let (before, after) = (json!({"a": list(200_000, 1)}), json!({"a": list(200_000, 2)}));
        assert_eq!(told("Site", before, after, &Sensitive::default()), ["a"]);
    }

    #[test]
    fn what_others_changed_meanwhile_is_not_ours() {
        let (before, after) = (json!({"spec": {"a": 1, "b": 1}}), json!({"spec": {"a": 2, "b": 2}}));
        for is_patch in [true, false] {
            let body = Body::new(json!({"spec": {"b": 2}}).to_string().into_bytes(), is_patch);
            let (list, _) = changes("Site", &before, &after, &body, &Sensitive::default());
            assert_eq!(list.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["spec.b"]);
        }
        let many: Value = (0..40).map(|at| (format!("f{at}"), json!(at))).collect::<Map<_, _>>().into();
        let (list, more) = fields(&patch(&json!({"kind": "Site", "metadata": {"name": "a"}, "spec": many})));
        assert_eq!((list.len(), more), (CHANGES_KEPT, 24));
        assert!(list.iter().all(|change| change.to.is_none()));
    }

    /// Compares two states as trees, as objects without sections are compared.
    fn as_trees(before: &Value, after: &Value, body: &Body) -> (Vec<Change>, u64) {
        let sensitive = Sensitive::default();
        let mut found = Found { values: true, sensitive: &sensitive, list: Vec::new(), more: 0 };
        found.compare(&mut String::new(), before, after, body.object());
        (found.list, found.more)
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3i64).prop_map(Value::from),
            "[ab\"é]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from), fields_of(inner),]
        })
    }

    fn fields_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        let name = prop_oneof![
            Just("metadata"),
            Just("spec"),
            Just("status"),
            Just("uid"),
            Just("name"),
            Just("type"),
        ];
        prop::collection::btree_map(name, value, 0..5)
            .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    proptest! {
        #[test]
        fn sections_find_what_trees_show(
            before in fields_of(values()),
            after in fields_of(values()),
            sent in prop_oneof![fields_of(values()), Just(json!([]))],
            is_patch: bool,
        ) {
            let body = Body::new(sent.to_string().into_bytes(), is_patch);
            let found = changes("Site", &before, &after, &body, &Sensitive::default());
            prop_assert_eq!(found, as_trees(&before, &after, &body));
        }
    }

    /// What a write does not name is not encoded: that is what the recorder costs a reconcile.
    #[test]
    fn only_what_a_patch_names_is_encoded() {
        struct Costly;
        impl Serialize for Costly {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                panic!("this field was encoded")
            }
        }
        #[derive(Serialize)]
        struct Site {
            metadata: Meta,
            spec: Costly,
            status: Value,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            managed_fields: Costly,
            labels: Value,
        }
        let site = |ready: u64| {
            let metadata = Meta { managed_fields: Costly, labels: json!({"a": ready.to_string()}) };
            Site { metadata, spec: Costly, status: json!({"ready": ready}) }
        };
        let body = patch(&json!({"metadata": {"labels": {"a": "2"}}, "status": {"ready": 2}}));
        let (found, _) = changes("Site", &site(1), &site(2), &body, &Sensitive::default());
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["metadata.labels.a", "status.ready 1 → 2"]);
    }

    /// A map that users fill is compared in one piece, whatever it holds.
    #[test]
    fn a_map_with_very_many_keys_is_compared() {
        let map = |count: usize, value: &str| -> Value {
            let data: Map<String, Value> =
                (0..count).map(|at| (format!("k{at}"), value.to_owned().into())).collect();
            json!({"data": data})
        };
        for count in [3, 64, 65, 20_000] {
            let (before, mut after) = (map(count, "a"), map(count, "a"));
            after["data"]["k1"] = json!("b");
            assert_eq!(told("ConfigMap", before.clone(), after, &Sensitive::default()), ["data.k1"]);
            let one = json!({"data": {"k0": "a"}});
            let (list, more) = changes("ConfigMap", &before, &one, &any_field(), &Sensitive::default());
            assert_eq!(list.len() as u64 + more, count as u64 - 1);
        }
    }
}
