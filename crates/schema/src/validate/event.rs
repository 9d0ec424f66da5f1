//! Events, in their old form and in the one of `events.k8s.io`.

use super::field_rules::{immutable, qualified};
use super::metadata::{self, NameRule};
use crate::field::{FieldError, Path};
use crate::json::Value;
use crate::read::Read;

const INSTANCE_MAX: usize = 128;
const NOTE_MAX: usize = 1024;
/// What may not change in the new form, by its own names.
const FROZEN: [(&str, &str); 11] = [
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("reportingController", "reportingController"),
];

pub(super) fn create(group: &str, event: &Value) -> Vec<FieldError> {
    let mut errors = legacy(group, event);
    if group.is_empty() {
        return errors;
    }
    errors.extend(metadata::create_builtin(event, true, NameRule::Subdomain));
    if !event.has("eventTime") {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = event.str("type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    for (field, name) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ] {
        if event.at(field).is_some_and(|value| value != 0) {
            errors.push(FieldError::invalid(name, "", "needs to be unset"));
        }
    }
    errors
}

pub(super) fn update(group: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = legacy(group, new);
    if group.is_empty() {
        return errors;
    }
    errors.extend(metadata::update_builtin(new, old));
    for (field, name) in FROZEN {
        immutable(&Path::new(name), new.at(field), old.at(field), &mut errors);
    }
    errors
}

fn legacy(group: &str, event: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (object, controller, message) = match group.is_empty() {
        true => ("involvedObject", "reportingComponent", "message"),
        false => ("regarding", "reportingController", "note"),
    };
    let namespace = event.at("metadata").str("namespace");
    let about = event.at(object).str("namespace");
    let mut mismatch = || {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", about, detail));
    };
    if !event.has("eventTime") {
        let fits = if about.is_empty() { matches!(namespace, "" | "default") } else { namespace == about };
        if !fits {
            mismatch();
        }
        return errors;
    }
    if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
        mismatch();
    }
    let name = event.str(controller);
    if name.is_empty() {
        errors.push(FieldError::required(controller, ""));
    }
    qualified(&Path::new(controller), name, &mut errors);
    let instance = event.str("reportingInstance");
    if instance.is_empty() {
        errors.push(FieldError::required("reportingInstance", ""));
    }
    if instance.len() > INSTANCE_MAX {
        let detail = format!("can have at most {INSTANCE_MAX} characters");
        errors.push(FieldError::invalid("reportingInstance", "", detail));
    }
    for field in ["action", "reason"] {
        let text = event.str(field);
        if text.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        if text.len() > INSTANCE_MAX {
            let detail = format!("can have at most {INSTANCE_MAX} characters");
            errors.push(FieldError::invalid(field, "", detail));
        }
    }
    if event.str(message).len() > NOTE_MAX {
        errors.push(FieldError::invalid("message", "", format!("can have at most {NOTE_MAX} characters")));
    }
    errors
}
