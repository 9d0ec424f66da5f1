//! Validates numbers against their limits, with the arithmetic of Kubernetes' validator.

use evenkeel_scalars::go;

use super::values::{Failure, Outcome};
use crate::field::BadValue;
use crate::types::{Schema, Type};

/// A number as Go decodes it: integers exactly, all others as floats.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl From<&crate::json::Number> for Number {
    fn from(number: &crate::json::Number) -> Self {
        match number.as_i64() {
            Some(value) => Number::Int(value),
            None => Number::Float(number.as_f64().unwrap_or_default()),
        }
    }
}

impl Number {
    fn as_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    fn bad(self) -> BadValue {
        match self {
            Number::Int(value) => value.into(),
            Number::Float(value) => value.into(),
        }
    }
}

/// Whether the validator takes a float for a whole number.
pub(super) fn is_whole(value: f64) -> bool {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_991.0;
    if !value.is_finite() || value.abs() > LARGEST_EXACT {
        return false;
    }
    let difference = (value - value.trunc()).abs();
    difference == 0.0 || difference < 1e-9 * value.abs()
}

pub(super) fn check(path: &str, schema: &Schema, number: Number, outcome: &mut Outcome) {
    let (kind, format) = kind_and_format(schema);
    if !fits(number, kind, format) {
        outcome.fail(Failure::general(range_text("Checked", kind, format, path)));
    }
    let Some(limits) = schema.limits.as_deref() else { return };
    if let Some(factor) = limits.multiple_of {
        limit_range(path, factor, "MultipleOf", (kind, format), outcome);
        if !is_multiple(number, factor) {
            let detail = format!("{path} in body should be a multiple of {}", go::float(factor));
            outcome.fail(Failure::invalid(path, number.bad(), detail));
        }
    }
    if let Some(min) = limits.minimum {
        limit_range(path, min, "Minimum boundary", (kind, format), outcome);
        if below(number, min, limits.exclusive_minimum) {
            let words = if limits.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            let detail = format!("{path} in body should be {words} {}", print_limit(number, min));
            outcome.fail(Failure::invalid(path, number.bad(), detail));
        }
    }
    if let Some(max) = limits.maximum {
        limit_range(path, max, "Maximum boundary", (kind, format), outcome);
        if above(number, max, limits.exclusive_maximum) {
            let words = if limits.exclusive_maximum { "less than" } else { "less than or equal to" };
            let detail = format!("{path} in body should be {words} {}", print_limit(number, max));
            outcome.fail(Failure::invalid(path, number.bad(), detail));
        }
    }
}

fn kind_and_format(schema: &Schema) -> (&'static str, &str) {
    let format = schema.format.as_ref();
    match (schema.int_or_string, schema.value_type) {
        (false, Some(Type::Integer)) => {
            ("integer", if matches!(format, "int32" | "int64") { format } else { "" })
        }
        (false, Some(Type::Number)) => {
            ("number", if matches!(format, "float" | "double") { format } else { "" })
        }
        _ => ("", ""),
    }
}

fn fits(number: Number, kind: &str, format: &str) -> bool {
    match (kind, format) {
        ("integer", "int32") => match number {
            Number::Int(value) => i32::try_from(value).is_ok(),
            Number::Float(value) => is_whole(value) && (i32::MIN as f64..=i32::MAX as f64).contains(&value),
        },
        ("integer", _) => match number {
            Number::Int(_) => true,
            // The validator prints the float and parses it as an integer, which fails for a fraction or an exponent.
            Number::Float(value) => value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0,
        },
        ("number", "float") => number.as_f64().abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

fn range_text(prefix: &str, kind: &str, format: &str, path: &str) -> String {
    match format {
        "" => format!("{prefix} value must be of type {kind} (default format) in {path}"),
        format => format!("{prefix} value must be of type {kind} with format {format} in {path}"),
    }
}

fn limit_range(path: &str, limit: f64, prefix: &str, kind: (&str, &str), outcome: &mut Outcome) {
    if !fits(Number::Float(limit), kind.0, kind.1) {
        outcome.fail(Failure::general(range_text(prefix, kind.0, kind.1, path)));
    }
}

fn is_multiple(number: Number, factor: f64) -> bool {
    match number {
        Number::Int(value) if factor as i64 > 0 => value % (factor as i64) == 0,
        number => {
            let value = number.as_f64();
            is_whole(if factor < 1.0 { 1.0 / factor * value } else { value / factor })
        }
    }
}

fn below(number: Number, min: f64, exclusive: bool) -> bool {
    match number {
        Number::Int(value) => value < min as i64 || (exclusive && value == min as i64),
        Number::Float(value) => value < min || (exclusive && value == min),
    }
}

fn above(number: Number, max: f64, exclusive: bool) -> bool {
    match number {
        Number::Int(value) => value > max as i64 || (exclusive && value == max as i64),
        Number::Float(value) => value > max || (exclusive && value == max),
    }
}

/// Prints a limit: without a fraction if the value is an integer.
fn print_limit(number: Number, limit: f64) -> String {
    match number {
        Number::Int(_) => (limit as i64).to_string(),
        Number::Float(_) => go::float(limit),
    }
}
