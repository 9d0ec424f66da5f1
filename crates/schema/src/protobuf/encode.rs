//! Encodes objects of built-in kinds as the protobuf bodies that Go clients ask for.
//!
//! The bytes equal those of Kubernetes: fields in the order of their numbers, maps in the order of their keys. Fields
//! that are not pointers in Go are written with their zero value, even if JSON omits them.
//!
//! Objects come from responses of the API server, so their depth is limited to what can be stored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::write::{write_bytes, write_double, write_number};
use super::{MAGIC, SCHEMA, message_of};
use crate::api_resources;
use crate::go_structs::{self, Cardinality, Field, FieldType, Message};
use crate::json::{Map, Value};
use crate::time::{self, Precision};

/// Encodes an object, with the envelope that contains its `apiVersion` and `kind`. Returns `None` if its kind has no
/// protobuf form, like custom resources and Tables.
///
/// ```
/// use evenkeel_schema::protobuf;
/// let namespace = evenkeel_schema::json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dev"}});
/// let body = protobuf::encode(&namespace).unwrap();
/// assert_eq!(protobuf::decode(&body).unwrap()["metadata"]["name"], "dev");
/// let site = evenkeel_schema::json::json!({"apiVersion": "example.com/v1", "kind": "Site"});
/// assert_eq!(protobuf::encode(&site), None);
/// ```
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_resources::split_api_version(api_version);
    let message = message_of(group, version, kind)?;
    let mut raw = Vec::new();
    write_message(&mut raw, message, object.as_object()?);
    let mut meta = Vec::new();
    write_bytes(&mut meta, 1, api_version.as_bytes());
    write_bytes(&mut meta, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    out.reserve(meta.len() + raw.len() + 16);
    write_bytes(&mut out, 1, &meta);
    write_bytes(&mut out, 2, &raw);
    // The encoding and the content type of the object: empty for protobuf.
    write_bytes(&mut out, 3, b"");
    write_bytes(&mut out, 4, b"");
    Some(out)
}

/// Encodes an event of a watch as a frame: its length, its type, and the object with its envelope. Returns `None` if
/// the object has no protobuf form.
pub fn encode_event(event: &Value) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    write_bytes(&mut raw, 1, &encode(event.get("object")?)?);
    let mut frame = Vec::with_capacity(raw.len() + 24);
    write_bytes(&mut frame, 1, event.get("type")?.as_str()?.as_bytes());
    write_bytes(&mut frame, 2, &raw);
    let length = u32::try_from(frame.len()).ok()?;
    Some([&length.to_be_bytes()[..], &frame].concat())
}

fn write_message(out: &mut Vec<u8>, message: &'static Message, object: &Map) {
    for field in message.by_number() {
        match (&field.kind, field.name) {
            // An inlined struct is a message in protobuf, but its fields are on the outer level in JSON.
            (FieldType::Message(link), "") => nested(out, field.number, |out| {
                if let Some(message) = link.message() {
                    write_message(out, message, object);
                }
            }),
            _ => write_field(out, field, object.get(field.name).filter(|value| !value.is_null())),
        }
    }
}

fn write_field(out: &mut Vec<u8>, field: &'static Field, value: Option<&Value>) {
    match (field.cardinality, value) {
        (Cardinality::One, None) if field.pointer || matches!(field.kind, FieldType::Bytes) => {}
        (Cardinality::One, value) => {
            write_value(out, field.number, &field.kind, value.unwrap_or(&Value::Null))
        }
        (Cardinality::List, Some(Value::Array(items))) => {
            items.iter().for_each(|item| write_value(out, field.number, &field.kind, item));
        }
        (Cardinality::Map, Some(Value::Object(entries))) => {
            for (key, value) in entries {
                nested(out, field.number, |out| {
                    write_bytes(out, 1, key.as_bytes());
                    write_value(out, 2, &field.kind, value);
                });
            }
        }
        _ => {}
    }
}

/// Writes one value. Null is written as the zero value of its type.
fn write_value(out: &mut Vec<u8>, number: u32, kind: &'static FieldType, value: &Value) {
    match kind {
        FieldType::Bool => write_number(out, number, value.as_bool().unwrap_or_default().into()),
        FieldType::Int32 | FieldType::Int64 => write_number(out, number, integer(value)),
        FieldType::Double => write_double(out, number, value.as_f64().unwrap_or_default()),
        FieldType::String => write_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        FieldType::Bytes => {
            let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
            write_bytes(out, number, &bytes);
        }
        FieldType::Message(link) => nested(out, number, |out| {
            if let Some(message) = link.message() {
                write_message(out, message, value.as_object().unwrap_or(&Map::new()));
            }
        }),
        special => nested(out, number, |out| write_special(out, special, value)),
    }
}

/// Writes the fields of a message whose JSON form is not an object.
fn write_special(out: &mut Vec<u8>, kind: &'static FieldType, value: &Value) {
    match kind {
        FieldType::Quantity => write_bytes(out, 1, value.as_str().unwrap_or("0").as_bytes()),
        FieldType::IntOrString => {
            write_number(out, 1, value.is_string().into());
            write_number(out, 2, integer(value));
            write_bytes(out, 3, value.as_str().unwrap_or_default().as_bytes());
        }
        FieldType::Time => write_instant(out, value, Precision::Seconds),
        FieldType::MicroTime => write_instant(out, value, Precision::Micros),
        FieldType::Duration => {
            write_number(out, 1, value.as_str().and_then(time::parse_duration).unwrap_or_default());
        }
        FieldType::Raw if !value.is_null() => write_bytes(out, 1, value.to_string().as_bytes()),
        FieldType::Wrapped => {
            let items = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            items.for_each(|item| write_bytes(out, 1, item.as_bytes()));
        }
        FieldType::SchemaOrBool => {
            write_number(out, 1, (value.is_object() || value == &Value::Bool(true)).into());
            write_schema(out, 2, value);
        }
        FieldType::SchemaOrList => {
            write_schema(out, 1, value);
            value.as_array().into_iter().flatten().for_each(|schema| write_schema(out, 2, schema));
        }
        FieldType::SchemaOrStrings => {
            write_schema(out, 1, value);
            let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.for_each(|name| write_bytes(out, 2, name.as_bytes()));
        }
        _ => {}
    }
}

/// Writes a schema, if the value is one.
fn write_schema(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let (Value::Object(object), Some(message)) = (value, go_structs::find(SCHEMA)) {
        nested(out, number, |out| write_message(out, message, object));
    }
}

/// Writes the fields of a time. A missing time has no fields.
fn write_instant(out: &mut Vec<u8>, value: &Value, precision: Precision) {
    let Some(instant) = value.as_str().and_then(|text| time::parse(text, precision).ok()) else { return };
    let nanos = if precision == Precision::Micros { instant.subsec_nanosecond() / 1_000 * 1_000 } else { 0 };
    write_number(out, 1, instant.as_second());
    write_number(out, 2, nanos.into());
}

/// Returns the value as an integer, or zero if it is not a number.
fn integer(value: &Value) -> i64 {
    // A whole number may be stored as a float.
    value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)).unwrap_or_default()
}

/// Writes a message that `content` writes.
fn nested(out: &mut Vec<u8>, number: u32, content: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    content(&mut inner);
    write_bytes(out, number, &inner);
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;
    use crate::protobuf::decode;

    /// Encodes an object and decodes it again.
    fn round_trip(object: &Value) -> Value {
        decode(&encode(object).expect("the kind has a protobuf form")).expect("well-formed")
    }

    #[test]
    fn every_type_of_field_survives() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "creationTimestamp": "2026-01-04T16:14:56Z", "labels": {"b": "2", "a": "1"},
                "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                    "time": "2026-01-04T16:14:56Z", "fieldsV1": {"f:spec": {"f:nodeName": {}}}}]},
            "spec": {"priority": -5, "hostNetwork": true, "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"limits": {"cpu": "1500m"}},
                    "readinessProbe": {"httpGet": {"path": "/", "port": "web"}, "timeoutSeconds": 5}}]},
            "status": {}});
        assert_eq!(round_trip(&pod)["spec"], pod["spec"]);
        assert_eq!(round_trip(&pod)["metadata"], pod["metadata"]);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"creationTimestamp": null},
            "data": {"key": "dmFsdWU=", "empty": ""}, "immutable": false});
        assert_eq!(round_trip(&secret), secret);
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"creationTimestamp": null},
            "spec": {"renewTime": "2026-01-04T16:14:56.123456Z", "leaseDurationSeconds": 15}});
        assert_eq!(round_trip(&lease), lease);
    }

    #[test]
    fn schemas_survive() {
        let schema = json!({"type": "object", "additionalProperties": false,
            "properties": {"list": {"type": "array", "items": {"type": "string", "default": "x"}},
                "map": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0.5}}}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "x"}, "spec": {"group": "g", "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        let back = round_trip(&crd);
        assert_eq!(back["spec"]["versions"][0]["schema"]["openAPIV3Schema"], schema);
    }

    /// The bytes of a Namespace as kube-apiserver v1.36.4 sends them.
    #[test]
    fn the_bytes_are_those_of_kubernetes() {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "dev"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let raw: &[u8] = b"\x0a\x13\x0a\x03dev\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0\
            \x12\x0c\x0a\x0akubernetes\x1a\x08\x0a\x06Active";
        let mut expected = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12".to_vec();
        expected.push(raw.len() as u8);
        expected.extend_from_slice(raw);
        expected.extend_from_slice(b"\x1a\0\x22\0");
        assert_eq!(encode(&namespace).expect("known"), expected);
    }

    #[test]
    fn kinds_without_a_protobuf_form_are_refused() {
        assert_eq!(encode(&json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {}})), None);
        assert_eq!(encode(&json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "rows": []})), None);
        assert_eq!(encode(&json!([])), None);
    }
}
