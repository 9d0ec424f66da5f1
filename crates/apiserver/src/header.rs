//! What is known of a stored object without parsing it, and the canonical bytes that it stands beside.
//!
//! The bytes are JSON in one fixed outer order: `{"apiVersion":…,"kind":…,"metadata":{…},…}`, without a
//! resourceVersion, which is known only at commit. The header remembers where the metadata begins, where the
//! resourceVersion goes in and where the metadata ends, so that readers write slices.

use std::io::Write as _;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::fields;

/// What is known of a stored object without parsing it.
///
/// It is made by `seal` at the write, or read back from a journal.
#[derive(Clone, Debug)]
pub struct Header {
    /// Where `"metadata":` begins: what stands before it is `{`, apiVersion and kind.
    pub(crate) metadata_at: u32,
    /// Just after `"metadata":{`: the resourceVersion is written here.
    pub(crate) version_at: u32,
    /// Just after the metadata's closing brace.
    pub(crate) metadata_end: u32,
    /// The object's name.
    pub name: Box<str>,
    /// The object's namespace; empty where it has none.
    pub namespace: Box<str>,
    /// The object's uid.
    pub uid: Box<str>,
    /// The labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The kind's selectable fields, in the order of its list.
    pub(crate) fields: Box<[Box<str>]>,
    /// The uids of the owners.
    pub owners: Box<[Box<str>]>,
    /// Whether the deletionTimestamp is set.
    pub deleting: bool,
    /// Whether there are finalizers.
    pub finalizers: bool,
}

impl Header {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(it, _)| (**it).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    fn of(object: &Value, offsets: Offsets) -> Self {
        let metadata = &object["metadata"];
        Self {
            metadata_at: offsets.metadata_at,
            version_at: offsets.version_at,
            metadata_end: offsets.metadata_end,
            name: text(&metadata["name"]),
            namespace: text(&metadata["namespace"]),
            uid: text(&metadata["uid"]),
            labels: labels(&metadata["labels"]),
            fields: fields::values(object),
            owners: owners(&metadata["ownerReferences"]),
            deleting: metadata["deletionTimestamp"].is_string(),
            finalizers: metadata["finalizers"].as_array().is_some_and(|it| !it.is_empty()),
        }
    }
}

impl evenkeel_store::Header for Header {
    fn parse(key: &str, value: &Bytes) -> Result<Self, String> {
        let object: Value = serde_json::from_slice(value).map_err(|error| format!("{key}: {error}"))?;
        let (sealed, header) = seal(&object);
        if sealed == *value { Ok(header) } else { Err(format!("{key}: not in canonical form")) }
    }
}

#[derive(Default)]
struct Offsets {
    metadata_at: u32,
    version_at: u32,
    metadata_end: u32,
}

/// The canonical bytes of an object, and its header. A resourceVersion in it is left out.
pub(crate) fn seal(object: &Value) -> (Bytes, Header) {
    let empty = Map::new();
    let map = object.as_object().unwrap_or(&empty);
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    for key in ["apiVersion", "kind"] {
        write_member(&mut out, key, map.get(key).unwrap_or(&Value::Null));
        out.push(b',');
    }
    let metadata_at = out.len() as u32;
    out.extend_from_slice(b"\"metadata\":{");
    let version_at = out.len() as u32;
    write_members(&mut out, map.get("metadata").and_then(Value::as_object), &["resourceVersion"]);
    out.push(b'}');
    let metadata_end = out.len() as u32;
    if map.keys().any(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
        out.push(b',');
        write_members(&mut out, Some(map), &["apiVersion", "kind", "metadata"]);
    }
    out.push(b'}');
    let header = Header::of(object, Offsets { metadata_at, version_at, metadata_end });
    (Bytes::from(out), header)
}

/// The members of a map with commas between them, without those named.
fn write_members(out: &mut Vec<u8>, map: Option<&Map<String, Value>>, without: &[&str]) {
    let mut first = true;
    for (key, value) in map.into_iter().flatten().filter(|(key, _)| !without.contains(&key.as_str())) {
        if !first {
            out.push(b',');
        }
        first = false;
        write_member(out, key, value);
    }
}

fn write_member(out: &mut Vec<u8>, key: &str, value: &Value) {
    write_json(out, key);
    out.push(b':');
    write_json(out, value);
}

fn write_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(&mut *out, value).expect("a JSON value is written to memory without fail");
    let _ = out.flush();
}

fn text(value: &Value) -> Box<str> {
    value.as_str().unwrap_or_default().into()
}

fn labels(value: &Value) -> Box<[(Box<str>, Box<str>)]> {
    let mut labels: Vec<_> = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str().into(), text(value)))
        .collect();
    labels.sort();
    labels.into()
}

fn owners(value: &Value) -> Box<[Box<str>]> {
    value.as_array().into_iter().flatten().map(|it| text(&it["uid"])).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_store::Header as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_canonical_form_is_read_back() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "spec": {"a": 1},
            "metadata": {"name": "p", "resourceVersion": "7", "labels": {"b": "2", "a": "1"}}});
        let (bytes, header) = seal(&object);
        assert_eq!(
            &bytes[..],
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"1","b":"2"},"name":"p"},"spec":{"a":1}}"#
        );
        assert_eq!(header.label("b"), Some("2"));
        assert_eq!(&bytes[header.metadata_end as usize..], br#","spec":{"a":1}}"#);
        let again = Header::parse("/k", &bytes).unwrap();
        assert_eq!((again.version_at, &*again.name), (header.version_at, "p"));
    }
}
