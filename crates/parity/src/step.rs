//! One step of a script, and the references to earlier answers in it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::Deserialize;
use serde_json::Value;

use crate::ordered::Ordered;
use crate::pointer;

static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{([A-Za-z0-9_-]+)(?::(/[^{}]*))?\}").expect("the pattern is well formed"));

/// A step. Exactly one of `call`, `watch`, `events`, `wait` and `sleep` is set and says what the step does.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Step {
    pub(crate) id: Option<String>,
    pub(crate) call: Option<String>,
    /// The request body, with its keys in the order in which the script has them.
    #[serde(skip)]
    pub(crate) body: Option<Ordered>,
    pub(crate) raw: Option<String>,
    #[serde(rename = "type")]
    pub(crate) content_type: Option<String>,
    pub(crate) accept: Option<String>,
    #[serde(rename = "as")]
    pub(crate) user: Option<String>,
    pub(crate) groups: Vec<String>,
    /// The bearer token to send instead of the client's own. If it is empty, none is sent.
    pub(crate) token: Option<String>,
    pub(crate) ignore: Vec<String>,
    pub(crate) only: Vec<String>,
    pub(crate) watch: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) events: Option<String>,
    pub(crate) count: Option<usize>,
    pub(crate) timeout: Option<f64>,
    pub(crate) wait: Option<String>,
    pub(crate) until: BTreeMap<String, Value>,
    pub(crate) status: Option<u16>,
    pub(crate) sleep: Option<f64>,
}

impl Step {
    /// Reads a step whose references are filled in already. A body of `null` is sent, a missing body is not.
    pub(crate) fn read(step: &Ordered) -> serde_json::Result<Self> {
        let read: Self = serde_json::from_value(step.to_value())?;
        Ok(Self { body: step.get("body").cloned(), ..read })
    }

    /// Returns the part of an answer that is compared: what `only` names, or everything but what `ignore` names.
    pub(crate) fn trim(&self, mut body: Value) -> Value {
        if !body.is_object() && !body.is_array() {
            return body;
        }
        if !self.only.is_empty() {
            let absent = || Value::from("<absent>");
            let value = |path: &String| pointer::get(&body, path).cloned().unwrap_or_else(absent);
            return Value::Object(self.only.iter().map(|path| (path.clone(), value(path))).collect());
        }
        self.ignore.iter().for_each(|path| pointer::remove(&mut body, &pointer::parts(path)));
        body
    }
}

/// What a step may refer to: the namespace, and the answers to earlier steps by their ids.
pub(crate) struct Answers {
    pub(crate) namespace: String,
    by_id: BTreeMap<String, Value>,
}

impl Answers {
    pub(crate) fn new(namespace: String) -> Self {
        Self { namespace, by_id: BTreeMap::new() }
    }

    /// Keeps the answer to a step that has an id.
    pub(crate) fn keep(&mut self, id: Option<&str>, answer: &Value) {
        if let Some(id) = id {
            self.by_id.insert(id.to_owned(), answer.clone());
        }
    }

    /// Replaces every reference in a value, in its keys too.
    pub(crate) fn fill(&self, value: &Ordered) -> Ordered {
        value.map_texts(&|text| self.fill_text(text))
    }

    /// Replaces every reference in a text. One to an unknown id stays as it is.
    pub(crate) fn fill_text(&self, text: &str) -> String {
        REFERENCE.replace_all(text, |found: &Captures<'_>| self.resolve(found)).into_owned()
    }

    fn resolve(&self, found: &Captures<'_>) -> String {
        if &found[1] == "ns" {
            return self.namespace.clone();
        }
        match (self.by_id.get(&found[1]), found.get(2)) {
            (Some(answer), Some(path)) => match pointer::get(answer, path.as_str()) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => "<unresolved>".to_owned(),
            },
            _ => found[0].to_owned(),
        }
    }
}

/// Percent-encodes the characters that a request line must not contain. Escapes stay as they are.
pub(crate) fn encode(path: &str) -> String {
    const PATH: &str = "/:@%~,;=+$!*()_.-";
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let mut out = String::with_capacity(path.len() + 16);
    quote(path, |byte| PATH.as_bytes().contains(&byte), &mut out);
    if let Some(query) = query {
        out.push('?');
        quote(query, |byte| PATH.as_bytes().contains(&byte) || byte == b'&' || byte == b'?', &mut out);
    }
    out
}

fn quote(text: &str, safe: impl Fn(u8) -> bool, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || safe(byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_filled_in() {
        let mut answers = Answers::new("p1".into());
        answers.keep(Some("made"), &json!({"metadata": {"uid": "u", "n": 3}}));
        let filled = answers
            .fill(&json!({"{ns}.x": "{made:/metadata/uid}-{made:/metadata/n} {other} {made:/no}"}).into());
        assert_eq!(filled.to_value(), json!({"p1.x": "u-3 {other} <unresolved>"}));
    }

    #[test]
    fn a_request_line_is_encoded_once() {
        assert_eq!(encode("/a b/%2F?x=a b&y=[1]"), "/a%20b/%2F?x=a%20b&y=%5B1%5D");
    }
}
