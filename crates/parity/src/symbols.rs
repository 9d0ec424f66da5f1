//! Replaces values that differ from run to run, such as uids, by symbols.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z"));
static CLUSTER_IP: LazyLock<Regex> = LazyLock::new(|| pattern(r"^10\.[0-9]+\.[0-9]+\.[0-9]+$"));
static SYMBOL: LazyLock<Regex> = LazyLock::new(|| pattern(r"<(uid|rv|ip|hash|generated):([0-9]+)>"));

/// Labels whose value ends in a hash that a controller computed.
const HASH_LABELS: [&str; 3] =
    ["pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash"];

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is well formed")
}

/// The symbols of one case, numbered in the order of their first appearance.
#[derive(Debug)]
pub struct Symbols {
    namespace: String,
    /// From value to symbol, for each kind of symbol.
    names: BTreeMap<&'static str, BTreeMap<String, String>>,
    /// From generated names and hashes, which also appear inside other strings, to their symbols.
    texts: BTreeMap<String, String>,
}

impl Symbols {
    /// Starts without symbols. `namespace` is replaced by `{ns}`.
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), names: BTreeMap::new(), texts: BTreeMap::new() }
    }

    /// Returns the answer with symbols in it.
    pub fn apply(&mut self, answer: &Value) -> Value {
        self.collect(answer);
        self.walk(answer, "", false)
    }

    fn name(&mut self, kind: &'static str, value: &str) -> String {
        let names = self.names.entry(kind).or_default();
        let next = names.len() + 1;
        names.entry(value.to_owned()).or_insert_with(|| format!("<{kind}:{next}>")).clone()
    }

    fn collect(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(map) => {
                if let Some(Value::Object(metadata)) = map.get("metadata") {
                    self.collect_metadata(metadata);
                }
                map.values().for_each(|item| self.collect(item));
            }
            _ => {}
        }
    }

    fn collect_metadata(&mut self, metadata: &Map<String, Value>) {
        let text = |key: &str| metadata.get(key).and_then(Value::as_str);
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
            && !prefix.is_empty()
            && name != prefix
            && name.starts_with(prefix)
        {
            self.note("generated", name);
        }
        for label in HASH_LABELS {
            let value = metadata.get("labels").and_then(|labels| labels.get(label)).and_then(Value::as_str);
            if let Some(hash) = value.filter(|hash| hash.len() > 4) {
                self.note("hash", hash.rsplit('-').next().unwrap_or(hash));
            }
        }
    }

    fn note(&mut self, kind: &'static str, text: &str) {
        if !self.texts.contains_key(text) {
            let symbol = self.name(kind, text);
            self.texts.insert(text.to_owned(), symbol);
        }
    }

    fn text(&mut self, text: &str) -> String {
        let text = UUID.replace_all(text, |found: &Captures<'_>| self.name("uid", &found[0])).into_owned();
        let mut text = TIME.replace_all(&text, "<time>").into_owned();
        let mut known: Vec<_> = self.texts.iter().collect();
        known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        for (value, symbol) in known {
            text = text.replace(value.as_str(), symbol);
        }
        text.replace(&self.namespace, "{ns}")
    }

    /// Replaces values in a tree. `list_metadata` says whether the value is the metadata of a list or bookmark, whose
    /// resource version has no number of its own.
    fn walk(&mut self, value: &Value, key: &str, list_metadata: bool) -> Value {
        match value {
            Value::Object(map) => Value::Object(self.walk_map(map, key, list_metadata)),
            Value::Array(items) => items.iter().map(|item| self.walk(item, key, list_metadata)).collect(),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn walk_map(&mut self, map: &Map<String, Value>, key: &str, list_metadata: bool) -> Map<String, Value> {
        let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
        let is_list = map.contains_key("items") || kind.ends_with("List") || kind == "Table";
        let is_bookmark = map.get("type").and_then(Value::as_str) == Some("BOOKMARK");
        let mut out = Map::new();
        for (name, item) in map {
            let inner = match name.as_str() {
                "metadata" => is_list || list_metadata,
                "object" => is_bookmark,
                _ => false,
            };
            let walked = self.walk(item, name, inner);
            let walked = self.special(name, item, key, list_metadata).unwrap_or(walked);
            out.insert(self.text(name), walked);
        }
        out
    }

    /// Returns the symbol for a field whose name decides what it is replaced by.
    fn special(&mut self, name: &str, item: &Value, parent: &str, list_metadata: bool) -> Option<Value> {
        let text = item.as_str().filter(|text| !text.is_empty());
        Some(match (name, text) {
            ("resourceVersion", Some(_)) if list_metadata || parent != "metadata" => Value::from("<rv>"),
            ("resourceVersion", Some(revision)) => self.name("rv", revision).into(),
            ("continue", Some(_)) => Value::from("<continue>"),
            ("token", Some(token)) if token.matches('.').count() == 2 => Value::from("<token>"),
            ("description", _) if parent == "columnDefinitions" => Value::from("<text>"),
            ("nodePort", None) if item.as_u64().is_some_and(|port| (30000..=32767).contains(&port)) => {
                Value::from("<port>")
            }
            ("clusterIP", Some(address)) if CLUSTER_IP.is_match(address) => self.name("ip", address).into(),
            ("clusterIPs", _) => item.as_array()?.iter().map(|address| self.address(address)).collect(),
            _ => return None,
        })
    }

    fn address(&mut self, value: &Value) -> Value {
        match value.as_str().filter(|text| CLUSTER_IP.is_match(text)) {
            Some(address) => self.name("ip", address).into(),
            None => value.clone(),
        }
    }
}

/// Numbers the symbols in the answers to a case anew, in the order of sorted keys, so that the order of keys in an answer
/// makes no difference.
pub fn canonical(steps: &Value) -> Value {
    renumber(steps, &mut BTreeMap::new())
}

type Numbers = BTreeMap<String, BTreeMap<String, usize>>;

fn renumber(value: &Value, seen: &mut Numbers) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let items = keys.into_iter().map(|key| (renumber_text(key, seen), renumber(&map[key], seen)));
            Value::Object(items.collect())
        }
        Value::Array(items) => items.iter().map(|item| renumber(item, seen)).collect(),
        Value::String(text) => Value::String(renumber_text(text, seen)),
        other => other.clone(),
    }
}

fn renumber_text(text: &str, seen: &mut Numbers) -> String {
    let number = |found: &Captures<'_>| {
        let kind = seen.entry(found[1].to_owned()).or_default();
        let next = kind.len() + 1;
        format!("<{}:{}>", &found[1], kind.entry(found[2].to_owned()).or_insert(next))
    };
    SYMBOL.replace_all(text, number).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UID: &str = "0f3ad1a4-1d0c-4f7e-9d4c-0a1b2c3d4e5f";

    #[test]
    fn equal_stays_equal_and_different_stays_different() {
        let mut symbols = Symbols::new("p1");
        let object = json!({"metadata": {"uid": UID, "resourceVersion": "7", "namespace": "p1"}});
        let list = json!({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [object]});
        assert_eq!(
            symbols.apply(&list),
            json!({"kind": "PodList", "metadata": {"resourceVersion": "<rv>"},
                "items": [{"metadata": {"uid": "<uid:1>", "resourceVersion": "<rv:1>", "namespace": "{ns}"}}]})
        );
        let next = json!({"metadata": {"uid": UID, "resourceVersion": "8", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(
            symbols.apply(&next),
            json!({"metadata": {"uid": "<uid:1>", "resourceVersion": "<rv:2>", "creationTimestamp": "<time>"}})
        );
    }

    #[test]
    fn generated_names_are_known_inside_of_texts() {
        let mut symbols = Symbols::new("p1");
        let made = json!({"metadata": {"generateName": "web-", "name": "web-x7k2p"}, "m": "pods \"web-x7k2p\" not found"});
        assert_eq!(symbols.apply(&made)["m"], "pods \"<generated:1>\" not found");
    }

    #[test]
    fn numbers_follow_sorted_keys() {
        let steps = json!([{"b": "<uid:1>", "a": "<uid:2>"}, "<uid:1>"]);
        assert_eq!(canonical(&steps), json!([{"a": "<uid:1>", "b": "<uid:2>"}, "<uid:2>"]));
    }
}
