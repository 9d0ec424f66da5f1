//! Lenient access to a stored object: an absent field reads as the zero value, as in a Go struct.

use evenkeel_schema::json::{Map, Value};
use jiff::Timestamp;

use crate::table::age;

/// The cell text for a value that is absent.
pub(super) const NONE: &str = "<none>";
/// The cell text for an optional setting that is not set.
pub(super) const UNSET: &str = "<unset>";

/// An object or a part of one, with the time of the request.
#[derive(Clone, Copy)]
pub(in crate::table) struct View<'a> {
    pub(in crate::table) value: &'a Value,
    pub(in crate::table) now: Timestamp,
}

impl<'a> View<'a> {
    /// The part at a JSON pointer; `None` if it is absent or null.
    pub(super) fn get(self, pointer: &str) -> Option<View<'a>> {
        let value = self.value.pointer(pointer).filter(|value| !value.is_null())?;
        Some(Self { value, now: self.now })
    }

    pub(super) fn has(self, pointer: &str) -> bool {
        self.get(pointer).is_some()
    }

    /// The string at a JSON pointer, or the empty string.
    pub(super) fn text(self, pointer: &str) -> &'a str {
        self.maybe_text(pointer).unwrap_or_default()
    }

    pub(super) fn maybe_text(self, pointer: &str) -> Option<&'a str> {
        self.get(pointer)?.value.as_str()
    }

    /// The string at a JSON pointer, or `other` if it is absent or empty.
    pub(super) fn text_or(self, pointer: &str, other: &'a str) -> &'a str {
        self.maybe_text(pointer).filter(|text| !text.is_empty()).unwrap_or(other)
    }

    pub(super) fn int(self, pointer: &str) -> i64 {
        self.maybe_int(pointer).unwrap_or_default()
    }

    pub(super) fn maybe_int(self, pointer: &str) -> Option<i64> {
        self.get(pointer)?.value.as_i64()
    }

    pub(super) fn flag(self, pointer: &str) -> bool {
        self.maybe_flag(pointer).unwrap_or_default()
    }

    pub(super) fn maybe_flag(self, pointer: &str) -> Option<bool> {
        self.get(pointer)?.value.as_bool()
    }

    pub(super) fn list(self, pointer: &str) -> impl DoubleEndedIterator<Item = View<'a>> + ExactSizeIterator {
        let items = self.get(pointer).and_then(|part| part.value.as_array()).map_or(&[][..], Vec::as_slice);
        items.iter().map(move |value| View { value, now: self.now })
    }

    /// The strings in the list at a JSON pointer.
    pub(super) fn texts(self, pointer: &str) -> Vec<&'a str> {
        self.list(pointer).filter_map(|item| item.value.as_str()).collect()
    }

    pub(super) fn map(self, pointer: &str) -> Option<&'a Map> {
        self.get(pointer)?.value.as_object()
    }

    /// The number of entries in the map or list at a JSON pointer.
    pub(super) fn len(self, pointer: &str) -> usize {
        match self.get(pointer).map(|part| part.value) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(map)) => map.len(),
            _ => 0,
        }
    }

    pub(super) fn name(self) -> &'a str {
        self.text("/metadata/name")
    }

    pub(super) fn age(self) -> String {
        self.since("/metadata/creationTimestamp")
    }

    pub(super) fn since(self, pointer: &str) -> String {
        age::since(self.value.pointer(pointer), self.now)
    }

    pub(super) fn time(self, pointer: &str) -> Option<Timestamp> {
        age::parse(self.value.pointer(pointer)?)
    }

    pub(super) fn deleting(self) -> bool {
        self.has("/metadata/deletionTimestamp")
    }

    pub(super) fn annotation(self, key: &str) -> Option<&'a str> {
        self.map("/metadata/annotations")?.get(key)?.as_str()
    }

    /// A quantity or int-or-string as text; `0` if it is not set.
    pub(super) fn quantity(self, pointer: &str) -> String {
        self.get(pointer).map_or_else(|| "0".to_owned(), |part| plain(part.value))
    }

    /// The first condition of the given type.
    pub(super) fn condition(self, list: &str, kind: &str) -> Option<View<'a>> {
        self.list(list).find(|condition| condition.text("/type") == kind)
    }

    /// Whether the first condition of the given type has the status `True`.
    pub(super) fn condition_is_true(self, list: &str, kind: &str) -> bool {
        self.condition(list, kind).is_some_and(|condition| condition.text("/status") == "True")
    }

    /// The names and the images of the containers at a JSON pointer, each joined by commas.
    pub(super) fn containers(self, pointer: &str) -> (String, String) {
        let names: Vec<_> = self.list(pointer).map(|container| container.text("/name")).collect();
        let images: Vec<_> = self.list(pointer).map(|container| container.text("/image")).collect();
        (names.join(","), images.join(","))
    }

    /// A map of labels as `a=b,c=d`, or `<none>` if it is empty.
    pub(super) fn labels(self, pointer: &str) -> String {
        let pairs: Vec<_> = self
            .map(pointer)
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", plain(value)))
            .collect();
        if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
    }

    /// A label selector in its query form, or `<none>` if it has no requirements.
    pub(super) fn selector(self, pointer: &str) -> String {
        let text = self.selector_query(pointer);
        if text.is_empty() { NONE.to_owned() } else { text }
    }

    /// A label selector in its query form, sorted by key; empty if it has no requirements.
    pub(super) fn selector_query(self, pointer: &str) -> String {
        let Some(selector) = self.get(pointer) else { return String::new() };
        let labels = selector.map("/matchLabels").into_iter().flatten();
        let equal = labels.map(|(key, value)| (key.as_str(), format!("{key}={}", plain(value))));
        let expressions =
            selector.list("/matchExpressions").map(|item| (item.text("/key"), requirement(item)));
        let mut requirements: Vec<_> = equal.chain(expressions).collect();
        requirements.sort_by_key(|(key, _)| *key);
        requirements.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
    }
}

fn requirement(expression: View<'_>) -> String {
    let key = expression.text("/key");
    let mut values = expression.texts("/values");
    values.sort_unstable();
    match expression.text("/operator") {
        "In" => format!("{key} in ({})", values.join(",")),
        "NotIn" => format!("{key} notin ({})", values.join(",")),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    }
}

/// Prints a scalar as text, without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone().to_string(),
        other => other.to_string(),
    }
}

/// Joins the first `max` entries and says how many more there are; `empty` if there are none.
pub(super) fn with_more(entries: &[String], max: usize, empty: &str) -> String {
    let shown = entries[..entries.len().min(max)].join(",");
    match entries.len() {
        0 => empty.to_owned(),
        count if count > max => format!("{shown} + {} more...", count - max),
        _ => shown,
    }
}
