//! The structural schemas of custom resources: compiled from a CustomResourceDefinition, then used to prune, default and
//! validate objects.
//!
//! A write goes through [`prune`], [`coerce`], [`default`] and [`validate`], in this order. [`definition::validate`] checks the
//! definition itself. The messages are those of Kubernetes, word for word.

mod compile;
mod defaulting;
pub mod definition;
mod embedded;
mod lists;
mod numbers;
mod pruning;
mod rules;
mod values;

use crate::field::{ErrorKind, FieldError, Path};
use crate::json::Value;
use crate::types::Schema;

pub use compile::compile;
pub use defaulting::{default, default_applied, drop_nulls};
pub use embedded::coerce;
pub use pruning::{prune, prune_embedded};
pub use rules::{RuleFindings, Rules};

/// Validates an object against its schema. [`validate_rules`] runs the CEL rules.
///
/// With `old`, the errors of values that the update does not change are dropped (ratcheting).
pub fn validate(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = values::validate("", schema, object, old);
    errors.extend(validate_shape(schema, object, old));
    errors
}

/// Validates an update through the status subresource, which is checked against the schema of `status` alone.
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

/// Runs the CEL rules of a schema. `errors` holds the errors of [`validate`], and the rules' errors are added to it.
///
/// Returns the errors of values that the update does not change: they become warnings.
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

/// Validates embedded resources, and lists whose items must be unique.
fn validate_shape(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = embedded::validate(&Path::ROOT, schema, object);
    let already_bad = old.is_some_and(|old| !lists::validate(&Path::ROOT, schema, old).is_empty());
    if !already_bad {
        errors.extend(lists::validate(&Path::ROOT, schema, object));
    }
    errors
}
