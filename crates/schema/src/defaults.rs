//! The values that Kubernetes fills in where a client gave none.
//!
//! Kubernetes has a function for each Go type that has defaults and calls it wherever a value of that type stands,
//! parents first. So does [`apply`]: it walks the object by the structs of its kind and hands every struct to the
//! rules of its type, which live in a file for each API group.

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

use crate::json::{Map, Value};
use crate::messages::{self, Cardinality, Kind, Message};
use crate::quantity::Quantity;

pub(crate) use apps::TEMPLATE_GENERATION;

/// The fields of a struct.
type Object = Map<String, Value>;

/// Where the types of metadata are, none of which has defaults.
const METADATA: &str = "k8s.io.apimachinery.pkg.apis.meta.v1";

/// Structs nested deeper than this have no defaults.
const DEPTH_MAX: usize = 64;

/// Fills in what is absent. The object should be in its normal form (see `normalize`); filling in twice changes
/// nothing more.
///
/// ```
/// let mut secret = serde_json::json!({"metadata": {"name": "s"}});
/// evenkeel_schema::defaults::apply("", "v1", "Secret", &mut secret);
/// assert_eq!(secret["type"], "Opaque");
/// ```
pub fn apply(group: &str, version: &str, kind: &str, object: &mut Value) {
    apply_since(group, version, kind, object, None);
}

/// The same for an object that was made from `old`, which has its defaults: what is as it was there has them, too.
pub fn apply_since(group: &str, version: &str, kind: &str, object: &mut Value, old: Option<&Value>) {
    if let (Some(message), Value::Object(fields)) = (messages::of_kind(group, version, kind), object) {
        walk(message, fields, old, 0);
    }
}

fn walk(message: &'static Message, object: &mut Object, old: Option<&Value>, depth: usize) {
    if depth > DEPTH_MAX || message.package == METADATA {
        return;
    }
    rules(message.package, message.name, object);
    for field in message.flat() {
        let Some(value) = object.get_mut(field.name) else { continue };
        let old = old.and_then(|old| old.get(field.name));
        match (&field.kind, field.cardinality, value) {
            (Kind::Quantity, Cardinality::Map, Value::Object(list)) => round_up(message.package, list),
            (Kind::Message(link), Cardinality::One, Value::Object(child)) => {
                if let Some(message) = link.message() {
                    walk(message, child, old, depth + 1);
                }
            }
            (Kind::Message(link), Cardinality::List, Value::Array(items)) => {
                let children = items.iter_mut().enumerate();
                let children = children.filter_map(|(at, item)| Some((at, item.as_object_mut()?)));
                let Some(message) = link.message() else { continue };
                children.for_each(|(at, child)| {
                    walk_item(message, child, old.and_then(|old| old.get(at)), depth + 1)
                });
            }
            (Kind::Message(link), Cardinality::Map, Value::Object(entries)) => {
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

/// Most items of an object that was changed are as they were: that is looked for here, where nothing above was
/// compared yet.
fn walk_item(message: &'static Message, object: &mut Object, old: Option<&Value>, depth: usize) {
    if old.and_then(Value::as_object).is_none_or(|old| old != object) {
        walk(message, object, old, depth);
    }
}

/// The rules of one type, by its Go package and name.
fn rules(package: &str, name: &str, object: &mut Object) {
    match package {
        "k8s.io.api.core.v1" => core::rules(name, object),
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

/// CRDs: the scope's and the names' defaults are the API server's, which knows the whole definition.
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
            let conversion = child(object, "conversion");
            set_text(conversion, "strategy", "None");
        }
        "ServiceReference" => set(object, "port", 443),
        _ => {}
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

/// Sets a field that Go holds by pointer: where it is absent.
fn set(object: &mut Object, field: &str, value: impl Into<Value>) {
    if is_absent(object, field) {
        object.insert(field.to_owned(), value.into());
    }
}

/// Sets a string that Go holds by value: where it is empty.
fn set_text(object: &mut Object, field: &str, value: &str) {
    if is_absent(object, field) || object.get(field).and_then(Value::as_str) == Some("") {
        object.insert(field.to_owned(), Value::from(value));
    }
}

/// Sets a number that Go holds by value: where it is zero.
fn set_number(object: &mut Object, field: &str, value: i64) {
    if is_absent(object, field) || object.get(field).and_then(Value::as_i64) == Some(0) {
        object.insert(field.to_owned(), Value::from(value));
    }
}

/// The struct at a field, made where it is absent. The decoder has refused values of another type before.
fn child<'a>(object: &'a mut Object, field: &str) -> &'a mut Object {
    if !object.get(field).is_some_and(Value::is_object) {
        object.insert(field.to_owned(), Value::Object(Object::new()));
    }
    object.get_mut(field).and_then(Value::as_object_mut).expect("it was made above")
}

fn items<'a>(spec: &'a mut Object, list: &str) -> impl Iterator<Item = &'a mut Object> {
    let items = spec.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}
