//! The order of merged lists: first that of `$setElementOrder`, then that of the patch, then that of the live list.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use evenkeel_scalars::go;

use super::slices::{self, check_items, object, partition};
use super::{
    DIRECTIVE, Fields, List, SET_ELEMENT_ORDER, after_prefix, bad, internal, lookup_list, no_merge_key,
    not_a, strip_directives,
};
use crate::json::{Text, Value};
use crate::patch::PatchError;
use crate::types::Schema;

/// Merges every list for which the patch has a `$setElementOrder`, and removes both from the patch.
pub(super) fn merge_ordered_lists(
    original: &mut Fields,
    patch: &mut Fields,
    schema: &Schema,
) -> Result<(), PatchError> {
    let orders: Vec<Text> = patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in orders {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            Some(other) => return Err(not_a("[]interface {}", &other)),
            None => continue,
        };
        let key = after_prefix(&directive, SET_ELEMENT_ORDER)?;
        let list = {
            let list_of = |value: Option<&Value>| match value {
                None | Some(Value::Array(_)) => Ok(()),
                Some(other) => Err(not_a("[]interface {}", other)),
            };
            list_of(original.get(key))?;
            list_of(patch.get(key))?;
            lookup_list(schema, key)?
        };
        merge_ordered(original, patch, key, &order, &list)?;
    }
    Ok(())
}

fn merge_ordered(
    original: &mut Fields,
    patch: &mut Fields,
    key: &str,
    order: &[Value],
    list: &List<'_>,
) -> Result<(), PatchError> {
    let empty: &[Value] = &[];
    let items = |value: Option<&Value>| value.and_then(Value::as_array).cloned();
    check_order(patch.get(key).and_then(Value::as_array).map_or(empty, Vec::as_slice), order, list.key)?;
    let live = items(original.get(key));
    let merged = match (live.clone(), patch.get_mut(key)) {
        (None, None) => return Ok(()),
        (Some(live), None) => live,
        (None, Some(new)) => {
            strip_directives(new);
            new.as_array().cloned().unwrap_or_default()
        }
        (Some(live), Some(Value::Array(new))) => slices::merge(live, new, list, false)?,
        (Some(live), Some(_)) => live,
    };
    let (ours, theirs) = match list.key {
        Some(key) => partition(merged, order, key)?,
        None => merged.into_iter().partition(|item| order.contains(item)),
    };
    let live = live.unwrap_or_default();
    let patched = items(patch.get(key)).unwrap_or_default();
    if live.is_empty() && patched.is_empty() {
        return Err(internal("no elements in any of the given slices".to_owned()));
    }
    check_items(&live, &patched)?;
    check_keys(&[&ours, order, &theirs, &live], list.key)?;
    let (in_patch, in_live) = (Positions::new(order, list.key), Positions::new(&live, list.key));
    original.insert(key.into(), interleave(ours, theirs, &in_patch, &in_live).into());
    patch.remove(key);
    Ok(())
}

/// Checks that `$setElementOrder` contains all items of the patch, in their order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let mut left = Vec::with_capacity(patch.len());
    for item in patch {
        if key.is_some() {
            object(item)?;
        }
        // Directives do not count as items.
        if item.get(DIRECTIVE).is_none() {
            left.push(item);
        }
    }
    let mut rest = left.iter().peekable();
    for named in order {
        let Some(item) = rest.peek() else { return Ok(()) };
        if same_key(item, named, key)? {
            rest.next();
        }
    }
    if rest.peek().is_none() {
        return Ok(());
    }
    Err(internal(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ELEMENT_ORDER} list:\n{}\n",
        go::text(&patch.to_vec().into()),
        go::text(&order.to_vec().into())
    )))
}

fn same_key(a: &Value, b: &Value, key: Option<&str>) -> Result<bool, PatchError> {
    let Some(key) = key else { return Ok(a == b) };
    let value = |item: &Value| -> Result<Value, PatchError> {
        let fields = object(item)?;
        fields.get(key).cloned().ok_or_else(|| no_merge_key(fields, key))
    };
    Ok(value(a)? == value(b)?)
}

fn check_keys(lists: &[&[Value]], key: Option<&str>) -> Result<(), PatchError> {
    let Some(key) = key else { return Ok(()) };
    for item in lists.iter().copied().flatten() {
        let fields = item.as_object().ok_or_else(|| bad("invalid patch format of setElementOrder list"))?;
        if !fields.contains_key(key) {
            return Err(no_merge_key(fields, key));
        }
    }
    Ok(())
}

/// Merges two sorted lists: the items of the patch in its order, and the other items in the live order. An item of the latter
/// comes first only if the live list has it before the patch's next item.
pub(super) fn interleave(
    ours: Vec<Value>,
    theirs: Vec<Value>,
    in_patch: &Positions<'_>,
    in_live: &Positions<'_>,
) -> Vec<Value> {
    let sorted = |mut items: Vec<Value>, order: &Positions<'_>| {
        items.sort_by_cached_key(|item| order.of(item).unwrap_or(usize::MAX));
        items
    };
    let mut ours = sorted(ours, in_patch).into_iter().peekable();
    let mut theirs = sorted(theirs, in_live).into_iter().peekable();
    let mut merged = Vec::with_capacity(ours.len() + theirs.len());
    loop {
        let theirs_first = match (theirs.peek(), ours.peek()) {
            (None, None) => return merged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(theirs), Some(ours)) => match (in_live.of(theirs), in_live.of(ours)) {
                (Some(a), Some(b)) => a < b,
                _ => false,
            },
        };
        merged.extend(if theirs_first { theirs.next() } else { ours.next() });
    }
}

/// The first position of each item of a list.
pub(super) struct Positions<'v> {
    key: Option<&'v str>,
    by_id: BTreeMap<Id<'v>, usize>,
}

impl<'v> Positions<'v> {
    pub(super) fn new(items: &'v [Value], key: Option<&'v str>) -> Self {
        let id = |item: &'v Value| key.map_or(Some(item), |key| item.get(key));
        Self::of_ids(items.iter().map(id), key)
    }

    /// The first position of each id; `None` is the id of an item without one.
    pub(super) fn of_ids(ids: impl Iterator<Item = Option<&'v Value>>, key: Option<&'v str>) -> Self {
        let mut by_id = BTreeMap::new();
        for (at, id) in ids.enumerate() {
            if let Some(id) = id {
                by_id.entry(Id(id)).or_insert(at);
            }
        }
        Self { key, by_id }
    }

    pub(super) fn of(&self, item: &Value) -> Option<usize> {
        self.by_id.get(&self.id(item)?).copied()
    }

    fn id<'i>(&self, item: &'i Value) -> Option<Id<'i>> {
        match self.key {
            Some(key) => item.get(key).map(Id),
            None => Some(Id(item)),
        }
    }
}

/// The id of an item, ordered as values are.
struct Id<'v>(&'v Value);

impl PartialEq for Id<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Id<'_> {}

impl Ord for Id<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        crate::json::compare(self.0, other.0)
    }
}

impl PartialOrd for Id<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
