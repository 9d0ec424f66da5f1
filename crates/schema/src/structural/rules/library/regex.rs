//! Regular expressions.

use super::super::super::pattern;
use super::super::value::{Fault, Outcome, Value};

/// Compiles a pattern of Go's.
pub(in super::super) fn compile(text: &str) -> Result<std::sync::Arc<regex::Regex>, Fault> {
    pattern::compiled(text).ok_or_else(|| Fault::new(pattern::go_error(text)))
}

pub(in super::super) fn matches<'a>(text: &str, pattern: &str) -> Outcome<Value<'a>> {
    compile(pattern).map(|regex| Value::Bool(regex.is_match(text)))
}

/// The same for the functions that find, which say more of what is wrong.
fn compile_to_find(text: &str) -> Outcome<std::sync::Arc<regex::Regex>> {
    pattern::compiled(text).ok_or_else(|| Fault::new(format!("Illegal regex: {}", pattern::go_error(text))))
}

/// The first match, or an empty text.
pub(in super::super) fn find<'a>(text: &str, pattern: &str) -> Outcome<Value<'a>> {
    let regex = compile_to_find(pattern)?;
    Ok(Value::text(regex.find(text).map_or("", |found| found.as_str())))
}

/// The matches, at most `count` unless that is negative.
pub(in super::super) fn find_all<'a>(text: &str, pattern: &str, count: i64) -> Outcome<Value<'a>> {
    let regex = compile_to_find(pattern)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Ok(Value::texts(regex.find_iter(text).take(count).map(|found| found.as_str())))
}
