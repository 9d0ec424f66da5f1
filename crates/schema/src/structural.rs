//! The schemas of custom resources: compiled from a definition, then used to prune, fill in and check objects.
//!
//! A write goes through [`prune`], [`default`] and [`validate`], in this order; the definition itself is checked by
//! [`definition::validate`] when it is written. The messages are those of Kubernetes, word for word.

mod compile;
mod defaulting;
pub mod definition;
mod embedded;
mod formats;
mod lists;
mod numbers;
mod pattern;
mod pruning;
mod rules;
mod values;

use crate::field::{ErrorKind, FieldError, Path};
use crate::json::Value;
use crate::types::Schema;

pub use compile::compile;
pub use defaulting::{default, default_applied};
pub use pruning::{prune, prune_embedded};
pub(crate) use rules::{Expected, check_expression, conditions, mutation, policy, type_check};
pub use rules::{Findings, Rules};

pub(crate) use formats::{is_cidr, is_match, parse_ip};

/// Everything that is wrong with an object under the schema of its kind, rules in CEL apart.
///
/// With `old`, a value that was already there and did not change is not held against the update.
pub fn validate(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = values::validate("", schema, object, old);
    errors.extend(validate_shape(schema, object, old));
    errors
}

/// The same for an update through the status endpoint, which is checked against the schema of the status alone.
pub fn validate_status(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let status = schema.field("status");
    let mut errors = match (status, object.get("status")) {
        (Some(schema), Some(status)) => {
            values::validate("status", schema, status, old.and_then(|old| old.get("status")))
        }
        _ => Vec::new(),
    };
    errors.extend(validate_shape(schema, object, old));
    errors
}

/// Runs the rules in CEL, after everything else was checked: `errors` is what that found, and is added to.
///
/// Gives what was wrong before and is not held against an update.
pub fn validate_rules(
    rules: &Rules,
    object: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) -> Vec<FieldError> {
    let blocking = |error: &FieldError| {
        matches!(
            error.kind,
            ErrorKind::NotSupported
                | ErrorKind::Required
                | ErrorKind::TooLong
                | ErrorKind::TooMany
                | ErrorKind::TypeInvalid
        )
    };
    if errors.iter().any(blocking) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid(Path::ROOT, Value::Null, detail));
        return Vec::new();
    }
    let found = rules.validate(object, old);
    errors.extend(found.errors);
    found.warnings
}

/// Embedded resources, and lists whose items must be unique.
fn validate_shape(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = embedded::validate(&Path::ROOT, schema, object);
    let already_bad = old.is_some_and(|old| !lists::validate(&Path::ROOT, schema, old).is_empty());
    if !already_bad {
        errors.extend(lists::validate(&Path::ROOT, schema, object));
    }
    errors
}
