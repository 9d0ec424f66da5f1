//! Decodes the protobuf bodies that kubectl and Go clients send for built-in kinds, and encodes those that they ask for.
//!
//! There is no generated code: the facts contain the field numbers of every struct, and the decoder makes JSON from the bytes
//! directly. Input may be hostile: every length is checked against the remaining bytes, and nesting and the number of values
//! are bounded.

mod encode;
mod wire;
mod write;

pub use encode::{encode, encode_event};
pub use write::{write_bytes, write_double, write_number};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::api_resources;
use crate::go_structs::{self, Cardinality, Field, FieldType, Message};
use crate::json::{Map, Value};
use crate::time::{self, Precision};
use wire::{Item, Reader};

/// The four bytes that a body starts with.
pub const MAGIC: [u8; 4] = *b"k8s\0";
/// How deep messages may be nested. Only the schemas of custom resources nest without a bound of their own, and real ones
/// stay far below.
const DEPTH_MAX: usize = 256;
/// The most values in one body. A megabyte of the smallest items has as many; real objects have thousands.
const VALUES_MAX: usize = 1_000_000;
const SCHEMA: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Why a body could not be decoded. The API server responds with 400 and this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The body does not start with [`MAGIC`].
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// The body ends too early, or a length in it is wrong.
    #[error("unexpected EOF")]
    Truncated,
    /// A tag or a number is malformed.
    #[error("proto: illegal wireType {0}")]
    WireType(u64),
    /// A number has too many bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// Messages are nested too deeply.
    #[error("proto: message is nested too deeply")]
    Depth,
    /// There are more values than allowed.
    #[error("proto: message holds too many values")]
    Values,
    /// JSON inside of a message does not parse.
    #[error("{0}")]
    Json(String),
    /// The envelope names an unknown kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// The `apiVersion` of the envelope.
        api_version: String,
        /// The kind of the envelope.
        kind: String,
    },
}

/// Whether a body starts with the envelope's magic bytes.
pub fn is_envelope(body: &[u8]) -> bool {
    body.starts_with(&MAGIC)
}

/// Decodes a body. The object gets the `apiVersion` and `kind` of the envelope.
///
/// ```
/// let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x07\x0a\x05\x0a\x03dev\x1a\0\"\0";
/// let object = evenkeel_schema::protobuf::decode(body).unwrap();
/// assert_eq!(object["kind"], "Namespace");
/// assert_eq!(object["metadata"]["name"], "dev");
/// ```
pub fn decode(body: &[u8]) -> Result<Value, DecodeError> {
    let rest = body.strip_prefix(&MAGIC).ok_or(DecodeError::Prefix)?;
    let envelope = envelope(rest)?;
    if envelope.content_type.starts_with("application/json") {
        return serde_json::from_slice(envelope.raw).map_err(|error| DecodeError::Json(error.to_string()));
    }
    let (group, version) = api_resources::split_api_version(&envelope.api_version);
    let Some(message) = message_of(group, version, &envelope.kind) else {
        return Err(DecodeError::UnknownKind { api_version: envelope.api_version, kind: envelope.kind });
    };
    let mut object = Map::new();
    Decoder { values: 0 }.message(message, envelope.raw, &mut object, 0)?;
    object.insert("apiVersion".into(), envelope.api_version.into());
    object.insert("kind".into(), envelope.kind.into());
    Ok(Value::Object(object))
}

/// Returns the message of a kind, or `None` if the kind has no protobuf form.
fn message_of(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    match group {
        "meta.k8s.io" => go_structs::find(&format!("k8s.io.apimachinery.pkg.apis.meta.v1.{kind}")),
        _ => go_structs::of_kind(group, version, kind),
    }
}

struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
    content_type: String,
}

fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let mut envelope =
        Envelope { api_version: String::new(), kind: String::new(), raw: &[], content_type: String::new() };
    let mut reader = Reader::new(bytes);
    while let Some((number, item)) = reader.next()? {
        match (number, item) {
            (1, Item::Bytes(meta)) => {
                let mut reader = Reader::new(meta);
                while let Some((number, item)) = reader.next()? {
                    match (number, item) {
                        (1, Item::Bytes(text)) => envelope.api_version = lossy(text),
                        (2, Item::Bytes(text)) => envelope.kind = lossy(text),
                        _ => {}
                    }
                }
            }
            (2, Item::Bytes(raw)) => envelope.raw = raw,
            (4, Item::Bytes(text)) => envelope.content_type = lossy(text),
            _ => {}
        }
    }
    Ok(envelope)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Decoder {
    /// How many values were decoded so far.
    values: usize,
}

impl Decoder {
    fn message(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        object: &mut Map,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::Depth);
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, item)) = reader.next()? {
            if let Some(field) = message.fields.iter().find(|field| field.number == number) {
                self.field(field, item, object, depth)?;
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &'static Field,
        item: Item<'_>,
        object: &mut Map,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if let (FieldType::Message(link), "", Item::Bytes(bytes)) = (&field.kind, field.name, item) {
            // An inlined struct is a message in protobuf, but has no level of its own in JSON.
            return link.message().map_or(Ok(()), |message| self.message(message, bytes, object, depth + 1));
        }
        match field.cardinality {
            Cardinality::One => self.one(field, item, object, depth),
            Cardinality::List => {
                let list = object.entry(field.name).or_insert_with(|| Value::Array(Default::default()));
                let Value::Array(list) = list else { return Ok(()) };
                for item in unpacked(&field.kind, item)? {
                    list.push(self.value(&field.kind, item, depth)?);
                }
                Ok(())
            }
            Cardinality::Map => {
                let Item::Bytes(entry) = item else { return Ok(()) };
                let (key, value) = self.entry(&field.kind, entry, depth)?;
                let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key.into(), value);
                }
                Ok(())
            }
        }
    }

    fn one(
        &mut self,
        field: &'static Field,
        item: Item<'_>,
        object: &mut Map,
        depth: usize,
    ) -> Result<(), DecodeError> {
        if let (FieldType::Message(link), Item::Bytes(bytes)) = (&field.kind, item) {
            self.count()?;
            let child = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            let (Some(message), Value::Object(child)) = (link.message(), child) else { return Ok(()) };
            return self.message(message, bytes, child, depth + 1);
        }
        let value = self.value(&field.kind, item, depth)?;
        if field.omit_empty && !field.pointer && is_zero(&value) {
            object.remove(field.name);
        } else {
            object.insert(field.name.into(), value);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        kind: &'static FieldType,
        bytes: &[u8],
        depth: usize,
    ) -> Result<(String, Value), DecodeError> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(bytes);
        while let Some((number, item)) = reader.next()? {
            match (number, item) {
                (1, Item::Bytes(text)) => key = lossy(text),
                (2, item) => value = Some(self.value(kind, item, depth)?),
                _ => {}
            }
        }
        Ok((key, value.unwrap_or(Value::Null)))
    }

    fn count(&mut self) -> Result<(), DecodeError> {
        self.values += 1;
        if self.values > VALUES_MAX { Err(DecodeError::Values) } else { Ok(()) }
    }

    fn value(
        &mut self,
        kind: &'static FieldType,
        item: Item<'_>,
        depth: usize,
    ) -> Result<Value, DecodeError> {
        self.count()?;
        Ok(match (kind, item) {
            (FieldType::Bool, Item::Varint(number)) => Value::Bool(number != 0),
            // Protobuf encodes negative 32-bit numbers with 64 bits.
            (FieldType::Int32, Item::Varint(number)) => Value::from(number as i32),
            (FieldType::Int64, Item::Varint(number)) => Value::from(number as i64),
            (FieldType::Double, Item::Fixed64(bits)) => Value::from(f64::from_bits(bits)),
            (FieldType::String, Item::Bytes(text)) => Value::from(lossy(text)),
            (FieldType::Bytes, Item::Bytes(bytes)) => Value::from(STANDARD.encode(bytes)),
            (FieldType::Message(link), Item::Bytes(bytes)) => {
                let mut object = Map::new();
                if let Some(message) = link.message() {
                    self.message(message, bytes, &mut object, depth + 1)?;
                }
                Value::Object(object)
            }
            (kind, Item::Bytes(bytes)) => self.special(kind, bytes, depth)?,
            _ => Value::Null,
        })
    }

    /// Decodes a message whose JSON form is not an object.
    fn special(
        &mut self,
        kind: &'static FieldType,
        bytes: &[u8],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        Ok(match kind {
            FieldType::Quantity => Value::from(text_field(bytes)?),
            FieldType::IntOrString => int_or_string(bytes)?,
            FieldType::Time => instant(bytes, Precision::Seconds)?,
            FieldType::MicroTime => instant(bytes, Precision::Micros)?,
            FieldType::Duration => Value::from(time::print_duration(numbers(bytes)?.0)),
            FieldType::Raw => raw(bytes)?,
            FieldType::Wrapped => {
                let mut items = Vec::new();
                let mut reader = Reader::new(bytes);
                while let Some((number, item)) = reader.next()? {
                    if let (1, Item::Bytes(text)) = (number, item) {
                        self.count()?;
                        items.push(Value::from(lossy(text)));
                    }
                }
                Value::Array(items.into())
            }
            FieldType::SchemaOrBool | FieldType::SchemaOrList | FieldType::SchemaOrStrings => {
                self.schema(kind, bytes, depth)?
            }
            _ => Value::Null,
        })
    }

    /// Decodes a field that holds a schema or another type.
    fn schema(&mut self, kind: &FieldType, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
        let mut instead = if matches!(kind, FieldType::SchemaOrBool) {
            Value::Bool(false)
        } else {
            Value::Array(Default::default())
        };
        let schema_number = if matches!(kind, FieldType::SchemaOrBool) { 2 } else { 1 };
        let mut reader = Reader::new(bytes);
        while let Some((number, item)) = reader.next()? {
            self.count()?;
            match (kind, item) {
                (_, Item::Bytes(bytes)) if number == schema_number => return self.schema_props(bytes, depth),
                (FieldType::SchemaOrBool, Item::Varint(allows)) => instead = Value::Bool(allows != 0),
                (FieldType::SchemaOrList, Item::Bytes(bytes)) => {
                    let schema = self.schema_props(bytes, depth)?;
                    instead.as_array_mut().into_iter().for_each(|list| list.push(schema.clone()));
                }
                (FieldType::SchemaOrStrings, Item::Bytes(text)) => {
                    instead.as_array_mut().into_iter().for_each(|list| list.push(lossy(text).into()));
                }
                _ => {}
            }
        }
        Ok(instead)
    }

    fn schema_props(&mut self, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
        let mut object = Map::new();
        if let Some(message) = go_structs::find(SCHEMA) {
            self.message(message, bytes, &mut object, depth + 1)?;
        }
        Ok(Value::Object(object))
    }
}

/// Splits a packed list of numbers into its items.
fn unpacked<'a>(kind: &FieldType, item: Item<'a>) -> Result<Vec<Item<'a>>, DecodeError> {
    match (kind, item) {
        (FieldType::Bool | FieldType::Int32 | FieldType::Int64, Item::Bytes(packed)) => {
            let mut reader = Reader::new(packed);
            let mut items = Vec::new();
            while !reader.is_empty() {
                items.push(Item::Varint(reader.varint()?));
            }
            Ok(items)
        }
        (_, item) => Ok(vec![item]),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn text_field(bytes: &[u8]) -> Result<String, DecodeError> {
    let mut text = String::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, item)) = reader.next()? {
        if let (1, Item::Bytes(bytes)) = (number, item) {
            text = lossy(bytes);
        }
    }
    Ok(text)
}

/// Decodes the first two numbers of a message.
fn numbers(bytes: &[u8]) -> Result<(i64, i64), DecodeError> {
    let (mut first, mut second) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, item)) = reader.next()? {
        match (number, item) {
            (1, Item::Varint(value)) => first = value as i64,
            (2, Item::Varint(value)) => second = value as i64,
            _ => {}
        }
    }
    Ok((first, second))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, DecodeError> {
    let (is_string, number) = numbers(bytes)?;
    if is_string == 0 {
        return Ok(Value::from(number as i32));
    }
    let mut text = String::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, item)) = reader.next()? {
        if let (3, Item::Bytes(bytes)) = (number, item) {
            text = lossy(bytes);
        }
    }
    Ok(Value::from(text))
}

/// Decodes a time; an empty message is null.
fn instant(bytes: &[u8], precision: Precision) -> Result<Value, DecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (seconds, nanos) = numbers(bytes)?;
    let nanos = if precision == Precision::Micros { nanos } else { 0 };
    let time = Timestamp::new(seconds, i32::try_from(nanos).unwrap_or_default());
    Ok(time.map_or(Value::Null, |time| Value::from(time::print(time, precision))))
}

fn raw(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, item)) = reader.next()? {
        if let (1, Item::Bytes(json)) = (number, item)
            && !json.is_empty()
        {
            return serde_json::from_slice(json).map_err(|error| DecodeError::Json(error.to_string()));
        }
    }
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A field with a length before it.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut length = content.len();
        while length >= 0x80 {
            bytes.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend(content);
        bytes
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &meta), field(2, raw)].concat()
    }

    #[test]
    fn reads_a_pod() {
        let quantity = [field(1, b"cpu"), field(2, &field(1, b"1500m"))].concat();
        let resources = field(1, &quantity);
        let port = [vec![3 << 3, 80], field(4, b"")].concat();
        let container = [field(1, b"c"), field(6, &port), field(8, &resources), vec![0x80, 1, 0]].concat();
        let time = field(8, &[1 << 3, 0x80, 0xa4, 0xea, 0xca, 6]);
        let raw = [field(1, &[field(1, b"p"), time].concat()), field(2, &field(2, &container))].concat();
        assert_eq!(
            decode(&body("v1", "Pod", &raw)).expect("well-formed"),
            crate::json::json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "creationTimestamp": "2026-01-04T16:14:56Z"},
                "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1500m"}}}]}})
        );
    }

    #[test]
    fn inlined_structs_and_int_or_string() {
        let http =
            field(2, &[field(1, b"/"), field(2, &[vec![1 << 3, 1], field(3, b"web")].concat())].concat());
        let probe = [field(1, &http), vec![3 << 3, 5]].concat();
        let raw = field(2, &field(2, &field(11, &probe)));
        let pod = decode(&body("v1", "Pod", &raw)).expect("well-formed");
        assert_eq!(
            pod["spec"]["containers"][0]["readinessProbe"],
            crate::json::json!({"httpGet": {"path": "/", "port": "web"}, "timeoutSeconds": 5})
        );
    }

    #[test]
    fn hostile_input_is_refused() {
        assert_eq!(decode(b"{}"), Err(DecodeError::Prefix));
        assert_eq!(decode(b"k8s\0\x12\xff\xff\xff\xff\x0f"), Err(DecodeError::Truncated));
        assert!(matches!(decode(&body("v1", "Nope", b"")), Err(DecodeError::UnknownKind { .. })));
        // A schema inside of a schema, many times over: `not` is field 28 (two bytes of tag).
        let mut schema = Vec::new();
        for _ in 0..2000 {
            let mut outer = vec![0xe2, 0x01];
            let inner = field(1, &schema);
            outer.extend(&inner[1..]);
            schema = outer;
        }
        let version = field(4, &field(1, &schema));
        let raw = field(2, &field(7, &version));
        let crd = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw);
        assert_eq!(decode(&crd), Err(DecodeError::Depth));
        let items = [0x12, 0x00].repeat(VALUES_MAX + 1);
        assert_eq!(decode(&body("v1", "ConfigMapList", &items)), Err(DecodeError::Values));
    }

    proptest! {
        #[test]
        fn never_panics(raw in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&body("v1", "Pod", &raw));
            let _ = decode(&[MAGIC.to_vec(), raw].concat());
        }
    }
}
