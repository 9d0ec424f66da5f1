//! The success policy of an indexed Job.

use evenkeel_scalars::go;

use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::read::Read;
use crate::validate::field_rules::non_negative;

const RULES_MAX: usize = 20;
const INDEXES_LENGTH_MAX: usize = 64 * 1024;

/// Validates the success policy of a job's spec.
pub(super) fn check(path: &Path<'_>, spec: &Value, policy: &Value, errors: &mut Vec<FieldError>) {
    if spec.str("completionMode") != "Indexed" {
        let detail = "requires indexed completion mode";
        errors.push(FieldError::invalid(path, BadValue::Printed(printed(policy)), detail));
        return;
    }
    let list = path.child("rules");
    let rules = policy.list("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(list, detail));
    }
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(list, rules.len(), RULES_MAX));
    }
    let completions = spec.int("completions").unwrap_or_default();
    for (index, rule) in rules.iter().enumerate() {
        self::rule(&list.index(index), completions, rule, errors);
    }
}

/// Prints the policy as Go prints its structs.
fn printed(policy: &Value) -> String {
    let field = |rule: &Value, name: &str| rule.at(name).map_or("null".to_owned(), go::json);
    let rule = |rule: &Value| {
        let (indexes, count) = (field(rule, "succeededIndexes"), field(rule, "succeededCount"));
        format!(r#"{{"SucceededIndexes":{indexes},"SucceededCount":{count}}}"#)
    };
    if !policy.has("rules") {
        return r#"{"Rules":null}"#.to_owned();
    }
    let rules: Vec<String> = policy.list("rules").iter().map(rule).collect();
    format!(r#"{{"Rules":[{}]}}"#, rules.join(","))
}

fn rule(path: &Path<'_>, completions: i64, rule: &Value, errors: &mut Vec<FieldError>) {
    let indexes = rule.at("succeededIndexes").and_then(Value::as_str);
    let count = rule.int("succeededCount");
    if indexes.is_none() && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, detail));
    }
    let chosen = indexes.map(|text| {
        let at = path.child("succeededIndexes");
        if text.len() > INDEXES_LENGTH_MAX {
            errors.push(FieldError::too_long(at, INDEXES_LENGTH_MAX));
        }
        count_indexes(text, completions).unwrap_or_else(|why| {
            let detail = format!("error parsing succeededIndexes: {why}");
            errors.push(FieldError::invalid(at, text, detail));
            0
        })
    });
    let Some(count) = count else { return };
    non_negative(rule, path, "succeededCount", errors);
    let at = path.child("succeededCount");
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(FieldError::invalid(at, count, detail));
    }
    if let Some(chosen) = chosen.filter(|chosen| count > *chosen) {
        let detail = format!(
            "must be less than or equal to {chosen} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(FieldError::invalid(at, count, detail));
    }
}

/// Counts the indexes in a list of indexes and intervals, such as `0,2-4`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last) = (0, None);
    for interval in text.split(',') {
        let (first, end) = bounds(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first and last index of an interval. For a single index, both are that index.
pub(super) fn bounds(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {}", go::quote(text))),
        Ok(index) if index >= completions => Err(format!("too large index: {}", go::quote(text))),
        Ok(index) => Ok(index),
    };
    let parts: Vec<&str> = interval.split('-').collect();
    match parts[..] {
        [only] => index(only).map(|index| (index, index)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last {
                return Err(format!("non-increasing order, previous: {first}, current: {last}"));
            }
            Ok((first, last))
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go::quote(interval)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_increase_and_are_below_the_completions() {
        assert_eq!(count_indexes("", 3), Ok(0));
        assert_eq!(count_indexes("0,2-4,9", 10), Ok(5));
        let wrong = [
            ("2-1", "non-increasing order, previous: 2, current: 1"),
            ("3,3", "non-increasing order, previous: 3, current: 3"),
            ("0-9", "too large index: \"9\""),
            ("a", "cannot convert string to integer for index: \"a\""),
            (
                "1-2-3",
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
        ];
        for (text, why) in wrong {
            assert_eq!(count_indexes(text, 5), Err(why.to_owned()), "{text}");
        }
    }
}
