//! Conversions between the standard types.

use evenkeel_scalars::go;

use crate::value::{Fault, Outcome, Value};
use crate::value::{net, time};

/// Converts a value to the type of this name.
pub(crate) fn convert<'a>(to: &str, value: &Value<'a>) -> Outcome<Value<'a>> {
    match (to, value) {
        ("bool", Value::Bool(_))
        | ("bytes", Value::Bytes(_))
        | ("double", Value::Double(_))
        | ("duration", Value::Duration(_))
        | ("int", Value::Int(_))
        | ("string", Value::String(_))
        | ("timestamp", Value::Timestamp(_))
        | ("uint", Value::Uint(_)) => Ok(value.clone()),
        ("bool", Value::String(text)) => bool_of(text),
        ("bytes", Value::String(text)) => Ok(Value::Bytes(text.as_bytes().into())),
        ("double", _) => double(value),
        ("duration", Value::String(text)) => time::parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| Fault::conversion("google.protobuf.Duration")),
        ("int", _) => int(value),
        ("uint", _) => uint(value),
        ("timestamp", Value::String(text)) => time::parse_timestamp(text).map(Value::Timestamp),
        ("timestamp", Value::Int(seconds)) => {
            time::Instant::from_seconds(*seconds).map(Value::Timestamp).ok_or_else(time::timestamp_overflow)
        }
        ("string", _) => string(value).map(Value::text),
        ("duration" | "timestamp", _) => {
            let long =
                if to == "duration" { "google.protobuf.Duration" } else { "google.protobuf.Timestamp" };
            let from = value.cel_type();
            Err(Fault::new(format!("type conversion error from '{}' to '{long}'", from.runtime_name())))
        }
        _ => Err(Fault::no_overload()),
    }
}

fn bool_of<'a>(text: &str) -> Outcome<Value<'a>> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
        _ => Err(Fault::conversion("bool")),
    }
}

fn double<'a>(value: &Value<'_>) -> Outcome<Value<'a>> {
    Ok(Value::Double(match value {
        Value::Int(value) => *value as f64,
        Value::Uint(value) => *value as f64,
        Value::String(text) => float(text).ok_or_else(|| Fault::conversion("double"))?,
        _ => return Err(Fault::no_overload()),
    }))
}

/// Parses a float as Go does.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned.to_ascii_lowercase().as_str() {
        "nan" if unsigned.len() == text.len() => Some(f64::NAN),
        "inf" | "infinity" => Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        _ if unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            text.parse().ok().filter(|value: &f64| value.is_finite())
        }
        _ => None,
    }
}

fn int<'a>(value: &Value<'_>) -> Outcome<Value<'a>> {
    let overflow = || Fault::new("integer overflow");
    Ok(Value::Int(match value {
        Value::Uint(value) => i64::try_from(*value).map_err(|_| overflow())?,
        Value::Double(value)
            if *value > -9_223_372_036_854_775_808.0 && *value < 9_223_372_036_854_775_807.0 =>
        {
            *value as i64
        }
        Value::Double(_) => return Err(overflow()),
        Value::String(text) => signed(text).ok_or_else(|| Fault::conversion("int"))?,
        Value::Timestamp(instant) => instant.seconds(),
        Value::Duration(nanos) => *nanos,
        _ => return Err(Fault::no_overload()),
    }))
}

fn signed(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn uint<'a>(value: &Value<'_>) -> Outcome<Value<'a>> {
    let overflow = || Fault::new("unsigned integer overflow");
    Ok(Value::Uint(match value {
        Value::Int(value) => u64::try_from(*value).map_err(|_| overflow())?,
        Value::Double(value) if *value >= 0.0 && *value < 18_446_744_073_709_551_615.0 => *value as u64,
        Value::Double(_) => return Err(overflow()),
        Value::String(text) if text.starts_with('+') => return Err(Fault::conversion("uint")),
        Value::String(text) => text.parse().map_err(|_| Fault::conversion("uint"))?,
        _ => return Err(Fault::no_overload()),
    }))
}

fn string(value: &Value<'_>) -> Outcome<String> {
    Ok(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => print_double(*value),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(Fault::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Timestamp(instant) => instant.to_string(),
        Value::Duration(nanos) => print_seconds(*nanos),
        Value::Type(cel_type) => cel_type.runtime_name().to_owned(),
        Value::Opaque(opaque) => return net::print(opaque).ok_or_else(Fault::no_overload),
        _ => return Err(Fault::no_overload()),
    })
}

/// Prints a double as Go's `%g` does: in exponent notation below 1e-4 and from 1e6 on.
pub(crate) fn print_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    go::float(value)
}

/// Prints a duration in seconds, as CEL does.
pub(crate) fn print_seconds(nanos: i64) -> String {
    format!("{}s", nanos as f64 / 1e9)
}
