//! The defaults of built-in kinds.
//!
//! Kubernetes has a function for each Go type with defaults, and calls it for every value of that type, parents first. So
//! does [`apply`]: it walks the object along the structs of its kind and passes every struct to the rules of its type, which
//! live in a file for each API group.

mod admissionregistration;
mod apps;
mod autoscaling;
mod batch;
mod core;
mod discovery;
mod flowcontrol;
mod networking;
mod rbac;
mod resource;
mod scheduling;
mod storage;

use crate::json::json;

use crate::go_structs::{self, Cardinality, FieldType, Message};
use crate::json::{Map, Value};
use crate::quantity::Quantity;

pub(crate) use apps::TEMPLATE_GENERATION;

/// The fields of a struct.
type Object = Map;

/// The package of the metadata types, none of which has defaults.
const METADATA: &str = "k8s.io.apimachinery.pkg.apis.meta.v1";

/// Structs nested deeper than this are not defaulted.
const DEPTH_MAX: usize = 64;

/// Sets the defaults of absent fields. The object should be normalized (see `normalize`). Applying defaults twice changes
/// nothing more.
///
/// ```
/// let mut secret = evenkeel_schema::json::json!({"metadata": {"name": "s"}});
/// evenkeel_schema::defaults::apply("", "v1", "Secret", &mut secret);
/// assert_eq!(secret["type"], "Opaque");
/// ```
pub fn apply(group: &str, version: &str, kind: &str, object: &mut Value) {
    apply_since(group, version, kind, object, None);
}

/// Sets the defaults of an object that was made from `old`. Items equal to those in `old` have their defaults and are skipped.
pub fn apply_since(group: &str, version: &str, kind: &str, object: &mut Value, old: Option<&Value>) {
    if let (Some(message), Value::Object(fields)) = (go_structs::of_kind(group, version, kind), object) {
        walk(message, fields, old, 0);
    }
}

fn walk(message: &'static Message, object: &mut Object, old: Option<&Value>, depth: usize) {
    if depth > DEPTH_MAX || message.package == METADATA {
        return;
    }
    rules(message.package, message.name, object, old);
    for field in message.flat() {
        let old = old.and_then(|old| old.get(field.name));
        let Some(value) = object.get(field.name) else { continue };
        // What is shared has its defaults. Borrowing it to be changed would copy it.
        if !matches!(value, Value::Object(_) | Value::Array(_))
            || old.is_some_and(|old| value.is_shared_with(old))
        {
            continue;
        }
        let Some(value) = object.get_mut(field.name) else { continue };
        match (&field.kind, field.cardinality, value) {
            (FieldType::Quantity, Cardinality::Map, Value::Object(list)) => round_up(message.package, list),
            (FieldType::Message(link), Cardinality::One, Value::Object(child)) => {
                if let Some(message) = link.message() {
                    walk(message, child, old, depth + 1);
                }
            }
            (FieldType::Message(link), Cardinality::List, Value::Array(items)) => {
                let children = items.iter_mut().enumerate();
                let children = children.filter_map(|(at, item)| Some((at, item.as_object_mut()?)));
                let Some(message) = link.message() else { continue };
                children.for_each(|(at, child)| {
                    walk_item(message, child, old.and_then(|old| old.get(at)), depth + 1)
                });
            }
            (FieldType::Message(link), Cardinality::Map, Value::Object(entries)) => {
                let children = entries.iter_mut();
                let children = children.filter_map(|(key, value)| Some((key, value.as_object_mut()?)));
                let Some(message) = link.message() else { continue };
                children.for_each(|(key, child)| {
                    walk_item(message, child, old.and_then(|old| old.get(key)), depth + 1)
                });
            }
            _ => {}
        }
    }
}

/// Defaults an item of a list or a map. Most items of an updated object are unchanged, so each is compared with its old value
/// first.
fn walk_item(message: &'static Message, object: &mut Object, old: Option<&Value>, depth: usize) {
    if old.and_then(Value::as_object).is_none_or(|old| old != object) {
        walk(message, object, old, depth);
    }
}

/// Applies the rules of one type, given by its Go package and name. `old` is the struct from which the object was made.
fn rules(package: &str, name: &str, object: &mut Object, old: Option<&Value>) {
    match package {
        "k8s.io.api.core.v1" => core::rules(name, object, old),
        "k8s.io.api.apps.v1" => apps::rules(name, object),
        "k8s.io.api.batch.v1" => batch::rules(name, object),
        "k8s.io.api.autoscaling.v1" | "k8s.io.api.autoscaling.v2" => {
            autoscaling::rules(package, name, object)
        }
        "k8s.io.api.networking.v1" => networking::rules(name, object),
        "k8s.io.api.discovery.v1" => discovery::rules(name, object),
        "k8s.io.api.rbac.v1" => rbac::rules(name, object),
        "k8s.io.api.storage.v1" => storage::rules(name, object),
        "k8s.io.api.admissionregistration.v1" => admissionregistration::rules(name, object),
        "k8s.io.api.flowcontrol.v1" => flowcontrol::rules(name, object),
        "k8s.io.api.scheduling.v1" => scheduling::rules(name, object),
        "k8s.io.api.resource.v1" => resource::rules(name, object),
        "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1" => definition(name, object),
        "k8s.io.kube_aggregator.pkg.apis.apiregistration.v1" if name == "ServiceReference" => {
            set(object, "port", 443);
        }
        _ => {}
    }
}

/// Defaults a CustomResourceDefinition. The API server sets those that need the whole definition.
fn definition(name: &str, object: &mut Object) {
    match name {
        "CustomResourceDefinitionSpec" => {
            if let Some(Value::Object(names)) = object.get_mut("names") {
                let kind = text(names, "kind").to_owned();
                set_text(names, "singular", &kind.to_lowercase());
                if !kind.is_empty() {
                    set_text(names, "listKind", &format!("{kind}List"));
                }
            }
            set(object, "conversion", json!({"strategy": "None"}));
        }
        "CustomResourceDefinition" => stored_versions(object),
        "ServiceReference" => set(object, "port", 443),
        _ => {}
    }
}

/// Adds the storage version to a status that names no stored version.
fn stored_versions(definition: &mut Object) {
    let versions = definition.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = storage.map(|version| version["name"].clone()) else { return };
    let Some(Value::Object(status)) = definition.get_mut("status") else { return };
    if status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        status.insert("storedVersions".into(), json!([name]));
    }
}

/// Rounds every quantity of a resource list up to thousandths.
fn round_up(package: &str, list: &mut Object) {
    if !matches!(package, "k8s.io.api.core.v1" | "k8s.io.api.node.v1") {
        return;
    }
    for (_, value) in list.iter_mut() {
        if let Ok(mut quantity) = Quantity::from_json(value) {
            quantity.round_up_milli();
            *value = Value::from(quantity.to_string());
        }
    }
}

fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_absent(object: &Object, field: &str) -> bool {
    object.get(field).is_none_or(Value::is_null)
}

fn is_empty(object: &Object, field: &str) -> bool {
    match object.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(entries)) => entries.is_empty(),
        Some(_) => false,
    }
}

/// Sets a pointer field if it is absent.
fn set(object: &mut Object, field: &str, value: impl Into<Value>) {
    if is_absent(object, field) {
        object.insert(field.into(), value.into());
    }
}

/// Sets a string field if it is absent or empty.
fn set_text(object: &mut Object, field: &str, value: &str) {
    if is_absent(object, field) || object.get(field).and_then(Value::as_str) == Some("") {
        object.insert(field.into(), Value::from(value));
    }
}

/// Sets a number field if it is absent or zero.
fn set_number(object: &mut Object, field: &str, value: i64) {
    if is_absent(object, field) || object.get(field).and_then(Value::as_i64) == Some(0) {
        object.insert(field.into(), Value::from(value));
    }
}

/// The struct at a field, which is created if it is absent. The decoder has refused values of another type before.
fn child<'a>(object: &'a mut Object, field: &str) -> &'a mut Object {
    if !object.get(field).is_some_and(Value::is_object) {
        object.insert(field.into(), Value::Object(Object::new()));
    }
    object.get_mut(field).and_then(Value::as_object_mut).expect("it was made above")
}

fn items<'a>(spec: &'a mut Object, list: &str) -> impl Iterator<Item = &'a mut Object> {
    let items = spec.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}
