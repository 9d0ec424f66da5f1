//! Encoding of stored objects into responses: slices of the stored bytes, with the resourceVersion inserted.

mod yaml;

pub(crate) use yaml::print as print_yaml;

use bytes::Bytes;
use evenkeel_schema::json::Value;
use evenkeel_store::Entry;

use crate::Header;
use crate::body::{Body, SPLICED_TEXT_MAX, Spliced};
use crate::header::encode_object;

/// An encoded object: its canonical JSON bytes without resourceVersion, the offsets of its parts, and the
/// resourceVersion to insert.
#[derive(Clone, Debug)]
pub(crate) struct EncodedObject {
    bytes: Bytes,
    metadata_at: usize,
    version_at: usize,
    metadata_end: usize,
    revision: u64,
}

impl EncodedObject {
    /// A stored object in the version in which it is stored. `revision` is the entry's own, except for an
    /// object whose deletion is reported.
    pub(crate) fn stored(entry: &Entry<Header>, revision: u64) -> Self {
        Self::new(entry.value.clone(), &entry.header, revision)
    }

    /// Encodes an object that is not stored in this form: it was converted, or never written.
    pub(crate) fn encode(object: &Value, revision: u64) -> Self {
        let (bytes, header) = encode_object(object);
        Self::new(bytes, &header, revision)
    }

    /// Encodes an object that a dry run would have created, with the resourceVersion that the client sent, which may be
    /// any text. An empty one is left out.
    pub(crate) fn encode_unstored(object: &Value, version: &str) -> Self {
        let encoded = Self::encode(object, 0);
        if version.is_empty() {
            return encoded;
        }
        let mut member = format!("\"resourceVersion\":{}", Value::from(version)).into_bytes();
        member.extend_from_slice(encoded.version_end().strip_prefix(b"\"").unwrap_or_default());
        let (before, after) = encoded.bytes.split_at(encoded.version_at);
        let bytes = Bytes::from([before, &member, after].concat());
        Self { bytes, metadata_end: encoded.metadata_end + member.len(), ..encoded }
    }

    /// An object whose bytes and header were made by `encode_object`.
    pub(crate) fn new(bytes: Bytes, header: &Header, revision: u64) -> Self {
        Self {
            bytes,
            metadata_at: header.metadata_at as usize,
            version_at: header.version_at as usize,
            metadata_end: header.metadata_end as usize,
            revision,
        }
    }

    /// The resourceVersion to insert; zero if the object has none.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The number of bytes that [`EncodedObject::write`] writes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.version_len()
    }

    /// The number of bytes that [`EncodedObject::write_untyped`] writes.
    pub(crate) fn untyped_len(&self) -> usize {
        1 + self.bytes.len() - self.metadata_at + self.version_len()
    }

    /// The number of bytes that [`EncodedObject::write_metadata`] writes.
    pub(crate) fn metadata_len(&self, beta: bool) -> usize {
        PARTIAL_KIND.len() + partial_version(beta).len() + self.metadata_end - self.metadata_at
            + self.version_len()
            + 1
    }

    fn version_len(&self) -> usize {
        let digits = self.revision.checked_ilog10().map(|it| it as usize + 1);
        digits.map_or(0, |digits| VERSION.len() + digits + self.version_end().len())
    }

    /// Writes the whole object.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.version_at]);
        self.write_version(out);
        out.extend_from_slice(&self.bytes[self.version_at..]);
    }

    /// Turns the whole object into a body that shares the stored bytes, with the resourceVersion between
    /// them.
    pub(crate) fn body(self) -> Body {
        if self.revision == 0 {
            return self.bytes.into();
        }
        let end = self.version_end();
        let mut spliced = Spliced::new(self.bytes, self.version_at);
        spliced.put(VERSION);
        spliced.put(Digits::of(self.revision).text());
        spliced.put(end);
        spliced.into()
    }

    /// Writes the object without `apiVersion` and `kind`, as the items of built-in lists are written.
    pub(crate) fn write_untyped(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.bytes[self.metadata_at..self.version_at]);
        self.write_version(out);
        out.extend_from_slice(&self.bytes[self.version_at..]);
    }

    /// Writes only the object's metadata, as a PartialObjectMetadata.
    pub(crate) fn write_metadata(&self, out: &mut Vec<u8>, beta: bool) {
        out.extend_from_slice(PARTIAL_KIND);
        out.extend_from_slice(partial_version(beta));
        out.extend_from_slice(&self.bytes[self.metadata_at..self.version_at]);
        self.write_version(out);
        out.extend_from_slice(&self.bytes[self.version_at..self.metadata_end]);
        out.push(b'}');
    }

    /// Parses the object and sets its resourceVersion. Bytes that cannot be parsed give an empty object.
    pub(crate) fn to_value(&self) -> Value {
        let mut value: Value = serde_json::from_slice(&self.bytes).unwrap_or_else(|error| {
            let begin = String::from_utf8_lossy(&self.bytes[..self.metadata_at]);
            tracing::error!(%error, %begin, "a stored object cannot be parsed; an empty object is sent instead");
            Value::Object(evenkeel_schema::json::Map::new())
        });
        if self.revision > 0 {
            value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        }
        value
    }

    fn version_end(&self) -> &'static [u8] {
        if self.bytes.get(self.version_at) == Some(&b'}') { b"\"" } else { b"\"," }
    }

    /// Writes the resourceVersion, unless the object has none: one created by a dry run.
    fn write_version(&self, out: &mut Vec<u8>) {
        if self.revision == 0 {
            return;
        }
        out.extend_from_slice(VERSION);
        push_number(out, self.revision);
        out.extend_from_slice(self.version_end());
    }
}

const PARTIAL_KIND: &[u8] = b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":";

fn partial_version(beta: bool) -> &'static [u8] {
    if beta { b"\"meta.k8s.io/v1beta1\"," } else { b"\"meta.k8s.io/v1\"," }
}

const VERSION: &[u8] = b"\"resourceVersion\":\"";

/// The digits of the largest `u64`.
const DIGITS_MAX: usize = 20;
const _: () = assert!(VERSION.len() + DIGITS_MAX + 2 <= SPLICED_TEXT_MAX);

/// Writes a number in decimal.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(Digits::of(number).text());
}

/// The decimal digits of a number, right-aligned in a buffer; the second field is the offset of the first
/// digit.
struct Digits([u8; DIGITS_MAX], usize);

impl Digits {
    fn of(mut number: u64) -> Self {
        let mut digits = Self([0; DIGITS_MAX], DIGITS_MAX);
        loop {
            digits.1 -= 1;
            digits.0[digits.1] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return digits;
            }
        }
    }

    fn text(&self) -> &[u8] {
        &self.0[self.1..]
    }
}

/// Writes a string as JSON.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing a string to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use evenkeel_schema::json::json;

    use super::*;

    #[test]
    fn a_body_is_what_is_written() {
        let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
        let full =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}});
        for (object, revision) in [(&bare, 7), (&full, 0), (&full, 7), (&full, u64::MAX)] {
            let shown = EncodedObject::encode(object, revision);
            let mut out = Vec::new();
            shown.write(&mut out);
            assert_eq!(shown.len(), out.len());
            assert_eq!(shown.body().whole().unwrap(), out);
        }
    }

    #[test]
    fn the_version_goes_into_the_metadata() {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {}});
        let shown = EncodedObject::encode(&object, 70);
        let mut out = Vec::new();
        shown.write(&mut out);
        shown.write_untyped(&mut out);
        shown.write_metadata(&mut out, false);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","resourceVersion":"70","labels":{"a":"b"}},"spec":{}}"#,
                r#"{"metadata":{"name":"p","resourceVersion":"70","labels":{"a":"b"}},"spec":{}}"#,
                r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"p","resourceVersion":"70","labels":{"a":"b"}}}"#,
            )
        );
    }
}
