//! Regular expressions.

use std::sync::Arc;

use regex::Regex;

use super::super::super::pattern;
use super::super::equality::Fuel;
use super::super::value::{Fault, Outcome, Value};

/// The steps that compiling a pattern takes, so that a rule cannot make hundreds of patterns out of its object.
const COMPILE_STEPS: u64 = 40_000;
/// The same for patterns that can become large: those with counts or classes of Unicode.
const COMPILE_LARGE_STEPS: u64 = 400_000;

/// Whether a text is a pattern of Go's.
pub(in super::super) fn is_valid(text: &str) -> bool {
    pattern::compiled(text).is_some()
}

fn compile(text: &str, fuel: &Fuel) -> Outcome<Arc<Regex>> {
    if !pattern::is_kept(text) {
        let large = text.contains('{') || text.contains("\\p") || text.contains("\\P");
        fuel.spend(if large { COMPILE_LARGE_STEPS } else { COMPILE_STEPS })?;
    }
    pattern::compiled(text).ok_or_else(|| Fault::new(pattern::go_error(text)))
}

pub(in super::super) fn matches<'a>(text: &str, pattern: &str, fuel: &Fuel) -> Outcome<Value<'a>> {
    compile(pattern, fuel).map(|regex| Value::Bool(regex.is_match(text)))
}

/// The same for the functions that find, which say more of what is wrong.
fn compile_to_find(text: &str, fuel: &Fuel) -> Outcome<Arc<Regex>> {
    compile(text, fuel).map_err(|fault| match fault {
        Fault::Error(problem) => Fault::new(format!("Illegal regex: {problem}")),
        Fault::Limit => Fault::Limit,
    })
}

/// The first match, or an empty text.
pub(in super::super) fn find<'a>(text: &str, pattern: &str, fuel: &Fuel) -> Outcome<Value<'a>> {
    let regex = compile_to_find(pattern, fuel)?;
    Ok(Value::text(regex.find(text).map_or("", |found| found.as_str())))
}

/// The matches, at most `count` unless that is negative.
pub(in super::super) fn find_all<'a>(
    text: &str,
    pattern: &str,
    count: i64,
    fuel: &Fuel,
) -> Outcome<Value<'a>> {
    let regex = compile_to_find(pattern, fuel)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Value::texts(regex.find_iter(text).take(count).map(|found| found.as_str())))
}
