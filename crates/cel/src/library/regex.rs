//! Regular expressions.

use std::sync::Arc;

use regex::Regex;

use crate::value::equality::Fuel;
use crate::value::{Fault, Outcome, Value};
use evenkeel_scalars::go_regex;

/// The steps charged for compiling a pattern, so that an expression cannot compile hundreds of patterns that it computes.
const COMPILE_STEPS: u64 = 40_000;
/// The steps charged for compiling a pattern with repeat counts or Unicode classes, whose program can be large.
const COMPILE_LARGE_STEPS: u64 = 400_000;

/// Whether a text is a valid pattern in Go's syntax.
pub(crate) fn is_valid(text: &str) -> bool {
    go_regex::compiled(text).is_some()
}

fn compile(text: &str, fuel: &Fuel) -> Outcome<Arc<Regex>> {
    if !go_regex::is_kept(text) {
        let large = text.contains('{') || text.contains("\\p") || text.contains("\\P");
        fuel.spend(if large { COMPILE_LARGE_STEPS } else { COMPILE_STEPS })?;
    }
    go_regex::compiled(text).ok_or_else(|| Fault::new(go_regex::go_error(text)))
}

pub(crate) fn matches<'a>(text: &str, pattern: &str, fuel: &Fuel) -> Outcome<Value<'a>> {
    compile(pattern, fuel).map(|regex| Value::Bool(regex.is_match(text)))
}

/// Compiles a pattern for `find` and `findAll`, whose error has a prefix.
fn compile_to_find(text: &str, fuel: &Fuel) -> Outcome<Arc<Regex>> {
    compile(text, fuel).map_err(|fault| match fault {
        Fault::Error(problem) => Fault::new(format!("Illegal regex: {problem}")),
        Fault::Limit => Fault::Limit,
    })
}

/// The first match, or an empty string.
pub(crate) fn find<'a>(text: &str, pattern: &str, fuel: &Fuel) -> Outcome<Value<'a>> {
    let regex = compile_to_find(pattern, fuel)?;
    Ok(Value::text(regex.find(text).map_or("", |found| found.as_str())))
}

/// All matches, at most `count` unless `count` is negative.
pub(crate) fn find_all<'a>(text: &str, pattern: &str, count: i64, fuel: &Fuel) -> Outcome<Value<'a>> {
    let regex = compile_to_find(pattern, fuel)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Value::texts(regex.find_iter(text).take(count).map(|found| found.as_str())))
}
