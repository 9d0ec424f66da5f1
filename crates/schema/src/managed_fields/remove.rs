//! Removes fields from an object.

use super::compare::{Found, visit};
use super::items::Index;
use super::typed::{Atom, ListView, MapView, Node};
use crate::fieldset::{FieldSet, PathElement};
use crate::json::{Map, Value};

/// Removes the given fields from an object. A list or map that loses all its parts becomes null, as in Kubernetes.
pub(super) fn remove(node: Node<'_>, value: &mut Value, fields: &FieldSet) {
    let emptied = match (node.atom(Some(value)), &mut *value) {
        (Atom::Map(map), Value::Object(object)) if !map.atomic => remove_fields(map, object, fields),
        (Atom::List(list), Value::Array(items)) if !list.atomic => remove_items(list, items, fields),
        (Atom::Scalar(_), _) => false,
        _ => true,
    };
    if emptied {
        *value = Value::Null;
    }
}

fn remove_fields(map: MapView<'_>, object: &mut Map, fields: &FieldSet) -> bool {
    for (element, member, beneath) in fields.entries() {
        let PathElement::Field(name) = element else { continue };
        if member {
            object.remove(name.as_ref());
        } else if let (Some(value), Some((node, _))) = (object.get_mut(name.as_ref()), map.field(name)) {
            remove(node, value, beneath);
        }
    }
    object.is_empty()
}

fn remove_items(list: ListView<'_>, items: &mut Vec<Value>, fields: &FieldSet) -> bool {
    let mut is_removed = vec![false; items.len()];
    let elements: Vec<_> = items.iter().map(|item| list.element(item).ok()).collect();
    for ((item, element), is_removed) in items.iter_mut().zip(elements).zip(&mut is_removed) {
        match element.and_then(|element| fields.entry(&element)) {
            Some((true, _)) => *is_removed = true,
            Some((false, beneath)) => remove(list.items(), item, beneath),
            None => {}
        }
    }
    let mut is_removed = is_removed.into_iter();
    items.retain(|_| !is_removed.next().unwrap_or_default());
    items.is_empty()
}

/// All fields that disappear when the given ones are removed.
pub(super) fn removed(node: Node<'_>, value: &Value, fields: &FieldSet) -> FieldSet {
    let mut found = Found::default();
    collect(node, value, fields, &mut found);
    found.beneath.removed
}

fn collect(node: Node<'_>, value: &Value, fields: &FieldSet, found: &mut Found) {
    match (node.atom(Some(value)), value) {
        (Atom::Map(map), Value::Object(object)) => {
            for (element, member, beneath) in fields.entries() {
                let PathElement::Field(name) = element else { continue };
                if let (Some(value), Some((node, _))) = (object.get(name.as_ref()), map.field(name)) {
                    found.put(element.clone(), gone(node, value, member, beneath));
                }
            }
        }
        (Atom::List(list), Value::Array(items)) => {
            let sorted = Index::new(list, items).into_sorted();
            for group in sorted.chunk_by(|(a, _), (b, _)| a == b) {
                let element = group[0].0.element();
                if let Some((member, beneath)) = fields.entry(&element) {
                    found.put(
                        element,
                        gone_items(list, items, group.iter().map(|(_, at)| *at), member, beneath),
                    );
                }
            }
        }
        _ => {}
    }
}

fn gone(node: Node<'_>, value: &Value, member: bool, beneath: &FieldSet) -> Found {
    let mut child = Found::default();
    match member {
        true => visit(node, Some(value), None, &mut child),
        false => collect(node, value, beneath, &mut child),
    }
    child
}

/// Handles the items of a list. Items with equal keys are removed together.
fn gone_items(
    list: ListView<'_>,
    items: &[Value],
    mut group: impl ExactSizeIterator<Item = usize>,
    member: bool,
    beneath: &FieldSet,
) -> Found {
    match (group.len(), group.next()) {
        (1, Some(at)) => gone(list.items(), &items[at], member, beneath),
        _ if member => Found::removed(),
        _ => Found::default(),
    }
}
