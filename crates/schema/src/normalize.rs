//! Normalizes an object: brings it into the form that it has after a round trip through Kubernetes' Go types.
//!
//! Kubernetes decodes every built-in object into a struct, stores it as protobuf and encodes it as JSON again. That drops
//! unknown fields, nulls and empty values that the struct omits. It adds structs that are never omitted (`resources: {}`),
//! and prints quantities and times in their canonical form. Clients compare what they read with what they wrote, so all of
//! this is part of the API.

use crate::go_structs::{self, Cardinality, Field, FieldType, Message};
use crate::int_or_string::IntOrString;
use crate::json::{Map, Value};
use crate::quantity::Quantity;
use crate::time::{self, Precision};

/// Structs nested deeper than this are not normalized. Only a JSONSchemaProps can be, and decoding bounds it too.
const DEPTH_MAX: usize = 512;

/// Normalizes an object of a built-in kind. Values of a wrong type stay unchanged; the decoder has refused them before.
pub fn normalize(group: &str, version: &str, kind: &str, object: &mut Value) {
    normalize_since(group, version, kind, object, None);
}

/// Normalizes an object that was made from `old`. Fields equal to those in `old` are already normalized and are skipped.
pub fn normalize_since(group: &str, version: &str, kind: &str, object: &mut Value, old: Option<&Value>) {
    let Some(message) = go_structs::of_kind(group, version, kind) else { return };
    let Value::Object(fields) = object else { return };
    let type_meta = ["apiVersion", "kind"].map(|name| (name, fields.remove(name)));
    normalize_struct(message, object, old, 0);
    let Value::Object(fields) = object else { return };
    for (name, value) in type_meta {
        if let Some(value) = value {
            fields.insert(name.into(), value);
        }
    }
}

/// Normalizes the metadata of an object of any kind. Custom resources have Go's metadata struct, too.
pub fn normalize_metadata(metadata: &mut Value) {
    if let Some(message) = go_structs::find("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta") {
        normalize_struct(message, metadata, None, 0);
    }
}

fn normalize_struct(message: &'static Message, value: &mut Value, old: Option<&Value>, depth: usize) {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(object) = value else { return };
    if depth > DEPTH_MAX {
        return;
    }
    let (mut gone, mut absent) = (Vec::new(), Vec::new());
    let mut fields = message.sorted().iter().copied().peekable();
    for (name, value) in object.iter_mut() {
        // Most structs have few of their possible fields; the absent ones between two present ones only need their zero values.
        while let Some(field) = fields.next_if(|field| field.name < name.as_str()) {
            absent.extend(zero_field(field, depth).map(|zero| (field.name, zero)));
        }
        let kept = match fields.next_if(|field| field.name == name.as_str()) {
            None => false,
            // Before anything is borrowed to be changed, which would copy what is shared.
            Some(_) if old.and_then(|old| old.get(name)).is_some_and(|old| value.is_shared_with(old)) => true,
            Some(field) if value.is_null() => zero_field(field, depth).map(|zero| *value = zero).is_some(),
            Some(field) => normalize_field(field, value, old.and_then(|old| old.get(name)), depth),
        };
        if !kept {
            gone.push(name.clone());
        }
    }
    for field in fields {
        absent.extend(zero_field(field, depth).map(|zero| (field.name, zero)));
    }
    gone.iter().for_each(|name| drop(object.remove(name)));
    object.extend(absent.into_iter().map(|(name, zero)| (name.to_owned(), zero)));
}

/// Normalizes the value of a field. Returns whether the field is printed at all.
fn normalize_field(field: &'static Field, value: &mut Value, old: Option<&Value>, depth: usize) -> bool {
    let empty = match (field.cardinality, &mut *value) {
        (Cardinality::One, value) => {
            normalize_single(&field.kind, value, old, depth);
            return !(field.omit_empty && !field.pointer && is_zero_scalar(&field.kind, value));
        }
        (Cardinality::List, Value::Array(items)) => {
            for (at, item) in items.iter_mut().enumerate() {
                normalize_item(&field.kind, item, old.and_then(|old| old.get(at)), depth);
            }
            items.is_empty()
        }
        (Cardinality::Map, Value::Object(entries)) => {
            for (key, value) in entries.iter_mut() {
                normalize_item(&field.kind, value, old.and_then(|old| old.get(key)), depth);
            }
            entries.is_empty()
        }
        (_, Value::Array(items)) => items.is_empty(),
        (_, Value::Object(entries)) => entries.is_empty(),
        _ => false,
    };
    if empty && differs_from_absent(&field.kind) {
        return true;
    }
    // Protobuf does not distinguish an empty list or map from an absent one.
    if empty && !(field.omit_empty || field.pointer) {
        *value = Value::Null;
    }
    !empty || value.is_null()
}

/// Whether defaults tell an empty list of these items from an absent one. Validation refuses the empty list, so that it is
/// never stored.
fn differs_from_absent(kind: &FieldType) -> bool {
    matches!(kind, FieldType::Message(link) if link.is("k8s.io.api.autoscaling.v2.HPAScalingPolicy"))
}

/// The value that is printed for an absent field; `None` if the field is omitted.
fn zero_field(field: &'static Field, depth: usize) -> Option<Value> {
    if field.cardinality != Cardinality::One || field.pointer {
        return (!(field.omit_empty || field.pointer && field.cardinality != Cardinality::One))
            .then_some(Value::Null);
    }
    match &field.kind {
        // This is the only struct field with a rule of its own that omits it.
        FieldType::Time if field.name == "creationTimestamp" => None,
        FieldType::Message(_)
        | FieldType::Time
        | FieldType::MicroTime
        | FieldType::Quantity
        | FieldType::IntOrString => Some(zero(&field.kind, depth)),
        FieldType::Raw => (!field.omit_empty).then_some(Value::Null),
        kind => (!field.omit_empty).then(|| zero(kind, depth)),
    }
}

fn is_zero_scalar(kind: &FieldType, value: &Value) -> bool {
    match (kind, value) {
        (FieldType::Bool, Value::Bool(value)) => !value,
        (FieldType::Int32 | FieldType::Int64 | FieldType::Double, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (FieldType::String | FieldType::Bytes, Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

fn zero(kind: &FieldType, depth: usize) -> Value {
    match kind {
        FieldType::Bool => Value::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double | FieldType::IntOrString => Value::from(0),
        FieldType::String => Value::from(""),
        FieldType::Quantity => Value::from("0"),
        FieldType::Duration => Value::from("0s"),
        FieldType::Message(link) => {
            let mut value = Value::Object(Map::new());
            if let Some(message) = link.message() {
                normalize_struct(message, &mut value, None, depth + 1);
            }
            value
        }
        _ => Value::Null,
    }
}

/// Normalizes an item of a list or a map. Most items of an updated object are unchanged, so it pays to compare each with its
/// old value first.
fn normalize_item(kind: &'static FieldType, value: &mut Value, old: Option<&Value>, depth: usize) {
    let compared = match kind {
        FieldType::Message(link) => link.message().is_none_or(|message| !message.holds_raw),
        FieldType::Quantity | FieldType::Time | FieldType::MicroTime | FieldType::Duration => true,
        _ => false,
    };
    if !compared || old.is_none_or(|old| old != value) {
        normalize_value(kind, value, old, depth);
    }
}

/// Normalizes the value of a field. A struct that equals its old value is skipped: comparing is much cheaper, because a
/// struct type has many more fields than an object usually sets.
fn normalize_single(kind: &'static FieldType, value: &mut Value, old: Option<&Value>, depth: usize) {
    let compared = matches!(kind, FieldType::Message(link) if link.message().is_none_or(|it| !it.holds_raw));
    if !compared || old.is_none_or(|old| old != value) {
        normalize_value(kind, value, old, depth);
    }
}

fn normalize_value(kind: &'static FieldType, value: &mut Value, old: Option<&Value>, depth: usize) {
    if value.is_null() {
        // An item cannot be omitted. A null in a list of bytes becomes an empty value in protobuf.
        *value = if matches!(kind, FieldType::Bytes) { Value::from("") } else { zero(kind, depth) };
        return;
    }
    let canonical = match (kind, &*value) {
        (FieldType::Quantity, _) => Quantity::from_json(value).ok().map(|quantity| quantity.to_string()),
        (FieldType::Time, Value::String(text)) if time::is_plain(text, Precision::Seconds) => return,
        (FieldType::MicroTime, Value::String(text)) if time::is_plain(text, Precision::Micros) => return,
        (FieldType::Time, Value::String(text)) => time::canonical(text, Precision::Seconds),
        (FieldType::MicroTime, Value::String(text)) => time::canonical(text, Precision::Micros),
        (FieldType::Duration, Value::String(text)) => time::parse_duration(text).map(time::print_duration),
        _ => None,
    };
    if let Some(text) = canonical {
        *value = Value::from(text);
        return;
    }
    match kind {
        FieldType::Message(link) => {
            if let Some(message) = link.message() {
                normalize_struct(message, value, old, depth + 1);
            }
        }
        FieldType::IntOrString => {
            if let Some(IntOrString::Int(number)) = IntOrString::from_json(value) {
                *value = Value::from(number);
            }
        }
        FieldType::SchemaOrBool | FieldType::SchemaOrList | FieldType::SchemaOrStrings => {
            normalize_schemas(value, depth)
        }
        _ => {}
    }
}

/// Normalizes the fields of a CRD's schema that hold a schema or another type.
fn normalize_schemas(value: &mut Value, depth: usize) {
    let name = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let Some(message) = go_structs::find(name) else { return };
    match value {
        Value::Object(_) => normalize_struct(message, value, None, depth + 1),
        Value::Array(items) => {
            for item in items.iter_mut().filter(|item| item.is_object()) {
                normalize_struct(message, item, None, depth + 1);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn normalized(group: &str, version: &str, kind: &str, mut object: Value) -> Value {
        normalize(group, version, kind, &mut object);
        object
    }

    #[test]
    fn unknown_null_and_empty_fields_go() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "odd": 1, "data": {"a": null}, "binaryData": {},
            "metadata": {"name": "c", "labels": {}, "annotations": {"a": null}, "creationTimestamp": null, "generation": 0}});
        assert_eq!(
            normalized("", "v1", "ConfigMap", config),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": ""},
                "metadata": {"name": "c", "annotations": {"a": ""}}})
        );
    }

    #[test]
    fn structs_that_are_not_omitted_appear() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c",
            "resources": {"limits": {"cpu": "1000m"}}}, {"name": "d", "tty": false, "stdin": true}]}});
        assert_eq!(
            normalized("", "v1", "Pod", pod),
            json!({"metadata": {"name": "p"}, "spec": {"containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1"}}},
                {"name": "d", "resources": {}, "stdin": true}]}, "status": {}})
        );
    }

    #[test]
    fn lists_that_must_be_there_are_null() {
        let role = json!({"metadata": {"name": "r"}, "rules": []});
        assert_eq!(
            normalized("rbac.authorization.k8s.io", "v1", "Role", role),
            json!({"metadata": {"name": "r"}, "rules": null})
        );
    }

    #[test]
    fn pointers_keep_their_zero() {
        let deployment = json!({"metadata": {}, "spec": {"replicas": 0, "paused": false, "selector": null,
            "template": {"spec": {"containers": null}}}});
        assert_eq!(
            normalized("apps", "v1", "Deployment", deployment),
            json!({"metadata": {}, "spec": {"replicas": 0, "selector": null, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}})
        );
    }

    #[test]
    fn is_idempotent_on_every_kind() {
        for resource in crate::api_resources::resources() {
            let once = normalized(
                resource.group,
                resource.version,
                resource.kind,
                json!({"metadata": {"name": "a"}}),
            );
            let twice = normalized(resource.group, resource.version, resource.kind, once.clone());
            assert_eq!(once, twice, "{}", resource.kind);
        }
    }
}
