//! The equality of values.
//!
//! Numbers of different types can be equal. Other values of different types are unequal; comparing them is not an
//! error. Lists of the object whose list type is `set` or `map` are compared without their order.

use std::borrow::Cow;
use std::cell::Cell;

use crate::value::view::{JsonList, JsonMap, ListType, view};
use crate::value::{Fault, Key, List, Map, Outcome, Value, equal_numbers};
use evenkeel_tree::value::Value as Json;

/// How many steps one evaluation may spend inside of values: comparing, printing and sorting them.
///
/// CEL's cost counts a comparison by the size of the outermost list only. Without this bound, comparing a value that
/// contains another one many times over could take hours. The largest possible request has some 10^6 parts.
pub(crate) const STEPS_MAX: u64 = 10_000_000;

/// The steps that an evaluation has left.
#[derive(Debug)]
pub(crate) struct Fuel(Cell<u64>);

impl Fuel {
    pub(crate) fn new() -> Self {
        Self::of(STEPS_MAX)
    }

    /// A budget of `steps` steps.
    pub(crate) fn of(steps: u64) -> Self {
        Fuel(Cell::new(steps))
    }

    /// Spends steps; fails if there are too few left.
    pub(crate) fn spend(&self, steps: u64) -> Outcome<()> {
        let left = self.0.get().checked_sub(steps).ok_or(Fault::Limit)?;
        self.0.set(left);
        Ok(())
    }
}

/// How deep compared values may be nested. The comparison recurses, so the stack needs this bound.
const DEPTH_MAX: usize = 300;

/// Whether two values are equal.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>, fuel: &Fuel) -> Outcome<bool> {
    equal_at(a, b, fuel, 0)
}

fn equal_at(a: &Value<'_>, b: &Value<'_>, fuel: &Fuel, depth: usize) -> Outcome<bool> {
    fuel.spend(1)?;
    if depth > DEPTH_MAX {
        return Err(Fault::Limit);
    }
    if let Some(equal) = equal_numbers(a, b) {
        return Ok(equal);
    }
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => {
            fuel.spend(a.len().min(b.len()) as u64 / 64)?;
            **a == **b
        }
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::List(a), Value::List(b)) => return lists(a, b, fuel, depth),
        (Value::Map(a), Value::Map(b)) => return maps(a, b, fuel, depth),
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => return equal_at(a, b, fuel, depth + 1),
        (Value::Optional(a), Value::Optional(b)) => a.is_none() && b.is_none(),
        (Value::Type(a), Value::Type(b)) => a.runtime_name() == b.runtime_name(),
        (Value::Opaque(a), Value::Opaque(b)) => a == b,
        (Value::Access(a), Value::Access(b)) => a.equals(b),
        (Value::Preserved(a), Value::Preserved(b)) => a == b,
        (Value::List(List::Json(_)) | Value::Map(Map::Json(_)), _) => return Err(Fault::no_overload()),
        _ => false,
    })
}

fn lists(a: &List<'_>, b: &List<'_>, fuel: &Fuel, depth: usize) -> Outcome<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a {
        List::Json(json) if json.list_type == ListType::Set => sets(json, b, fuel),
        List::Json(json @ JsonList { list_type: ListType::Map(keys), .. }) => {
            keyed(json, keys, b, fuel, depth)
        }
        _ => {
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal_at(&a?, &b?, fuel, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// An item of a set as a key to sort by.
fn element(value: &Value<'_>) -> Outcome<Key> {
    match value {
        Value::Double(value) => Ok(Key::String(value.to_string().into())),
        other => other.key().ok_or_else(Fault::no_overload),
    }
}

fn sets(a: &JsonList<'_>, b: &List<'_>, fuel: &Fuel) -> Outcome<bool> {
    fuel.spend(2 * a.items.len() as u64)?;
    let known = (0..a.items.len()).map(|index| element(&a.get(index)?)).collect::<Outcome<Vec<_>>>();
    let (Ok(mut ours), Ok(mut theirs)) =
        (known, b.iter().map(|item| element(&item?)).collect::<Outcome<Vec<_>>>())
    else {
        return ordered(a, b, fuel);
    };
    ours.sort();
    theirs.sort();
    ours.dedup();
    theirs.dedup();
    Ok(ours == theirs)
}

/// Compares sets whose items are not scalars, each item of one with all items of the other.
fn ordered(a: &JsonList<'_>, b: &List<'_>, fuel: &Fuel) -> Outcome<bool> {
    let items = b.to_vec()?;
    for index in 0..a.items.len() {
        let item = a.get(index)?;
        let mut found = false;
        for other in &items {
            found = found || equal_at(&item, other, fuel, 1)?;
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The values of an item's key fields, as one string, for a list whose list type is `map`.
pub fn item_key(item: &Json, keys: &[Cow<'static, str>]) -> Option<String> {
    let fields = item.as_object()?;
    let parts = keys.iter().map(|key| fields.get(key.as_ref()).map_or("".to_owned(), Json::to_string));
    Some(parts.collect::<Vec<_>>().join("\0"))
}

fn keyed(
    a: &JsonList<'_>,
    keys: &[Cow<'static, str>],
    b: &List<'_>,
    fuel: &Fuel,
    depth: usize,
) -> Outcome<bool> {
    fuel.spend(2 * a.items.len() as u64)?;
    let ours: std::collections::BTreeMap<String, &Json> =
        a.items.iter().filter_map(|item| Some((item_key(item, keys)?, item))).collect();
    for other in b.iter() {
        let other = other?;
        let Value::Map(Map::Json(JsonMap { fields, .. })) = &other else { return Ok(false) };
        let parts = keys.iter().map(|key| fields.get(key.as_ref()).map_or("".to_owned(), Json::to_string));
        let key = parts.collect::<Vec<_>>().join("\0");
        let Some(item) = ours.get(&key) else { return Ok(false) };
        if !equal_at(&view(item, a.schema)?, &other, fuel, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps(a: &Map<'_>, b: &Map<'_>, fuel: &Fuel, depth: usize) -> Outcome<bool> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if let Map::Json(map) = a {
        return objects(map, b, fuel, depth);
    }
    for key in a.keys() {
        let (ours, theirs) = (a.find(&key)?, b.find(&key)?);
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(false) };
        if !equal_at(&ours, &theirs, fuel, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn objects(a: &JsonMap<'_>, b: &Map<'_>, fuel: &Fuel, depth: usize) -> Outcome<bool> {
    for (name, value) in a.fields {
        if a.schema_of(name).is_some() {
            let key = crate::escape::escape(name).unwrap_or_else(|| name.to_string());
            let name = if a.is_object() { key.as_str() } else { name.as_str() };
            let theirs = match b {
                Map::Json(b) => b.find(name)?,
                Map::Owned(_) => b.find(&Value::text(name))?,
            };
            match (a.find(name)?, theirs) {
                (Some(ours), Some(theirs)) => {
                    if !equal_at(&ours, &theirs, fuel, depth + 1)? {
                        return Ok(false);
                    }
                }
                (None, None) => {}
                _ => return Ok(false),
            }
        } else {
            let Map::Json(b) = b else { return Err(Fault::no_overload()) };
            if b.fields.get(name).is_some_and(|other| other != value) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
