//! The functions on lists.

use std::cmp::Ordering;

use super::strings::BYTES_MAX;
use crate::library;
use crate::library::operators;
use crate::value::equality::{Fuel, equal};
use crate::value::{Fault, List, Outcome, Value, compare};

/// The longest list that `lists.range` makes. The cost limit of an expression forbids to use a longer one.
const RANGE_MAX: i64 = 1_000_000;

pub(crate) fn unary<'a>(function: &str, overload: &str, list: &List<'a>, fuel: &Fuel) -> Outcome<Value<'a>> {
    match function {
        "isSorted" => is_sorted(list),
        "sum" => sum(list, overload),
        "max" => extreme(list, "max", Ordering::Less),
        "min" => extreme(list, "min", Ordering::Greater),
        "join" => join(list, ""),
        "flatten" => flatten(list, 1, fuel),
        "sort" => sort(list, list, fuel),
        "reverse" => list.iter().rev().collect::<Outcome<Vec<_>>>().map(Value::list),
        "distinct" => distinct(list, fuel),
        "first" => end(list, 0),
        "last" => end(list, list.len().wrapping_sub(1)),
        "optional.unwrap" | "unwrapOpt" => unwrap(list),
        _ => Err(Fault::no_overload()),
    }
}

fn is_sorted<'a>(list: &List<'a>) -> Outcome<Value<'a>> {
    let items = list.to_vec()?;
    let sorted = items.windows(2).all(|pair| compare(&pair[0], &pair[1]) != Ok(Ordering::Greater));
    Ok(Value::Bool(sorted))
}

fn sum<'a>(list: &List<'a>, overload: &str) -> Outcome<Value<'a>> {
    let zero = match overload {
        "list_uint_sum_uint" => Value::Uint(0),
        "list_double_sum_double" => Value::Double(0.0),
        "list_duration_sum_duration" => Value::Duration(0),
        _ => Value::Int(0),
    };
    let mut sum = zero;
    for item in list.iter() {
        let item = item?;
        sum = match (&sum, &item) {
            // The first item decides the type of the sum, if the checker did not know it.
            (Value::Int(0), Value::Uint(_) | Value::Double(_) | Value::Duration(_)) => item,
            (_, Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_)) => {
                operators::add(&sum, &item)?
            }
            _ => return Err(Fault::no_overload()),
        };
    }
    Ok(sum)
}

fn extreme<'a>(list: &List<'a>, name: &str, replace: Ordering) -> Outcome<Value<'a>> {
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        match &best {
            Some(known) if compare(known, &item) != Ok(replace) => {}
            _ => best = Some(item),
        }
    }
    best.ok_or_else(|| Fault::new(format!("{name} called on empty list")))
}

pub(crate) fn index_of<'a>(
    list: &List<'a>,
    wanted: &Value<'a>,
    last: bool,
    fuel: &Fuel,
) -> Outcome<Value<'a>> {
    let mut found = -1;
    for (index, item) in list.iter().enumerate() {
        if matches!(equal(&item?, wanted, fuel), Ok(true)) {
            found = index as i64;
            if !last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

pub(crate) fn join<'a>(list: &List<'a>, separator: &str) -> Outcome<Value<'a>> {
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        let item = item?;
        let Value::String(text) = &item else {
            return Err(Fault::new(format!("join: invalid input: {}", library::show(&item))));
        };
        if out.len() + separator.len() + text.len() > BYTES_MAX {
            return Err(Fault::Limit);
        }
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Value::text(out))
}

pub(crate) fn flatten<'a>(list: &List<'a>, depth: i64, fuel: &Fuel) -> Outcome<Value<'a>> {
    if depth < 0 {
        return Err(Fault::new("level must be non-negative"));
    }
    // The stack is explicit: lists may be nested deeper than the thread's stack allows.
    let mut open = vec![(list.clone(), 0, depth)];
    let mut out = Vec::new();
    while let Some((list, index, depth)) = open.pop() {
        if index >= list.len() {
            continue;
        }
        fuel.spend(1)?;
        let item = list.get(index)?;
        open.push((list, index + 1, depth));
        match item {
            Value::List(inner) if depth > 0 => open.push((inner, 0, depth - 1)),
            other => out.push(other),
        }
    }
    Ok(Value::list(out))
}

/// Sorts a list by the keys of its items.
pub(crate) fn sort<'a>(list: &List<'a>, keys: &List<'a>, fuel: &Fuel) -> Outcome<Value<'a>> {
    if list.len() != keys.len() {
        return Err(Fault::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    fuel.spend(list.len() as u64)?;
    let keys = keys.to_vec()?;
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(list.to_vec()?).collect();
    if let Some((first, _)) = pairs.first() {
        let cel_type = first.cel_type();
        if pairs.iter().any(|(key, _)| key.cel_type() != cel_type) {
            return Err(Fault::new("list elements must have the same type"));
        }
        if compare(first, first).is_err() {
            return Err(Fault::new("list elements must be comparable"));
        }
    }
    pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn distinct<'a>(list: &List<'a>, fuel: &Fuel) -> Outcome<Value<'a>> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        let mut seen = false;
        for known in &kept {
            if equal(&item, known, fuel)? {
                seen = true;
                break;
            }
        }
        if !seen {
            kept.push(item);
        }
    }
    Ok(Value::list(kept))
}

fn end<'a>(list: &List<'a>, index: usize) -> Outcome<Value<'a>> {
    match list.len() {
        0 => Ok(Value::Optional(None)),
        _ => list.get(index).map(Value::some),
    }
}

fn unwrap<'a>(list: &List<'a>) -> Outcome<Value<'a>> {
    let mut out = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(value) => out.extend(value.map(|value| value.as_ref().clone())),
            _ => return Err(Fault::no_overload()),
        }
    }
    Ok(Value::list(out))
}

pub(crate) fn range<'a>(count: i64) -> Outcome<Value<'a>> {
    match count {
        ..0 => Err(Fault::new(format!("lists.range: size must be non-negative, got {count}"))),
        0..=RANGE_MAX => Ok(Value::list((0..count).map(Value::Int).collect())),
        _ => Err(Fault::Limit),
    }
}

pub(crate) fn slice<'a>(list: &List<'a>, start: i64, end: i64) -> Outcome<Value<'a>> {
    let refuse = |why: String| Err(Fault::new(format!("cannot slice({start}, {end}), {why}")));
    let length = list.len() as i64;
    if start < 0 || end < 0 {
        return refuse("negative indexes not supported".to_owned());
    }
    if start > end {
        return refuse("start index must be less than or equal to end index".to_owned());
    }
    if length < end {
        return refuse(format!("list is length {length}"));
    }
    let items = (start..end).map(|index| list.get(index as usize));
    items.collect::<Outcome<Vec<_>>>().map(Value::list)
}

pub(crate) fn sets<'a>(function: &str, a: &List<'a>, b: &List<'a>, fuel: &Fuel) -> Outcome<Value<'a>> {
    let (a, b) = (a.to_vec()?, b.to_vec()?);
    let has = |list: &[Value<'a>], item: &Value<'a>| -> Outcome<bool> {
        for other in list {
            if equal(other, item, fuel)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let all = |outer: &[Value<'a>], inner: &[Value<'a>]| -> Outcome<bool> {
        for item in inner {
            if !has(outer, item)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    Ok(Value::Bool(match function {
        "sets.contains" => all(&a, &b)?,
        "sets.equivalent" => all(&a, &b)? && all(&b, &a)?,
        _ => {
            for item in &b {
                if has(&a, item)? {
                    return Ok(Value::Bool(true));
                }
            }
            false
        }
    }))
}
