//! The field set of an object.

use super::items::{Index, Key};
use super::typed::{Atom, ListView, MapView, Node};
use crate::fieldset::{FieldSet, PathElement, children, has_children};
use crate::json::{Map, Text, Value};

/// The set of every leaf and every item of an object.
pub(super) fn fields_of(node: Node<'_>, value: &Value) -> FieldSet {
    visit(node, value).1
}

/// Whether the value itself is a member, and the fields beneath it.
fn visit(node: Node<'_>, value: &Value) -> (bool, FieldSet) {
    match (node.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => (true, FieldSet::new()),
        (Atom::Map(map), _) if map.atomic => (true, FieldSet::new()),
        (Atom::List(list), _) if list.atomic => (true, FieldSet::new()),
        (Atom::Map(map), Value::Object(object)) => (false, of_map(map, object)),
        (Atom::List(list), Value::Array(items)) => (false, of_list(list, items)),
        _ => (false, FieldSet::new()),
    }
}

fn of_map(map: MapView<'_>, object: &Map) -> FieldSet {
    let mut set = FieldSet::new();
    for (name, value) in object {
        let Some((node, named)) = map.field(name) else { continue };
        let (member, beneath) = visit(node, value);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        set.put(PathElement::field(name), member || empty || !named, beneath);
    }
    set
}

/// The fields of an associative list. Items with equal keys are one field.
fn of_list(list: ListView<'_>, items: &[Value]) -> FieldSet {
    let mut set = FieldSet::new();
    let sorted = Index::new(list, items).into_sorted();
    for group in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        let beneath = match group {
            [(_, at)] => visit(list.items(), &items[*at]).1,
            _ => FieldSet::new(),
        };
        set.put(group[0].0.element(), true, beneath);
    }
    set
}

/// Whether a value is a member, or has a member beneath it.
pub(super) fn is_field(node: Node<'_>, value: &Value, named: bool) -> bool {
    if !named || value.is_null() {
        return true;
    }
    match (node.atom(Some(value)), value) {
        (Atom::Scalar(_), _) => true,
        (Atom::Map(map), _) if map.atomic => true,
        (Atom::List(list), _) if list.atomic => true,
        (Atom::Map(map), Value::Object(fields)) => {
            let is_one = |(name, value): (&Text, &Value)| {
                map.field(name).is_some_and(|(node, named)| is_field(node, value, named))
            };
            fields.is_empty() || fields.iter().any(is_one)
        }
        (Atom::List(list), Value::Array(items)) => items.iter().any(|item| Key::of(list, item).is_ok()),
        _ => false,
    }
}

/// Adds to a set every named field that has a field of the set beneath it: `spec` for `spec.replicas`.
pub(super) fn with_named_parents(node: Node<'_>, set: &FieldSet) -> FieldSet {
    named_parents(Some(node), set)
}

fn named_parents(node: Option<Node<'_>>, set: &FieldSet) -> FieldSet {
    let atom = node.map(Node::declared);
    let list = node.and_then(Node::as_list);
    let mut out = FieldSet::new();
    for (element, member, beneath) in set.entries() {
        let (child, named) = match (element, &atom, &list) {
            (PathElement::Field(name), Some(Atom::Map(map)), _) => {
                map.field(name).map_or((None, false), |(node, named)| (Some(node), named))
            }
            (PathElement::Key(_), _, Some(list)) => (Some(list.items()), false),
            _ => (None, false),
        };
        let beneath = named_parents(child, beneath);
        out.put(element.clone(), member || (named && !beneath.is_empty()), beneath);
    }
    out
}

/// Adapts a set to a schema that has made a granular value atomic; `None` if the set stays unchanged.
pub(super) fn reconcile(node: Node<'_>, set: &FieldSet) -> Option<FieldSet> {
    stale(node, set).then(|| rebuild(node, set))
}

/// Whether [`reconcile`] may change a set, found out without parsing `fieldsV1`.
pub(super) fn may_be_stale(node: Node<'_>, owned: &Value) -> bool {
    children(owned).any(|(key, beneath)| {
        if !has_children(beneath) {
            return false;
        }
        let child = match (node.declared(), key.strip_prefix("f:")) {
            (Atom::Map(map), Some(name)) if !map.is_deduced() => map.field(name).map(|(node, _)| node),
            (Atom::List(list), _) => Some(list.items()),
            _ => None,
        };
        child.is_some_and(|child| is_whole(child) || may_be_stale(child, beneath))
    })
}

fn stale(node: Node<'_>, set: &FieldSet) -> bool {
    set.entries().any(|(element, _, beneath)| {
        !beneath.is_empty()
            && step(node, element).is_some_and(|child| is_whole(child) || stale(child, beneath))
    })
}

fn rebuild(node: Node<'_>, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet::new();
    for (element, member, beneath) in set.entries() {
        match step(node, element).filter(|_| !beneath.is_empty()) {
            Some(child) if is_whole(child) => out.put(element.clone(), true, FieldSet::new()),
            Some(child) => out.put(element.clone(), member, rebuild(child, beneath)),
            None => out.put(element.clone(), member, beneath.clone()),
        }
    }
    out
}

fn step<'s>(node: Node<'s>, element: &PathElement) -> Option<Node<'s>> {
    match (node.declared(), element) {
        (Atom::Map(map), PathElement::Field(name)) if !map.is_deduced() => {
            map.field(name).map(|(node, _)| node)
        }
        (Atom::List(list), _) => Some(list.items()),
        _ => None,
    }
}

fn is_whole(node: Node<'_>) -> bool {
    match node.declared() {
        Atom::Map(map) => map.atomic,
        Atom::List(list) => list.atomic,
        Atom::Scalar(_) => false,
    }
}
