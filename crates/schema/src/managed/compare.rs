//! Which fields differ between two objects of one schema.

use std::collections::BTreeMap;

use super::typed::{Atom, ListView, MapView, Node, fields, items};
use crate::fieldset::{FieldSet, PathElement};
use crate::json::{Value, same};

/// The fields that differ; none is in more than one of the sets.
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

/// What differs at one place: the field itself, and what lies beneath.
#[derive(Debug, Default)]
struct Found {
    removed: bool,
    modified: bool,
    added: bool,
    beneath: Comparison,
}

impl Found {
    fn is_empty(&self) -> bool {
        let Comparison { removed, modified, added } = &self.beneath;
        !(self.removed || self.modified || self.added)
            && removed.is_empty()
            && modified.is_empty()
            && added.is_empty()
    }

    fn put(&mut self, element: PathElement, child: Found) {
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

    /// A value that is compared as a whole.
    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.added = true,
            (_, None) => self.removed = true,
            (Some(old), Some(new)) => self.modified |= !same(old, new),
        }
    }
}

fn visit(node: Node<'_>, old: Option<&Value>, new: Option<&Value>, found: &mut Found) {
    // Most of an object is as it was, and equality is cheap to see.
    if let (Some(old), Some(new)) = (old, new)
        && same(old, new)
    {
        return;
    }
    let (old_atom, new_atom) = (node.atom(old), node.atom(new));
    // An absent value takes the type of the other. Where the types differ, both have their say.
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

/// Where the schema leaves the type open, null has not the type of anything else.
fn nulls_agree(node: Node<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
    let open = !matches!(node, Node::Typed { schema, .. } if schema.kind().is_some());
    !open || old.is_some_and(Value::is_null) == new.is_some_and(Value::is_null)
}

/// Returns whether the value was compared as a whole.
fn visit_as(atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>, found: &mut Found) -> bool {
    let whole = match atom {
        Atom::Scalar(_) => true,
        Atom::Map(map) => map.atomic || (no_fields(old) && no_fields(new)),
        // Two empty values are leaves, so that empty and null stay different.
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
        // A field that the schema does not know was refused before.
        let Some((node, _)) = map.field(name) else { continue };
        let mut child = Found::default();
        visit(node, old, new, &mut child);
        if !child.is_empty() {
            found.put(PathElement::field(name), child);
        }
    }
}

fn visit_items(list: ListView<'_>, old: &[Value], new: &[Value], found: &mut Found) {
    type Group<'v> = (Vec<&'v Value>, Vec<&'v Value>);
    let mut groups: BTreeMap<PathElement, Group<'_>> = BTreeMap::new();
    for item in old {
        if let Ok(element) = list.element(item) {
            groups.entry(element).or_default().0.push(item);
        }
    }
    for item in new {
        if let Ok(element) = list.element(item) {
            groups.entry(element).or_default().1.push(item);
        }
    }
    for (element, (old, new)) in groups {
        let mut child = Found::default();
        match (old.as_slice(), new.as_slice()) {
            (&[] | &[_], &[] | &[_]) => {
                visit(list.items(), old.first().copied(), new.first().copied(), &mut child)
            }
            // Items of one key are one value together.
            (&[_, _, ..], &[_, _, ..]) => {
                child.modified = old.len() != new.len() || !old.iter().zip(&new).all(|(a, b)| same(a, b));
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
        found.put(element, child);
    }
}
