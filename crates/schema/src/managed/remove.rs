//! Takes fields out of an object.

use super::typed::{Atom, ListView, MapView, Node};
use crate::fieldset::{FieldSet, PathElement};
use crate::json::{Map, Value};

/// The object without the given fields. What loses all its parts becomes null, as Kubernetes has it.
pub(super) fn remove(node: Node<'_>, value: Value, fields: &FieldSet) -> Value {
    match (node.atom(Some(&value)), value) {
        (Atom::Map(map), Value::Object(object)) if !map.atomic => remove_fields(map, object, fields),
        (Atom::List(list), Value::Array(items)) if !list.atomic => remove_items(list, items, fields),
        (Atom::Scalar(_), value) => value,
        _ => Value::Null,
    }
}

fn remove_fields(map: MapView<'_>, object: Map<String, Value>, fields: &FieldSet) -> Value {
    let mut kept = Map::new();
    for (name, value) in object {
        let element = PathElement::field(&name);
        if fields.has_element(&element) {
            continue;
        }
        let value = match (fields.child(&element), map.field(&name)) {
            (Some(beneath), Some((node, _))) => remove(node, value, beneath),
            _ => value,
        };
        kept.insert(name, value);
    }
    if kept.is_empty() { Value::Null } else { Value::Object(kept) }
}

fn remove_items(list: ListView<'_>, items: Vec<Value>, fields: &FieldSet) -> Value {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        let Ok(element) = list.element(&item) else {
            kept.push(item);
            continue;
        };
        if fields.has_element(&element) {
            continue;
        }
        kept.push(match fields.child(&element) {
            Some(beneath) => remove(list.items(), item, beneath),
            None => item,
        });
    }
    if kept.is_empty() { Value::Null } else { Value::Array(kept) }
}
