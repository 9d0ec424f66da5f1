//! The actual cost of a call, charged during an evaluation.

use crate::value::{List, Outcome, Value};

/// The cost of reading one character of a string.
const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;
/// The cost of one question to the authorizer. One expression can afford two.
const AUTHORIZATION: u64 = 350_000;

fn traverse(size: u64, factor: f64) -> u64 {
    (size as f64 * factor * TRAVERSAL).ceil() as u64
}

/// The part of the cost that depends on the arguments alone.
pub(crate) fn before(function: &str, overload: &str, args: &[Value<'_>]) -> u64 {
    let size = |index: usize| args.get(index).map_or(1, Value::size);
    match function {
        "_==_" if matches!(args.first(), Some(Value::Opaque(_))) => 1,
        "_==_" | "_!=_" => traverse(size(0).min(size(1)), 1.0),
        "_<_" | "_<=_" | "_>_" | "_>=_" => match args.first() {
            Some(Value::String(_) | Value::Bytes(_)) => traverse(size(0).min(size(1)), 1.0),
            _ => 1,
        },
        "_+_" => match args.first() {
            Some(Value::String(_) | Value::Bytes(_)) => traverse(size(0) + size(1), 1.0),
            // Copying a list costs in proportion to its items.
            Some(Value::List(_)) => 1 + (size(0) + size(1)) / 100,
            _ => 1,
        },
        "@in" if matches!(args.get(1), Some(Value::List(_))) => size(1),
        "startsWith" | "endsWith" => traverse(size(1), 1.0),
        "contains" => traverse(size(0), 1.0).saturating_mul(traverse(size(1), 1.0)),
        "matches" | "find" | "findAll" => {
            let pattern = (size(1) as f64 * REGEX).ceil() as u64;
            traverse(size(0) + 1, 1.0).saturating_mul(pattern)
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            args.first().map_or(0, |value| traversal(value, 0))
        }
        "replace" | "split" => traverse(size(0), 2.0),
        "ip" if overload == "cidr_ip" => 1,
        "check" if matches!(args.first(), Some(Value::Access(_))) => AUTHORIZATION,
        "url"
        | "jsonpatch.escapeKey"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "cidr"
        | "ip"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "strings.quote"
        | "format" => traverse(size(0), 1.0),
        "bytes" | "string" if matches!(overload, "string_to_bytes" | "bytes_to_string") => {
            traverse(size(0), 1.0)
        }
        "ip.isCanonical" => traverse(size(0), 2.0),
        "validate" => traverse(size(1) + 1, 1.0).saturating_mul(32),
        "containsIP" | "containsCIDR" => traverse(2 * size(0), 1.0) + traverse(size(1), 1.0) + 1,
        "sort" | "@sortByAssociatedKeys" | "distinct" => {
            size(0).saturating_mul(size(0)).saturating_mul(2).saturating_add(11)
        }
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        _ => 1,
    }
}

/// The part of the cost that depends on the result.
pub(crate) fn after(function: &str, result: &Value<'_>) -> u64 {
    match function {
        "join" => traverse(result.size(), 2.0).saturating_sub(1),
        "slice" | "flatten" | "lists.range" | "reverse" => 10 + result.size(),
        "format" | "replace" => traverse(result.size(), 0.1),
        _ => 0,
    }
}

/// The cost of reading a value with all its parts.
fn traversal(value: &Value<'_>, depth: usize) -> u64 {
    /// Parts below this depth are not counted: the cost is an approximation, and the recursion must be bounded.
    const DEPTH_MAX: usize = 4;
    match value {
        Value::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        Value::List(list) if depth < DEPTH_MAX => items(list, depth),
        _ => 1,
    }
}

fn items(list: &List<'_>, depth: usize) -> u64 {
    list.iter().map(|item: Outcome<Value<'_>>| item.map_or(1, |item| traversal(&item, depth + 1))).sum()
}
