//! Lays a configuration over an object: what the configuration says wins, nothing is removed.

use std::collections::{BTreeMap, BTreeSet};

use super::typed::{Atom, ListView, MapView, Node, fields, items};
use crate::fieldset::PathElement;
use crate::json::{Map, Value};

/// Merges a configuration into an object. The record of owners is left out: it is written anew.
pub(super) fn merge(node: Node<'_>, live: &Value, config: &Value) -> Result<Value, String> {
    let (Atom::Map(map), Value::Object(live), Value::Object(config)) = (node.declared(), live, config) else {
        return both(node, live, config);
    };
    let mut merged = Map::new();
    for (name, value) in live {
        let value = match value {
            Value::Object(metadata) if name == "metadata" => without_record(metadata),
            other => other.clone(),
        };
        merged.insert(name.clone(), value);
    }
    lay_over(map, &mut merged, config)?;
    Ok(Value::Object(merged))
}

fn without_record(metadata: &Map<String, Value>) -> Value {
    let rest = metadata.iter().filter(|(name, _)| *name != "managedFields");
    rest.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn either(node: Node<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Value, String> {
    match (live, config) {
        (Some(live), Some(config)) => both(node, live, config),
        (Some(one), None) | (None, Some(one)) => Ok(one.clone()),
        (None, None) => Ok(Value::Null),
    }
}

fn both(node: Node<'_>, live: &Value, config: &Value) -> Result<Value, String> {
    match node.atom(Some(config)) {
        Atom::Map(map) if !(map.atomic || empty(live) && empty(config)) => merge_fields(map, live, config),
        Atom::List(list) if !(list.atomic || empty(live) && empty(config)) => merge_items(list, live, config),
        _ => Ok(config.clone()),
    }
}

/// Whether a value has no part: two of those are leaves, so that empty and null stay different.
fn empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    }
}

fn merge_fields(map: MapView<'_>, live: &Value, config: &Value) -> Result<Value, String> {
    let mut merged = fields(Some(live)).cloned().unwrap_or_default();
    if let Some(config) = fields(Some(config)) {
        lay_over(map, &mut merged, config)?;
    }
    Ok(Value::Object(merged))
}

fn lay_over(
    map: MapView<'_>,
    merged: &mut Map<String, Value>,
    config: &Map<String, Value>,
) -> Result<(), String> {
    for (name, value) in config {
        let node = map.field(name).map_or(Node::Deduced, |(node, _)| node);
        let value = either(node, merged.get(name), Some(value))?;
        merged.insert(name.clone(), value);
    }
    Ok(())
}

/// One side of a list: its items with what identifies them.
struct Side<'v> {
    elements: Vec<PathElement>,
    /// The item of each element; null where several items have it, for those are not merged.
    by_element: BTreeMap<PathElement, &'v Value>,
}

static NULL: Value = Value::Null;

impl<'v> Side<'v> {
    fn new(list: ListView<'_>, items: &'v [Value], allow_duplicates: bool) -> Result<Self, String> {
        let mut side = Self { elements: Vec::with_capacity(items.len()), by_element: BTreeMap::new() };
        for (index, item) in items.iter().enumerate() {
            let element = list.element(item).map_err(|message| format!("element {index}: {message}"))?;
            let again = side.by_element.contains_key(&element);
            if again && !allow_duplicates {
                return Err(format!("duplicate entries for key {element}"));
            }
            side.by_element.insert(element.clone(), if again { &NULL } else { item });
            side.elements.push(element);
        }
        Ok(side)
    }
}

/// Items keep the order of the live list, but those that the configuration names stand in its order.
fn merge_items(list: ListView<'_>, live: &Value, config: &Value) -> Result<Value, String> {
    let live_items = items(Some(live));
    let right = Side::new(list, items(Some(config)), false)?;
    let left = Side::new(list, live_items, true)?;
    let mut shared = right.elements.iter().filter(|element| left.by_element.contains_key(element)).peekable();
    let mut done = BTreeSet::new();
    let mut merged = Vec::with_capacity(left.elements.len().max(right.elements.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.elements.len() || r < right.elements.len() {
        let meet = l < left.elements.len() && left.elements.get(l) == right.elements.get(r);
        if let Some(element) = left.elements.get(l).filter(|_| !meet) {
            // Only the live list has it: it stays where it is.
            if !right.by_element.contains_key(element) {
                merged.push(live_items[l].clone());
                l += 1;
                continue;
            }
            // The configuration wants another shared item first: this one is taken when its turn comes.
            if r < right.elements.len() && shared.peek().is_some_and(|next| *next != element) {
                l += 1;
                continue;
            }
            l += usize::from(done.contains(element));
        }
        let Some(element) = right.elements.get(r) else { continue };
        merged.push(either(
            list.items(),
            left.by_element.get(element).copied(),
            right.by_element.get(element).copied(),
        )?);
        done.insert(element);
        r += 1;
        l += usize::from(meet);
        if shared.peek() == Some(&element) {
            shared.next();
        }
    }
    Ok(Value::Array(merged))
}
