//! The header of a stored object, and the canonical bytes that belong to it.
//!
//! The bytes are JSON with Kubernetes' order of keys: built-in objects are `{"kind":…,"apiVersion":…,"metadata":{…},…}` with
//! the fields of Go's structs in their order, custom resources `{"apiVersion":…,"kind":…,"metadata":{…},…}` with sorted
//! fields. Objects that older versions of this server have stored are all sorted.
//!
//! The bytes lack the resourceVersion, which is known only at commit. The header holds the offsets where the metadata
//! begins, where the resourceVersion is inserted and where the metadata ends, so that responses are written from slices.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use evenkeel_schema::api_resources::split_api_version;
use evenkeel_schema::json::{Map, Value};
use evenkeel_schema::json_order::KeyOrder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::field_selectors;

/// The facts about a stored object that are known without parsing it.
///
/// The header is made by `encode_object` when the object is written, or parsed from the bytes in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The offset of `"metadata":`; before it are `{`, `apiVersion` and `kind`.
    pub(crate) metadata_at: u32,
    /// The offset in the metadata where the resourceVersion is inserted, with a comma after it.
    pub(crate) version_at: u32,
    /// The offset after the metadata's closing brace.
    pub(crate) metadata_end: u32,
    /// The object's name.
    pub name: Box<str>,
    /// The object's namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// The object's UID.
    pub uid: Box<str>,
    /// The labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The values of the kind's selectable fields, in the order in which the kind declares them.
    pub(crate) fields: Box<[Box<str>]>,
    /// The UIDs of the owner references.
    pub owners: Box<[Box<str>]>,
    /// Whether the deletionTimestamp is set.
    pub deleting: bool,
    /// Whether the object has finalizers.
    pub finalizers: bool,
    /// Why the bytes are not an object in canonical form, if the object was damaged on disk. In that case all
    /// other fields are empty except for name and namespace, which come from the key.
    pub(crate) damage: Option<Box<str>>,
    /// The storage version and schema that a custom resource is known to conform to. It is not part of the object.
    pub(crate) conformity: Conformity,
}

/// The storage version and schema that the bytes of a custom resource conform to, by their number
/// (`CustomInfo::stored_revision`). Zero if it is not known.
///
/// Each writer of an object records the number that it used. The revision of the write cannot be used instead: a write
/// in progress while the definition changes is stored after the change, but by the old version and schema. For all
/// other objects, such as those written by an earlier process, the first reader finds it out. Until then the object
/// conforms to nothing, which is safe: it is pruned, defaulted and converted.
#[derive(Debug, Default)]
pub(crate) struct Conformity(AtomicU64);

impl Conformity {
    /// Whether the object is known to conform to the storage version and schema with this number.
    pub(crate) fn is(&self, stored_revision: u64) -> bool {
        stored_revision != 0 && self.0.load(Ordering::Relaxed) == stored_revision
    }

    /// Records that the object conforms to the storage version and schema with this number.
    pub(crate) fn note(&self, stored_revision: u64) {
        self.0.store(stored_revision, Ordering::Relaxed);
    }
}

impl Clone for Conformity {
    fn clone(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

/// All values are equal, because headers of equal bytes must be equal, whatever is known about them.
impl PartialEq for Conformity {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Conformity {}

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
            fields: field_selectors::values(object),
            owners: owners(&metadata["ownerReferences"]),
            deleting: metadata["deletionTimestamp"].is_string(),
            finalizers: metadata["finalizers"].as_array().is_some_and(|it| !it.is_empty()),
            damage: None,
            conformity: Conformity::default(),
        }
    }

    /// The header of bytes that are not an object. The key is `/registry/GROUP/PLURAL/[NAMESPACE/]NAME`.
    fn damaged(key: &str, why: &str) -> Self {
        let mut names = key.split('/').skip(4);
        let (first, second) = (names.next().unwrap_or_default(), names.next());
        let (namespace, name) = second.map_or(("", first), |second| (first, second));
        let metadata = evenkeel_schema::json::json!({"metadata": {"namespace": namespace, "name": name}});
        Self { damage: Some(why.into()), ..Self::of(&metadata, Offsets::default()) }
    }
}

impl evenkeel_store::Header for Header {
    /// Parses the header of any bytes. It never fails, because a damaged object must not keep the server from
    /// starting.
    fn parse(key: &str, value: &Bytes) -> Result<Self, String> {
        Ok(read(value).unwrap_or_else(|why| {
            tracing::error!(key, why, "a stored object is damaged");
            Self::damaged(key, &why)
        }))
    }
}

/// The outer fields of a stored object that the header needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outer<'a> {
    #[serde(borrow)]
    api_version: &'a RawValue,
    #[serde(borrow)]
    kind: &'a RawValue,
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// The metadata fields that the header needs.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    labels: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(borrow)]
    owner_references: Vec<Owner<'a>>,
    deletion_timestamp: Option<IgnoredAny>,
    finalizers: Vec<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

/// The names of the metadata's fields before the resourceVersion in an object with the order of Go's struct. All of them
/// hold strings.
const BEFORE_VERSION: [&str; 5] = ["name", "generateName", "namespace", "selfLink", "uid"];
/// The only stored field of the metadata after the resourceVersion if the fields are sorted.
const AFTER_VERSION: &str = "uid";

/// Whether the bytes of an object have the order of Go's structs; otherwise they are sorted.
fn has_struct_order(value: &[u8]) -> bool {
    value.starts_with(b"{\"kind\":")
}

/// Whether a field of the metadata is behind the resourceVersion.
fn follows_version(name: &str, has_struct_order: bool) -> bool {
    if has_struct_order { !BEFORE_VERSION.contains(&name) } else { name == AFTER_VERSION }
}

/// Finds the offset of the first field behind the resourceVersion in the text of the metadata; the beginning if there is
/// none.
fn version_place(metadata: &str, uid: &str, has_struct_order: bool) -> usize {
    const START: usize = "{".len();
    let place = if has_struct_order {
        let mut at = START;
        loop {
            let rest = &metadata[at..];
            let Some((name, value)) = rest.strip_prefix('"').and_then(|rest| rest.split_once("\":")) else {
                break None;
            };
            if follows_version(name, true) {
                break Some(at);
            }
            let Some(len) = string_len(value) else { break None };
            at = metadata.len() - value.len() + len;
            match metadata.as_bytes().get(at) {
                Some(b',') => at += 1,
                _ => break None,
            }
        }
    } else {
        let last = metadata.len() as isize - format!("\"{AFTER_VERSION}\":\"{uid}\"}}").len() as isize;
        let at = usize::try_from(last).ok();
        at.filter(|at| metadata.get(*at..).is_some_and(|rest| rest.starts_with("\"uid\":\"")))
    };
    place.unwrap_or(START)
}

/// The length of the JSON string at the beginning of a text.
fn string_len(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if at == 0 => {}
            _ if at == 0 => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Parses the header from canonical bytes. It reads only the fields that it needs, because opening a large
/// data directory spends its time here.
fn read(value: &Bytes) -> Result<Header, String> {
    let outer: Outer<'_> = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    let begin = "{\"apiVersion\":,\"kind\":,".len() + outer.api_version.get().len() + outer.kind.get().len();
    let metadata_at = begin;
    let metadata_start = metadata_at + "\"metadata\":".len();
    let metadata_end = metadata_start + outer.metadata.get().len();
    let is_canonical = (value.starts_with(b"{\"apiVersion\":") || has_struct_order(value))
        && value.get(metadata_at..metadata_start) == Some(b"\"metadata\":".as_slice())
        && value.get(metadata_start..metadata_end) == Some(outer.metadata.get().as_bytes())
        && outer.metadata.get().starts_with('{');
    if !is_canonical {
        return Err("not in canonical form".to_owned());
    }
    let metadata: Metadata<'_> =
        serde_json::from_str(outer.metadata.get()).map_err(|error| error.to_string())?;
    let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).unwrap_or_default();
    // Few kinds have selectable fields; only their objects are parsed completely.
    let fields = if field_selectors::is_selectable(&text(outer.api_version), &text(outer.kind)) {
        field_selectors::values(&serde_json::from_slice(value).map_err(|error| error.to_string())?)
    } else {
        Box::default()
    };
    let version_at =
        metadata_start + version_place(outer.metadata.get(), &metadata.uid, has_struct_order(value));
    let offset = |at: usize| u32::try_from(at).map_err(|_| "too large".to_owned());
    Ok(Header {
        metadata_at: offset(metadata_at)?,
        version_at: offset(version_at)?,
        metadata_end: offset(metadata_end)?,
        name: metadata.name.into(),
        namespace: metadata.namespace.into(),
        uid: metadata.uid.into(),
        labels: metadata.labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        fields,
        owners: metadata.owner_references.into_iter().map(|owner| owner.uid.into()).collect(),
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: !metadata.finalizers.is_empty(),
        damage: None,
        conformity: Conformity::default(),
    })
}

#[derive(Default)]
struct Offsets {
    metadata_at: u32,
    version_at: u32,
    metadata_end: u32,
}

thread_local! {
    /// A buffer for objects whose encoded length is not known yet, so that the stored copy has the exact
    /// size.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
/// The capacity above which the buffer is shrunk after use.
const SCRATCH_MAX_BYTES: usize = 256 * 1024;

/// Encodes an object into its canonical bytes and header, without its resourceVersion.
pub(crate) fn encode_object(object: &Value) -> (Bytes, Header) {
    SCRATCH.with_borrow_mut(|out| {
        out.clear();
        let header = write_encoded(out, object);
        let bytes = Bytes::copy_from_slice(out);
        out.shrink_to(SCRATCH_MAX_BYTES);
        (bytes, header)
    })
}

/// An object with simple metadata that needs no escaping, which is encoded without a JSON tree.
pub(crate) struct Plain<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// The namespace; empty for cluster-scoped kinds.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) created: &'a str,
    /// Sorted by key.
    pub(crate) labels: &'a [(&'a str, &'a str)],
    /// Sorted by key.
    pub(crate) annotations: &'a [(&'a str, &'a str)],
}

impl Plain<'_> {
    /// Encodes the canonical bytes and header, like [`encode_object`]. `rest` writes the fields after the metadata in
    /// canonical order; there must be at least one.
    pub(crate) fn encode(&self, rest: impl FnOnce(&mut String)) -> (Bytes, Header) {
        let mut out = String::with_capacity(1024);
        out.extend([r#"{"kind":""#, self.kind, r#"","apiVersion":""#, self.api_version, r#"","#]);
        let metadata_at = out.len() as u32;
        out.extend([r#""metadata":{"name":""#, self.name, r#"","#]);
        if !self.namespace.is_empty() {
            out.extend([r#""namespace":""#, self.namespace, r#"","#]);
        }
        out.extend([r#""uid":""#, self.uid, r#"","#]);
        let version_at = out.len() as u32;
        out.extend([r#""creationTimestamp":""#, self.created, r#"""#]);
        write_texts(&mut out, "labels", self.labels);
        write_texts(&mut out, "annotations", self.annotations);
        out.push('}');
        let metadata_end = out.len() as u32;
        out.push(',');
        rest(&mut out);
        out.push('}');
        let header = Header {
            metadata_at,
            version_at,
            metadata_end,
            name: self.name.into(),
            namespace: self.namespace.into(),
            uid: self.uid.into(),
            labels: self.labels.iter().map(|&(key, value)| (key.into(), value.into())).collect(),
            fields: Box::default(),
            owners: Box::default(),
            deleting: false,
            finalizers: false,
            damage: None,
            conformity: Conformity::default(),
        };
        (Bytes::copy_from_slice(out.as_bytes()), header)
    }
}

/// Writes a map of strings and a comma before it; nothing if the map is empty.
fn write_texts(out: &mut String, member: &str, texts: &[(&str, &str)]) {
    if texts.is_empty() {
        return;
    }
    out.extend([",\"", member, "\":{"]);
    for (at, (key, value)) in texts.iter().enumerate() {
        out.extend([if at > 0 { ",\"" } else { "\"" }, key, "\":\"", value, "\""]);
    }
    out.push('}');
}

fn write_encoded(out: &mut Vec<u8>, object: &Value) -> Header {
    let empty = Map::new();
    let map = object.as_object().unwrap_or(&empty);
    let text = |field: &str| map.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let order = KeyOrder::of_kind(group, version, text("kind"));
    out.push(b'{');
    for key in if order.is_struct() { ["kind", "apiVersion"] } else { ["apiVersion", "kind"] } {
        write_member(out, key, map.get(key).unwrap_or(&Value::Null));
        out.push(b',');
    }
    let metadata_at = out.len() as u32;
    out.extend_from_slice(b"\"metadata\":{");
    let start = out.len() as u32;
    let mut version_at = None;
    let metadata = map.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    write_members(out, order.member("metadata"), metadata, &["resourceVersion"], |name, at| {
        if version_at.is_none() && follows_version(name, order.is_struct()) {
            version_at = Some(at as u32);
        }
    });
    out.push(b'}');
    let metadata_end = out.len() as u32;
    if map.keys().any(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata")) {
        out.push(b',');
        write_members(out, order, map, &["apiVersion", "kind", "metadata"], |_, _| {});
    }
    out.push(b'}');
    // Without a field behind it, the resourceVersion goes to the beginning.
    Header::of(object, Offsets { metadata_at, version_at: version_at.unwrap_or(start), metadata_end })
}

/// Writes the fields of a map, separated by commas, except for those in `without`. Calls `note` with the name and the
/// offset of each.
fn write_members(
    out: &mut Vec<u8>,
    order: KeyOrder,
    map: &Map,
    without: &[&str],
    mut note: impl FnMut(&str, usize),
) {
    let mut first = true;
    order.visit(map, &mut |name, value, written| {
        if without.contains(&name) {
            return;
        }
        if !first {
            out.push(b',');
        }
        first = false;
        note(name, out.len());
        write_json(out, name);
        out.push(b':');
        written.append(out, value);
    });
}

fn write_member(out: &mut Vec<u8>, key: &str, value: &Value) {
    write_json(out, key);
    out.push(b':');
    write_json(out, value);
}

fn write_json<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(&mut *out, value).expect("writing JSON to memory cannot fail");
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
    use evenkeel_schema::json::json;
    use evenkeel_store::Header as _;

    use super::*;

    #[test]
    fn the_canonical_form_is_read_back() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "spec": {"a": 1},
            "metadata": {"name": "p", "resourceVersion": "7", "labels": {"b": "2", "a": "1"}}});
        let (bytes, header) = encode_object(&object);
        assert_eq!(
            &bytes[..],
            br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"a":"1","b":"2"}},"spec":{"a":1}}"#
        );
        assert_eq!(header.label("b"), Some("2"));
        assert_eq!(&bytes[header.metadata_end as usize..], br#","spec":{"a":1}}"#);
        let again = Header::parse("/k", &bytes).unwrap();
        assert_eq!(format!("{again:?}"), format!("{header:?}"));
    }

    #[test]
    fn all_of_a_header_is_read_back() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "spec": {"nodeName": "n", "restartPolicy": "Never"},
            "status": {"phase": "Running"}, "metadata": {
                "name": "p", "namespace": "a \"b\"", "uid": "u", "labels": {"é": "\n"}, "finalizers": ["x"],
                "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{"uid": "o", "name": "x"}]}});
        let (bytes, header) = encode_object(&object);
        let again = Header::parse("/k", &bytes).unwrap();
        assert_eq!(format!("{again:?}"), format!("{header:?}"));
        assert!(again.deleting && again.finalizers && &*again.owners[0] == "o");
    }

    /// Where the resourceVersion is inserted into the bytes, and what the header says after the bytes were read again.
    fn placed(object: Value) -> String {
        let (bytes, header) = encode_object(&object);
        let again = Header::parse("/k", &bytes).unwrap();
        assert_eq!(format!("{again:?}"), format!("{header:?}"));
        let (before, after) = bytes.split_at(header.version_at as usize);
        String::from_utf8([before, b"^", after].concat()).unwrap()
    }

    #[test]
    fn the_resource_version_has_its_place_in_the_order() {
        let metadata = json!({"name": "a \\\"b\":", "namespace": "n", "uid": "u", "labels": {"uid": "u"},
            "creationTimestamp": "t", "generation": 1});
        let of = |kind: &str, metadata: &Value| {
            placed(
                json!({"apiVersion": if kind == "Pod" { "v1" } else { "g/v1" }, "kind": kind, "metadata": metadata}),
            )
        };
        assert_eq!(
            of("Pod", &metadata),
            concat!(
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a \\\"b\":","namespace":"n","uid":"u","#,
                r#"^"generation":1,"creationTimestamp":"t","labels":{"uid":"u"}}}"#
            )
        );
        assert_eq!(
            of("X", &metadata),
            concat!(
                r#"{"apiVersion":"g/v1","kind":"X","metadata":{"creationTimestamp":"t","generation":1,"#,
                r#""labels":{"uid":"u"},"name":"a \\\"b\":","namespace":"n",^"uid":"u"}}"#
            )
        );
        let name = json!({"name": "a"});
        assert_eq!(of("Pod", &name), r#"{"kind":"Pod","apiVersion":"v1","metadata":{^"name":"a"}}"#);
        assert_eq!(of("X", &name), r#"{"apiVersion":"g/v1","kind":"X","metadata":{^"name":"a"}}"#);
        assert_eq!(of("X", &json!({})), r#"{"apiVersion":"g/v1","kind":"X","metadata":{^}}"#);
    }

    /// Older versions of the server stored built-in objects with sorted keys.
    #[test]
    fn sorted_built_in_objects_are_still_read() {
        let bytes = Bytes::from(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"1"},"name":"p","uid":"u"},"spec":{}}"#,
        );
        let header = Header::parse("/k", &bytes).unwrap();
        assert_eq!(header.damage, None);
        assert_eq!(&bytes[header.version_at as usize..], br#""uid":"u"},"spec":{}}"#);
    }

    #[test]
    fn what_is_not_canonical_is_damaged() {
        for bytes in
            [r#"{"kind":"Pod","metadata":{},"apiVersion":"v1"}"#, r#"{"apiVersion":"v1","kind":"Pod"}"#, "{"]
        {
            let header = Header::parse("/registry/core/pods/a/b", &Bytes::from(bytes)).unwrap();
            assert!(header.damage.is_some(), "{bytes}");
            assert_eq!((&*header.namespace, &*header.name), ("a", "b"));
        }
        let header = Header::parse("/registry/core/nodes/n", &Bytes::new()).unwrap();
        assert_eq!((&*header.namespace, &*header.name), ("", "n"));
    }
}
