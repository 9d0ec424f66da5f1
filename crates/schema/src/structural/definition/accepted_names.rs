//! Validates the names of a definition: plural, singular, kind, list kind, short names and categories.

use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::names;
use crate::read::Read;

pub(super) fn required_names(path: &Path<'_>, spec: &Value, errors: &mut Vec<FieldError>) {
    for name in ["plural", "singular", "kind", "listKind"] {
        if spec.at("names").str(name).is_empty() {
            errors.push(FieldError::required(path.child(name), ""));
        }
    }
}

pub(super) fn check_names(path: &Path<'_>, names: &Value, errors: &mut Vec<FieldError>) {
    for name in ["plural", "singular"] {
        label(&path.child(name), names.str(name), "", errors);
    }
    for name in ["kind", "listKind"] {
        label(
            &path.child(name),
            names.str(name),
            "may have mixed case, but should otherwise match: ",
            errors,
        );
    }
    let short_names = path.child("shortNames");
    for (index, name) in names.strs("shortNames").into_iter().enumerate() {
        label_required(&short_names.index(index), name, name, "", errors);
    }
    let kind = names.str("kind");
    if !kind.is_empty() && kind == names.str("listKind") {
        errors.push(FieldError::invalid(
            path.child("listKind"),
            kind,
            "kind and listKind may not be the same",
        ));
    }
    let categories = path.child("categories");
    for (index, name) in names.strs("categories").into_iter().enumerate() {
        label_required(&categories.index(index), name, name, "", errors);
    }
}

fn label(path: &Path<'_>, text: &str, prefix: &str, errors: &mut Vec<FieldError>) {
    if !text.is_empty() {
        let checked = if prefix.is_empty() { text.to_owned() } else { text.to_lowercase() };
        label_required(path, text, &checked, prefix, errors);
    }
}

fn label_required(path: &Path<'_>, text: &str, checked: &str, prefix: &str, errors: &mut Vec<FieldError>) {
    let wrong = names::dns1035_label(checked);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(path, text, format!("{prefix}{}", wrong.join(","))));
    }
}
