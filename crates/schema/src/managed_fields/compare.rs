//! Finds the fields that differ between two objects of one schema.

use super::items::{Index, Key};
use super::typed::{Atom, ListView, MapView, Node, fields, items};
use crate::fieldset::{FieldSet, PathElement};
use crate::json::{Value, same};

/// The fields that differ. The three sets are disjoint.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

/// Compares two whole objects.
pub(super) fn compare(node: Node<'_>, old: &Value, new: &Value) -> Comparison {
    let mut found = Found::default();
    visit(node, Some(old), Some(new), &mut found);
    found.beneath
}

/// The differences at one field and beneath it.
#[derive(Debug, Default)]
pub(super) struct Found {
    removed: bool,
    modified: bool,
    added: bool,
    pub(super) beneath: Comparison,
}

impl Found {
    /// A removed field, without the fields beneath it.
    pub(super) fn removed() -> Self {
        Self { removed: true, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        let Comparison { removed, modified, added } = &self.beneath;
        !(self.removed || self.modified || self.added)
            && removed.is_empty()
            && modified.is_empty()
            && added.is_empty()
    }

    /// Adds the differences of a child.
    pub(super) fn put(&mut self, element: PathElement, child: Found) {
        let Found { removed, modified, added, beneath } = child;
        let put = |set: &mut FieldSet, member: bool, children: FieldSet| {
            if member || !children.is_empty() {
                set.put(element.clone(), member, children);
            }
        };
        put(&mut self.beneath.removed, removed, beneath.removed);
        put(&mut self.beneath.modified, modified, beneath.modified);
        put(&mut self.beneath.added, added, beneath.added);
    }

    /// Adds the differences of an item of a list.
    pub(super) fn put_item(&mut self, list: ListView<'_>, item: &Value, child: Found) {
        if !child.is_empty()
            && let Ok(key) = Key::of(list, item)
        {
            self.put(key.element(), child);
        }
    }

    /// Compares a value as a whole.
    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.added = true,
            (_, None) => self.removed = true,
            (Some(old), Some(new)) => self.modified |= !same(old, new),
        }
    }
}

/// Compares two values of one field. Equal values do not differ, whatever their type.
pub(super) fn visit(node: Node<'_>, old: Option<&Value>, new: Option<&Value>, found: &mut Found) {
    let (old_atom, new_atom) = (node.atom(old), node.atom(new));
    // An absent value takes the type of the other one. Values of different types are compared under both types.
    let whole = match (old, new) {
        (_, None) => visit_as(old_atom, old, new, found),
        (None, _) => visit_as(new_atom, old, new, found),
        _ if same_kind(&old_atom, &new_atom) && nulls_agree(node, old, new) => {
            visit_as(new_atom, old, new, found)
        }
        _ => {
            visit_as(old_atom, old, new, found);
            visit_as(new_atom, old, new, found)
        }
    };
    if !whole {
        found.added |= old.is_none();
        found.removed |= new.is_none();
    }
}

fn same_kind(a: &Atom<'_>, b: &Atom<'_>) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Whether both values are null or neither is. Only a schema without a type distinguishes null by type.
fn nulls_agree(node: Node<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
    let open = !matches!(node, Node::Typed { schema, .. } if schema.value_type().is_some());
    !open || old.is_some_and(Value::is_null) == new.is_some_and(Value::is_null)
}

/// Compares two values under one type. Returns whether they were compared as a whole.
fn visit_as(atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>, found: &mut Found) -> bool {
    let whole = match atom {
        Atom::Scalar(_) => true,
        Atom::Map(map) => map.atomic || (no_fields(old) && no_fields(new)),
        // Two empty values are compared as a whole, so that an empty list and null differ.
        Atom::List(list) => list.atomic || (items(old).is_empty() && items(new).is_empty()),
    };
    match atom {
        _ if whole => found.leaf(old, new),
        Atom::Map(map) => visit_fields(map, old, new, found),
        Atom::List(list) => visit_items(list, items(old), items(new), found),
        Atom::Scalar(_) => {}
    }
    whole
}

fn no_fields(value: Option<&Value>) -> bool {
    fields(value).is_none_or(|fields| fields.is_empty())
}

fn visit_fields(map: MapView<'_>, old: Option<&Value>, new: Option<&Value>, found: &mut Found) {
    let (old, new) = (fields(old), fields(new));
    let mut left = old.into_iter().flatten().peekable();
    let mut right = new.into_iter().flatten().peekable();
    loop {
        let (name, old, new) = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some((a, _)), Some((b, _))) if a == b => {
                let (name, old) = left.next().expect("it was peeked");
                (name, Some(old), right.next().map(|(_, new)| new))
            }
            (Some((a, _)), right_key) if right_key.is_none_or(|(b, _)| a < b) => {
                let (name, old) = left.next().expect("it was peeked");
                (name, Some(old), None)
            }
            _ => {
                let (name, new) = right.next().expect("one side is left");
                (name, None, Some(new))
            }
        };
        // Equal values do not differ, whatever their type. This is the case for most fields.
        if old == new {
            continue;
        }
        // Unknown fields were refused before.
        let Some((node, _)) = map.field(name) else { continue };
        let mut child = Found::default();
        visit(node, old, new, &mut child);
        if !child.is_empty() {
            found.put(PathElement::field(name), child);
        }
    }
}

/// Compares two associative lists item by item.
pub(super) fn visit_items(list: ListView<'_>, old: &[Value], new: &[Value], found: &mut Found) {
    if aligned(list, old, new) {
        let pairs = old.iter().zip(new).enumerate();
        let differ = pairs.filter_map(|(at, (old, new))| {
            if old == new {
                return None;
            }
            let mut child = Found::default();
            visit(list.items(), Some(old), Some(new), &mut child);
            (!child.is_empty()).then_some((at, child))
        });
        let differ: Vec<_> = differ.collect();
        if differ.is_empty() {
            return;
        }
        if !Index::new(list, new).has_duplicates() {
            for (at, child) in differ {
                found.put_item(list, &new[at], child);
            }
            return;
        }
    }
    visit_groups(list, old, new, found);
}

/// Whether both lists have the same keys in the same order.
pub(super) fn aligned(list: ListView<'_>, a: &[Value], b: &[Value]) -> bool {
    let same_key =
        |(a, b): (&Value, &Value)| Key::of(list, a).is_ok_and(|a| Key::of(list, b).is_ok_and(|b| a == b));
    a.len() == b.len() && a.iter().zip(b).all(same_key)
}

/// Compares the items of each key with those of the same key in the other list.
fn visit_groups(list: ListView<'_>, old: &[Value], new: &[Value], found: &mut Found) {
    let side = |items| Index::new(list, items).into_sorted();
    let (old_keys, new_keys) = (side(old), side(new));
    let (mut left, mut right) = (old_keys.as_slice(), new_keys.as_slice());
    while let Some(key) = [left.first(), right.first()].into_iter().flatten().map(|(key, _)| *key).min() {
        let mine = take_group(&mut left, key, old);
        let theirs = take_group(&mut right, key, new);
        let child = compare_group(list, &mine, &theirs);
        if !child.is_empty() {
            found.put(key.element(), child);
        }
    }
}

/// Removes the items of a key from the front of a sorted list.
fn take_group<'v>(keys: &mut &[(Key<'v>, usize)], key: Key<'_>, items: &'v [Value]) -> Vec<&'v Value> {
    let many = keys.iter().take_while(|(each, _)| *each == key).count();
    let (group, rest) = keys.split_at(many);
    *keys = rest;
    group.iter().map(|(_, at)| &items[*at]).collect()
}

fn compare_group(list: ListView<'_>, old: &[&Value], new: &[&Value]) -> Found {
    let mut child = Found::default();
    match (old, new) {
        (&[] | &[_], &[] | &[_]) => {
            visit(list.items(), old.first().copied(), new.first().copied(), &mut child)
        }
        // Items with the same key are compared as one value.
        (&[_, _, ..], &[_, _, ..]) => {
            child.modified = old.len() != new.len() || !old.iter().zip(new).all(|(a, b)| same(a, b));
        }
        (&[_, _, ..], _) => {
            if let Some(new) = new.first() {
                visit(list.items(), None, Some(new), &mut child);
            }
            child.removed = true;
        }
        _ => {
            if let Some(old) = old.first() {
                visit(list.items(), Some(old), None, &mut child);
            }
            child.added = true;
        }
    }
    child
}
