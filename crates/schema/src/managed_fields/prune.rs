//! Removes fields that a manager no longer applies.
//!
//! The algorithm is that of Kubernetes' structured merge: remove all fields that the manager applied last time, restore
//! those that any manager owns now, and restore those that the manager never owned. If all managers wrote in one version,
//! only the fields that the manager applied last time can be removed, and only these are visited.

use std::collections::BTreeMap;

use super::entries::{Managed, Owned};
use super::fields::{fields_of, is_field, with_named_parents};
use super::items::Index;
use super::remove::remove;
use super::typed::{Atom, ListView, MapView, Node};
use super::{Context, ManagerId};
use crate::fieldset::{Cursor, FieldSet, PathElement};
use crate::json::{Map, Value};

/// The fields of an object to remove, because `before` contains them and no manager owns them now.
pub(super) fn fields_to_remove(
    node: Node<'_>,
    object: &Value,
    before: &Owned,
    managed: &Managed,
) -> FieldSet {
    let owners: Vec<Cursor<'_>> = managed.owned.values().map(Owned::cursor).collect();
    let mut walk = Walk { key: String::new() };
    walk.visit(node, object, &before.set(), &owners, Removal::default())
}

/// The decisions on the parents of a field.
#[derive(Clone, Copy, Default)]
struct Removal {
    /// The manager applied the field, or one of its parents, last time.
    taken: bool,
    /// A parent is removed, because no manager owns it.
    lost: bool,
}

struct Walk {
    /// A scratch buffer for keys.
    key: String,
}

impl Walk {
    fn visit(
        &mut self,
        node: Node<'_>,
        value: &Value,
        last: &FieldSet,
        owners: &[Cursor<'_>],
        removal: Removal,
    ) -> FieldSet {
        match (node.atom(Some(value)), value) {
            (Atom::Map(map), Value::Object(object)) if !map.atomic => {
                self.fields(map, object, last, owners, removal)
            }
            (Atom::List(list), Value::Array(items)) if !list.atomic => {
                self.items(list, items, last, owners, removal)
            }
            _ => FieldSet::new(),
        }
    }

    fn fields(
        &mut self,
        map: MapView<'_>,
        object: &Map,
        last: &FieldSet,
        owners: &[Cursor<'_>],
        removal: Removal,
    ) -> FieldSet {
        let mut removed_fields = FieldSet::new();
        for (element, member, beneath) in last.entries() {
            let PathElement::Field(name) = element else { continue };
            let (Some(value), Some((node, named))) = (object.get(name.as_ref()), map.field(name)) else {
                continue;
            };
            let was_applied = member || named && !beneath.is_empty();
            let there = is_field(node, value, named);
            let (mut is_removed, removal, owners) =
                self.step(element, was_applied, named, there, owners, removal);
            is_removed |= was_applied && there && named && !self.remains(node, value, &owners);
            let parts = match is_removed {
                true => FieldSet::new(),
                false => self.visit(node, value, beneath, &owners, removal),
            };
            removed_fields.put(element.clone(), is_removed, parts);
        }
        removed_fields
    }

    fn items(
        &mut self,
        list: ListView<'_>,
        items: &[Value],
        last: &FieldSet,
        owners: &[Cursor<'_>],
        removal: Removal,
    ) -> FieldSet {
        let mut removed_fields = FieldSet::new();
        let sorted = Index::new(list, items).into_sorted();
        for group in sorted.chunk_by(|(a, _), (b, _)| a == b) {
            let element = group[0].0.element();
            let Some((member, beneath)) = last.entry(&element) else { continue };
            let (is_removed, removal, owners) = self.step(&element, member, false, true, owners, removal);
            let parts = match group {
                // Items with equal keys are one field without children.
                [(_, at)] if !is_removed => self.visit(list.items(), &items[*at], beneath, &owners, removal),
                _ => FieldSet::new(),
            };
            removed_fields.put(element, is_removed, parts);
        }
        removed_fields
    }

    /// Whether a value is still a field after all fields without owners are removed from it. An empty value is one, a value that
    /// contains nothing but empty lists is not.
    fn remains(&mut self, node: Node<'_>, value: &Value, owners: &[Cursor<'_>]) -> bool {
        let (Atom::Map(map), Value::Object(object)) = (node.atom(Some(value)), value) else { return true };
        if map.atomic {
            return true;
        }
        let mut barren = false;
        for (name, value) in object {
            let Some((node, named)) = map.field(name) else { continue };
            if !is_field(node, value, named) {
                barren = true;
                continue;
            }
            let (owned, beneath) = self.owned(&PathElement::field(name), named, owners);
            if owned && (!named || self.remains(node, value, &beneath)) {
                return true;
            }
            barren |= owned;
        }
        !barren
    }

    /// Decides whether to remove a field. Also returns the removal for the fields beneath it.
    fn step<'a>(
        &mut self,
        element: &PathElement,
        was_applied: bool,
        named: bool,
        there: bool,
        owners: &[Cursor<'a>],
        removal: Removal,
    ) -> (bool, Removal, Vec<Cursor<'a>>) {
        let (owned, beneath) = self.owned(element, named, owners);
        let taken = removal.taken || was_applied;
        let lost = removal.lost || (there && taken && !owned);
        (was_applied && there && lost, Removal { taken, lost }, beneath)
    }

    /// Whether any manager owns a field, and the nodes of the managers that own fields beneath it.
    fn owned<'a>(
        &mut self,
        element: &PathElement,
        named: bool,
        owners: &[Cursor<'a>],
    ) -> (bool, Vec<Cursor<'a>>) {
        let (mut owned, mut beneath) = (false, Vec::new());
        for owner in owners {
            let Some((member, place)) = owner.step(element, &mut self.key) else { continue };
            owned |= member || named && place.has_children();
            if place.has_children() {
                beneath.push(place);
            }
        }
        (owned, beneath)
    }
}

/// Removes fields if managers wrote in several versions: each version is handled on the object converted to it.
pub(super) fn across_versions(
    ctx: &Context<'_>,
    node: Node<'_>,
    merged: &Value,
    managed: &Managed,
    id: &ManagerId,
    before: &Owned,
) -> Option<Value> {
    let is_in =
        |object: &Value, version: &str| object.get("apiVersion").and_then(Value::as_str) == Some(version);
    let convert = |object: &Value, to: &str| match to == ctx.api_version && is_in(object, to) {
        true => Some((object.clone(), ctx.schema)),
        false => ctx.versions.convert(object, to),
    };
    debug_assert!(managed.owned.contains_key(id), "what is applied now is owned by now");
    let version = before.api_version.as_str();
    let (shown, schema) = convert(merged, version)?;
    let node = if version == ctx.api_version { node } else { Node::root(schema) };
    let last = with_named_parents(node, &before.set());
    let mut pruned = shown.clone();
    remove(node, &mut pruned, &last);
    let mut by_version: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for owned in managed.owned.values() {
        let set = by_version.entry(owned.api_version.as_str()).or_default();
        *set = set.union(&owned.set());
    }
    let own = by_version.remove(version).unwrap_or_default();
    pruned = restore(node, &shown, &pruned, &own);
    for (other, owned) in by_version {
        let there = convert(&shown, other).zip(convert(&pruned, other));
        let Some(((merged, schema), (left, _))) = there else { continue };
        let restored = restore(Node::root(schema), &merged, &left, &owned);
        pruned = convert_back(ctx, &restored, version).unwrap_or(pruned);
    }
    // Restore removed fields that the manager never owned.
    let there = with_named_parents(node, &fields_of(node, &shown));
    let left = with_named_parents(node, &fields_of(node, &pruned));
    let mut result = shown;
    remove(node, &mut result, &there.difference(&left).intersection(&last));
    convert_back(ctx, &result, ctx.api_version)
}

fn convert_back(ctx: &Context<'_>, object: &Value, version: &str) -> Option<Value> {
    if object.get("apiVersion").and_then(Value::as_str) == Some(version) {
        return Some(object.clone());
    }
    ctx.versions.convert(object, version).map(|(object, _)| object)
}

/// Removes from the merged object the fields that are neither in the pruned object nor owned by a manager.
fn restore(node: Node<'_>, merged: &Value, pruned: &Value, owned: &FieldSet) -> Value {
    let there = with_named_parents(node, &fields_of(node, merged));
    let left = with_named_parents(node, &fields_of(node, pruned));
    let gone = there.difference(&left.union(&with_named_parents(node, owned)));
    let mut restored = merged.clone();
    remove(node, &mut restored, &gone);
    restored
}
