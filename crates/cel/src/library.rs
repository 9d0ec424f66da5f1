//! The function libraries of CEL and of Kubernetes: [`call`] dispatches by name and argument types.

mod convert;
pub(crate) mod format;
mod lists;
mod named;
pub(crate) mod operators;
pub(crate) mod regex;
mod strings;

use std::cmp::Ordering;

use crate::value::equality::Fuel;
use crate::value::{Fault, List, Map, Opaque, Outcome, Text, Value};
use crate::value::{net, semver, time, url};
use evenkeel_scalars::quantity::{Format, Quantity};

/// Calls a function. The first argument of a member function is its receiver.
pub(crate) fn call<'a>(
    function: &str,
    overload: &str,
    args: Vec<Value<'a>>,
    fuel: &Fuel,
) -> Outcome<Value<'a>> {
    let outcome = match (function.as_bytes(), args.as_slice()) {
        ([b'_' | b'!' | b'-' | b'@', ..], _) if function != "@sortByAssociatedKeys" => {
            return operators::call(function, &args, fuel);
        }
        (_, []) => nullary(function),
        (_, [a]) => unary(function, overload, a, fuel),
        (_, [a, b]) => binary(function, a, b, fuel),
        (_, [a, b, c]) => ternary(function, a, b, c, fuel),
        (_, [Value::String(text), Value::String(old), Value::String(new), Value::Int(count)])
            if function == "replace" =>
        {
            strings::replace(text, old, new, *count)
        }
        _ => Err(Fault::no_overload()),
    };
    outcome.map_err(|fault| match fault == Fault::no_overload() {
        true => no_overload(function, &args),
        false => fault,
    })
}

/// The error of a call whose argument types were known only at run time and match no overload.
fn no_overload(function: &str, args: &[Value<'_>]) -> Fault {
    match function {
        "contains" | "startsWith" | "endsWith" | "matches" => Fault::no_overload(),
        "size" | "sort" | "@sortByAssociatedKeys" => Fault::new(format!("no such overload: {function}")),
        _ => {
            let types: Vec<String> =
                args.iter().map(|arg| arg.cel_type().runtime_name().to_owned()).collect();
            Fault::new(format!("no such overload: {function}({})", types.join(", ")))
        }
    }
}

fn nullary<'a>(function: &str) -> Outcome<Value<'a>> {
    match function.strip_prefix("format.").and_then(named::find) {
        Some(format) => Ok(Value::opaque(Opaque::Format(format))),
        None if function == "optional.none" => Ok(Value::Optional(None)),
        None => Err(Fault::no_overload()),
    }
}

fn unary<'a>(function: &str, overload: &str, a: &Value<'a>, fuel: &Fuel) -> Outcome<Value<'a>> {
    match (function, a) {
        ("size", Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_)) => {
            Ok(Value::Int(a.size() as i64))
        }
        ("type", a) => Ok(Value::Type(a.cel_type())),
        ("dyn", a) => Ok(a.clone()),
        ("optional.of", a) => Ok(Value::some(a.clone())),
        ("optional.ofNonZeroValue", a) => match a.is_zero() {
            true => Ok(Value::Optional(None)),
            false => Ok(Value::some(a.clone())),
        },
        ("hasValue", Value::Optional(value)) => Ok(Value::Bool(value.is_some())),
        ("value", Value::Optional(value)) => match value {
            Some(value) => Ok(value.as_ref().clone()),
            None => Err(Fault::new("optional.none() dereference")),
        },
        ("ip", Value::Opaque(opaque)) => match opaque.as_ref() {
            Opaque::Cidr(network) => Ok(Value::opaque(Opaque::Ip(network.address))),
            _ => Err(Fault::no_overload()),
        },
        (_, Value::Timestamp(instant)) if function.starts_with("get") => time::part(instant, function, None),
        (_, Value::Duration(nanos)) if function.starts_with("get") => time::duration_part(*nanos, function),
        ("bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint", a) => {
            convert::convert(function, a)
        }
        (_, Value::String(text)) => of_text(function, text),
        (_, Value::List(list)) => lists::unary(function, overload, list, fuel),
        ("lists.range", Value::Int(count)) => lists::range(*count),
        (_, Value::Opaque(opaque)) => of_opaque(function, opaque),
        (_, Value::Access(access)) => access.answer(function),
        _ => Err(Fault::no_overload()),
    }
}

fn of_text<'a>(function: &str, text: &Text<'a>) -> Outcome<Value<'a>> {
    match function {
        "quantity" => Quantity::parse(text)
            .map(|quantity| Value::opaque(Opaque::Quantity(quantity)))
            .map_err(|error| Fault::new(error.to_string())),
        "isQuantity" => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        "url" => url::parse(text).map(|url| Value::opaque(Opaque::Url(url))),
        "isURL" => Ok(Value::Bool(url::parse(text).is_ok())),
        "ip" => net::parse_address(text).map(|address| Value::opaque(Opaque::Ip(address))),
        "isIP" => Ok(Value::Bool(net::parse_address(text).is_ok())),
        "ip.isCanonical" => {
            net::parse_address(text).map(|address| Value::Bool(address.to_string() == **text))
        }
        "cidr" => net::parse_network(text).map(|network| Value::opaque(Opaque::Cidr(network))),
        "isCIDR" => Ok(Value::Bool(net::parse_network(text).is_ok())),
        "semver" => semver::parse(text, false).map(|version| Value::opaque(Opaque::Semver(version))),
        "isSemver" => Ok(Value::Bool(semver::parse(text, false).is_ok())),
        "jsonpatch.escapeKey" => Ok(Value::text(text.replace('~', "~0").replace('/', "~1"))),
        "format.named" => Ok(named::find(text)
            .map_or(Value::Optional(None), |format| Value::some(Value::opaque(Opaque::Format(format))))),
        _ => strings::unary(function, text),
    }
}

fn of_opaque<'a>(function: &str, opaque: &Opaque) -> Outcome<Value<'a>> {
    match opaque {
        Opaque::Url(url) => url.part(function),
        Opaque::Ip(address) => address.property(function),
        Opaque::Cidr(network) => network.property(function),
        Opaque::Semver(version) => version.part(function),
        Opaque::Quantity(quantity) => quantity_property(function, quantity),
        Opaque::Format(_) => Err(Fault::no_overload()),
    }
}

fn quantity_property<'a>(function: &str, quantity: &Quantity) -> Outcome<Value<'a>> {
    let is_integer = quantity.is_whole() && quantity.fits_int();
    Ok(match function {
        "sign" if quantity.is_zero() => Value::Int(0),
        "sign" => Value::Int(if quantity.is_negative() { -1 } else { 1 }),
        "isInteger" => Value::Bool(is_integer),
        "asInteger" if is_integer => Value::Int(quantity.value()),
        "asInteger" => return Err(Fault::new("cannot convert value to integer")),
        "asApproximateFloat" => Value::Double(quantity.to_f64()),
        _ => return Err(Fault::no_overload()),
    })
}

fn binary<'a>(function: &str, a: &Value<'a>, b: &Value<'a>, fuel: &Fuel) -> Outcome<Value<'a>> {
    match (function, a, b) {
        ("indexOf" | "lastIndexOf", Value::List(list), item) => {
            lists::index_of(list, item, function == "lastIndexOf", fuel)
        }
        ("sets.contains" | "sets.intersects" | "sets.equivalent", Value::List(a), Value::List(b)) => {
            lists::sets(function, a, b, fuel)
        }
        ("@sortByAssociatedKeys", Value::List(list), Value::List(keys)) => lists::sort(list, keys, fuel),
        ("flatten", Value::List(list), Value::Int(depth)) => lists::flatten(list, *depth, fuel),
        ("join", Value::List(list), Value::String(separator)) => lists::join(list, separator),
        ("format", Value::String(text), Value::List(args)) => format::format(text, args, fuel),
        ("matches", Value::String(text), Value::String(pattern)) => regex::matches(text, pattern, fuel),
        ("find", Value::String(text), Value::String(pattern)) => regex::find(text, pattern, fuel),
        ("findAll", Value::String(text), Value::String(pattern)) => regex::find_all(text, pattern, -1, fuel),
        ("semver", Value::String(text), Value::Bool(normalize)) => {
            semver::parse(text, *normalize).map(|version| Value::opaque(Opaque::Semver(version)))
        }
        ("isSemver", Value::String(text), Value::Bool(normalize)) => {
            Ok(Value::Bool(semver::parse(text, *normalize).is_ok()))
        }
        (_, Value::Timestamp(instant), Value::String(zone)) => time::part(instant, function, Some(zone)),
        (_, Value::Opaque(a), b) => of_opaques(function, a, b),
        (_, Value::Access(access), Value::String(text)) => access.ask(function, text),
        (_, Value::String(text), b) => strings::binary(function, text, b),
        _ => Err(Fault::no_overload()),
    }
}

fn of_opaques<'a>(function: &str, a: &Opaque, b: &Value<'a>) -> Outcome<Value<'a>> {
    let other = match b {
        Value::Opaque(other) => Some(other.as_ref()),
        _ => None,
    };
    match (a, other, b) {
        (Opaque::Format(format), _, Value::String(text)) => named::validate(format, text),
        (Opaque::Cidr(network), _, Value::String(text)) if function == "containsIP" => {
            // Kubernetes blames the call, not the text.
            let address = net::parse_address(text).map_err(|_| Fault::no_overload())?;
            Ok(Value::Bool(network.contains(&address)))
        }
        (Opaque::Cidr(network), _, Value::String(text)) if function == "containsCIDR" => {
            Ok(Value::Bool(network.covers(&net::parse_network(text)?)))
        }
        (Opaque::Cidr(network), Some(Opaque::Ip(address)), _) => Ok(Value::Bool(network.contains(address))),
        (Opaque::Cidr(network), Some(Opaque::Cidr(other)), _) => Ok(Value::Bool(network.covers(other))),
        (Opaque::Semver(a), Some(Opaque::Semver(b)), _) => ordering(function, a.cmp(b)),
        (Opaque::Quantity(a), Some(Opaque::Quantity(b)), _) => match function {
            "add" => Ok(Value::opaque(Opaque::Quantity(a.clone() + b.clone()))),
            "sub" => Ok(Value::opaque(Opaque::Quantity(a.clone() - b.clone()))),
            _ => ordering(function, a.cmp(b)),
        },
        (Opaque::Quantity(a), _, Value::Int(b)) => {
            let b = Quantity::new(*b, Format::DecimalExponent);
            let sum = if function == "add" { a.clone() + b } else { a.clone() - b };
            Ok(Value::opaque(Opaque::Quantity(sum)))
        }
        _ => Err(Fault::no_overload()),
    }
}

fn ordering<'a>(function: &str, order: Ordering) -> Outcome<Value<'a>> {
    match function {
        "isGreaterThan" => Ok(Value::Bool(order.is_gt())),
        "isLessThan" => Ok(Value::Bool(order.is_lt())),
        "compareTo" => Ok(Value::Int(order as i64)),
        _ => Err(Fault::no_overload()),
    }
}

fn ternary<'a>(
    function: &str,
    a: &Value<'a>,
    b: &Value<'a>,
    c: &Value<'a>,
    fuel: &Fuel,
) -> Outcome<Value<'a>> {
    match (function, a, b, c) {
        ("slice", Value::List(list), Value::Int(start), Value::Int(end)) => lists::slice(list, *start, *end),
        ("findAll", Value::String(text), Value::String(pattern), Value::Int(count)) => {
            regex::find_all(text, pattern, *count, fuel)
        }
        ("serviceAccount", Value::Access(access), Value::String(namespace), Value::String(name)) => {
            access.service_account(namespace, name)
        }
        (_, Value::String(text), b, c) => strings::ternary(function, text, b, c),
        _ => Err(Fault::no_overload()),
    }
}

/// Prints a value for an error message.
pub(crate) fn show(value: &Value<'_>) -> String {
    match value {
        Value::List(List::Owned(_) | List::Json(_)) => "list".to_owned(),
        Value::Map(Map::Owned(_) | Map::Json(_)) => "map".to_owned(),
        other => match convert::convert("string", other) {
            Ok(Value::String(text)) => text.to_string(),
            _ => other.cel_type().name().to_owned(),
        },
    }
}
