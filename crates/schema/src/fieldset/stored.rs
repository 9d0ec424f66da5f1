//! Set operations directly on the JSON of `fieldsV1`. Most writes change little of it, so that parsing and printing whole
//! sets would be a waste.
//!
//! In `fieldsV1`, an empty object is a member without children, and `"."` marks a member that has children.

use super::text::write_element;
use super::{FieldSet, PathElement};
use crate::json::{Map, Value};

/// The key that marks a node with children as a member.
const SELF: &str = ".";

impl FieldSet {
    /// The fields of this set that are also in `fieldsV1`.
    pub(crate) fn intersection_with_json(&self, value: &Value) -> Self {
        let mut both = Self::new();
        if !value.is_object() {
            return both;
        }
        let mut key = String::new();
        for (element, member, children) in self.entries() {
            let Some(there) = value.get(text(element, &mut key)) else { continue };
            let children = children.intersection_with_json(there);
            both.put(element.clone(), member && is_member(there), children);
        }
        both
    }

    /// Removes the fields of this set from `fieldsV1`. Returns whether no field is left.
    pub(crate) fn take_from_json(&self, value: &mut Value) -> bool {
        let Value::Object(map) = value else { return true };
        let mut key = String::new();
        for (element, member, children) in self.entries() {
            let text = text(element, &mut key);
            let Some(there) = map.get_mut(text) else { continue };
            let stays = is_member(there) && !member;
            if !has_children(there) {
                if !stays {
                    map.remove(text);
                }
                continue;
            }
            children.take_from_json(there);
            let Value::Object(left) = &mut *there else { continue };
            left.remove(SELF);
            match (left.is_empty(), stays) {
                (true, false) => drop(map.remove(text)),
                (false, true) => drop(left.insert(SELF.into(), Value::Object(Map::new()))),
                _ => {}
            }
        }
        !has_children(value)
    }

    /// Adds the fields of this set to `fieldsV1`.
    pub(crate) fn add_to_json(&self, value: &mut Value) {
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        let Value::Object(map) = value else { return };
        let mut key = String::new();
        for (element, member, children) in self.entries() {
            match map.get_mut(text(element, &mut key)) {
                None => {
                    map.insert(key.clone().into(), children.emit(member));
                }
                Some(there) => {
                    let member = member || is_member(there);
                    children.add_to_json(there);
                    if let Value::Object(there) = there {
                        there.remove(SELF);
                        if member && !there.is_empty() {
                            there.insert(SELF.into(), Value::Object(Map::new()));
                        }
                    }
                }
            }
        }
    }

    /// Whether every field of `fieldsV1` is in this set.
    pub(crate) fn covers_json(&self, value: &Value) -> bool {
        let mut key = String::new();
        let wanted = value.as_object().into_iter().flatten().filter(|(key, _)| *key != SELF).count();
        let mut found = 0;
        for (element, member, children) in self.entries() {
            let Some(there) = value.get(text(element, &mut key)) else { continue };
            if is_member(there) && !member || !children.covers_json(there) {
                return false;
            }
            found += 1;
        }
        found == wanted
    }
}

/// A node of a manager's fields, parsed or as JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cursor<'a> {
    Set(&'a FieldSet),
    Json(&'a Value),
}

impl<'a> Cursor<'a> {
    /// Moves to an element. Returns whether it is a member, and its node; `None` if it is not there. `key` is a scratch buffer.
    pub(crate) fn step(self, element: &PathElement, key: &mut String) -> Option<(bool, Self)> {
        match self {
            Self::Set(set) => set.entry(element).map(|(member, children)| (member, Self::Set(children))),
            Self::Json(value) => {
                let there = value.get(text(element, key))?;
                Some((is_member(there), Self::Json(there)))
            }
        }
    }

    /// Whether there are fields beneath.
    pub(crate) fn has_children(self) -> bool {
        match self {
            Self::Set(set) => !set.is_empty(),
            Self::Json(value) => has_children(value),
        }
    }
}

fn text<'k>(element: &PathElement, key: &'k mut String) -> &'k str {
    key.clear();
    write_element(element, key);
    key
}

/// Whether a node of `fieldsV1` is a member.
pub(crate) fn is_member(node: &Value) -> bool {
    node.as_object().is_none_or(|node| node.is_empty() || node.contains_key(SELF))
}

/// Whether a node of `fieldsV1` has fields beneath it.
pub(crate) fn has_children(node: &Value) -> bool {
    node.as_object().is_some_and(|node| node.len() > usize::from(node.contains_key(SELF)))
}

/// The fields beneath a node of `fieldsV1`, in the order of their text.
pub(crate) fn children(node: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = node.as_object().into_iter().flatten();
    fields.filter(|(key, _)| *key != SELF).map(|(key, value)| (key.as_str(), value))
}
