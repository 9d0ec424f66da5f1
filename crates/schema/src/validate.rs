//! What Kubernetes checks before it stores an object of a built-in kind.
//!
//! [`validate`] is the whole list for one write, in the order and the multiplicity that Kubernetes reports: an
//! update is held to the rules of every kind first and to those of its own kind after, so a cause may be there
//! twice. Custom resources use [`metadata`] and `structural`.

pub mod metadata;

use metadata::NameRule;

use crate::field::FieldError;
use crate::json::Value;
use crate::kinds;

/// Everything that is wrong with an object that is created (`old` is none) or updated.
///
/// `subresource` is empty for the object itself, else the name of what was written to (`status`, …).
pub fn validate(
    group: &str,
    version: &str,
    kind: &str,
    object: &Value,
    old: Option<&Value>,
    subresource: &str,
) -> Vec<FieldError> {
    if (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition") {
        return definition(object, old, subresource);
    }
    let namespaced = kinds::by_kind(group, version, kind).is_some_and(kinds::Resource::namespaced);
    let rule = NameRule::of(group, kind);
    let Some(old) = old else {
        let errors = metadata::create_builtin(object, namespaced, rule);
        return match errors.is_empty() {
            true => metadata::create(object, namespaced, NameRule::PathSegment),
            false => errors,
        };
    };
    let mut errors = metadata::create(object, namespaced, NameRule::PathSegment);
    errors.extend(metadata::update(object, old));
    errors.extend(metadata::update_builtin(object, old));
    let _ = subresource;
    errors
}

fn definition(object: &Value, old: Option<&Value>, subresource: &str) -> Vec<FieldError> {
    let Some(old) = old else { return crate::structural::definition::validate(object, None) };
    let mut errors = metadata::create(object, false, NameRule::PathSegment);
    errors.extend(metadata::update(object, old));
    match subresource {
        "" => errors.extend(crate::structural::definition::validate(object, Some(old))),
        _ => errors.extend(metadata::update(object, old)),
    }
    errors
}
