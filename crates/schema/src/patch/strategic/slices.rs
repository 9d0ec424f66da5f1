//! Merges lists: lists of objects by a key, lists of scalars as sets.

use evenkeel_scalars::go;

use super::order::{self, Positions};
use super::{DIRECTIVE, Fields, List, internal, merge_map, no_merge_key, unknown_directive};
use crate::json::Value;
use crate::patch::PatchError;

/// Merges a list of the patch into the original one, by the patch strategy of the field.
pub(super) fn merge(
    original: Vec<Value>,
    patch: &mut Vec<Value>,
    list: &List<'_>,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    if !list.strategy.merge && !deletes {
        return Ok(patch.clone());
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    check_items(&original, patch)?;
    if original.iter().chain(&*patch).any(Value::is_object) {
        return merge_objects(original, patch, list);
    }
    if deletes {
        return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
    }
    let mut merged = original.clone();
    merged.extend(patch.iter().cloned());
    dedup(&mut merged);
    let (ours, theirs) = merged.into_iter().partition(|item| patch.contains(item));
    let (in_patch, in_live) = (Positions::new(patch, None), Positions::new(&original, None));
    Ok(order::interleave(ours, theirs, &in_patch, &in_live))
}

fn merge_objects(
    original: Vec<Value>,
    patch: &mut [Value],
    list: &List<'_>,
) -> Result<Vec<Value>, PatchError> {
    let Some(key) = list.key else {
        return Err(internal("cannot merge lists without merge key for struct".to_owned()));
    };
    let (original, plain) = directives(original, patch, key)?;
    // A directive has replaced the whole list, so that nothing is left to merge.
    let Some(plain) = plain else { return Ok(original) };
    let live_ids: Vec<Option<Value>> = original.iter().map(|item| item.get(key).cloned()).collect();
    let mut merged = original;
    for index in plain.iter().copied() {
        let item = object_mut(&mut patch[index])?;
        let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
        match find(&merged, key, value)? {
            Some(at) => merge_map(object_mut(&mut merged[at])?, item, list.items)?,
            None => merged.push(Value::Object(item.clone())),
        }
    }
    let patched: Vec<Value> = plain.iter().map(|index| patch[*index].clone()).collect();
    let (ours, theirs) = partition(merged, &patched, key)?;
    let in_live = Positions::of_ids(live_ids.iter().map(Option::as_ref), Some(key));
    Ok(order::interleave(ours, theirs, &Positions::new(&patched, Some(key)), &in_live))
}

/// Executes the items that are directives. Returns the positions of the other items, or `None` if a directive has replaced
/// the list by them.
fn directives(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
) -> Result<(Vec<Value>, Option<Vec<usize>>), PatchError> {
    let (mut plain, mut replace) = (Vec::new(), false);
    for (index, item) in patch.iter().enumerate() {
        let item = object(item)?;
        match item.get(DIRECTIVE).map(|directive| (directive, directive.as_str())) {
            None => plain.push(index),
            Some((_, Some("delete"))) => {
                let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
                original.retain(|each| each.get(key) != Some(value));
            }
            Some((_, Some("replace"))) => replace = true,
            Some((_, Some("merge"))) => {
                return Err(internal("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some((directive, _)) => return Err(unknown_directive(directive, item)),
        }
    }
    if replace {
        return Ok((plain.into_iter().map(|index| patch[index].clone()).collect(), None));
    }
    Ok((original, Some(plain)))
}

/// Splits items into those whose key the other list has, and the rest.
pub(super) fn partition(
    items: Vec<Value>,
    by: &[Value],
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let named = Positions::new(by, Some(key));
    if let Some(at) = by.iter().position(|item| !item.is_object()).filter(|_| !items.is_empty()) {
        return Err(internal(format!("value for key {at} is not a map")));
    }
    for item in &items {
        let fields = object(item)?;
        if !fields.contains_key(key) {
            return Err(no_merge_key(fields, key));
        }
    }
    Ok(items.into_iter().partition(|item| named.of(item).is_some()))
}

fn find(items: &[Value], key: &str, value: &Value) -> Result<Option<usize>, PatchError> {
    for (index, item) in items.iter().enumerate() {
        let Value::Object(fields) = item else {
            return Err(internal(format!("value for key {index} is not a map")));
        };
        if fields.get(key) == Some(value) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Checks that all items of both lists have one type, and none is a list.
pub(super) fn check_items(original: &[Value], patch: &[Value]) -> Result<(), PatchError> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else { return Ok(()) };
    if first.is_array() {
        return Err(PatchError::Unprocessable("lists of lists are not supported".into()));
    }
    let same = |item: &Value| std::mem::discriminant(item) == std::mem::discriminant(first);
    if first.is_null() || !items.all(same) {
        let lists = Value::Array(vec![original.to_vec().into(), patch.to_vec().into()].into());
        return Err(internal(format!("list element types are not identical: {}", go::text(&lists))));
    }
    Ok(())
}

fn dedup(items: &mut Vec<Value>) {
    let mut kept: Vec<Value> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    *items = kept;
}

pub(super) fn object(value: &Value) -> Result<&Fields, PatchError> {
    value.as_object().ok_or_else(|| super::not_a("map[string]interface {}", value))
}

fn object_mut(value: &mut Value) -> Result<&mut Fields, PatchError> {
    match value {
        Value::Object(fields) => Ok(fields),
        other => Err(super::not_a("map[string]interface {}", other)),
    }
}
