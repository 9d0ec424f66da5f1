//! Conditions of the type that most kinds share (`meta/v1.Condition`).

use evenkeel_scalars::go_regex;

use super::field_rules::{named, supported};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;

const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const REASON_RULE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
const REASON_EXAMPLES: [&str; 5] = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
const REASON_MAX: usize = 1024;
const MESSAGE_MAX: usize = 32 * 1024;

/// Validates a list of conditions, each type of which may occur once.
pub(super) fn check(path: &Path<'_>, conditions: &[Value], errors: &mut Vec<FieldError>) {
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let kind = condition.str("type");
        if conditions[..index].iter().any(|it| it.str("type") == kind) {
            errors.push(FieldError::duplicate(at.child("type"), kind));
        }
        named(&at.child("type"), kind, names::qualified_name(kind), errors);
        supported(&at.child("status"), condition.str("status"), &["False", "True", "Unknown"], errors);
        if let Some(generation) = condition.int("observedGeneration").filter(|generation| *generation < 0) {
            let detail = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(at.child("observedGeneration"), generation, detail));
        }
        if !condition.has("lastTransitionTime") {
            errors.push(FieldError::required(at.child("lastTransitionTime"), ""));
        }
        reason(&at.child("reason"), condition.str("reason"), errors);
        if condition.str("message").len() > MESSAGE_MAX {
            errors.push(FieldError::too_long(at.child("message"), MESSAGE_MAX));
        }
    }
}

fn reason(path: &Path<'_>, reason: &str, errors: &mut Vec<FieldError>) {
    if reason.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if !go_regex::is_match(&format!("^{REASON}$"), reason) {
        let detail = names::regex_error(REASON_RULE, REASON, &REASON_EXAMPLES);
        errors.push(FieldError::invalid(path, reason, detail));
    }
    if reason.len() > REASON_MAX {
        errors.push(FieldError::too_long(path, REASON_MAX));
    }
}
