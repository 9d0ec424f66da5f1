//! Events, of the core group and of `events.k8s.io`.

use evenkeel_scalars::go;

use super::field_rules::{IMMUTABLE, qualified};
use crate::field::{BadValue, FieldError, Path};
use crate::json::Value;
use crate::object_meta::{self, NameRule};
use crate::read::Read;

const INSTANCE_MAX: usize = 128;
const NOTE_MAX: usize = 1024;
/// The fields of `events.k8s.io` that an update cannot change, with their names in the core group, which messages use.
const FROZEN: [(&str, &str); 14] = [
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

pub(super) fn create(group: &str, event: &Value) -> Vec<FieldError> {
    let mut errors = legacy(group, event);
    if group.is_empty() {
        return errors;
    }
    errors.extend(object_meta::create_builtin(event, true, NameRule::Subdomain));
    series(event, &mut errors);
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
    let source = event.at("deprecatedSource");
    if !source.str("component").is_empty() || !source.str("host").is_empty() {
        errors.push(FieldError::invalid("source", "", "needs to be unset"));
    }
    errors
}

pub(super) fn update(group: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = legacy(group, new);
    if group.is_empty() {
        return errors;
    }
    errors.extend(object_meta::update_builtin(new, old));
    if new.at("series") != old.at("series") {
        series(new, &mut errors);
    }
    for (field, name) in FROZEN {
        if new.at(field) != old.at(field) {
            errors.push(FieldError::invalid(name, print(name, new.at(field)), IMMUTABLE));
        }
    }
    errors
}

/// Prints a field as Go does, in which strings and structs are never absent.
fn print(name: &str, value: Option<&Value>) -> BadValue {
    match (name, value) {
        ("involvedObject", _) | ("related", Some(_)) => BadValue::Printed(print_reference(value)),
        (_, Some(value)) => BadValue::Value(value.clone()),
        ("related" | "source" | "firstTimestamp" | "lastTimestamp" | "eventTime", None) => {
            BadValue::Value(Value::Null)
        }
        ("count", None) => BadValue::Value(Value::from(0)),
        (_, None) => BadValue::Value(Value::from("")),
    }
}

/// Prints a reference to an object as Go does.
fn print_reference(reference: Option<&Value>) -> String {
    let fields = [
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    let fields =
        fields.map(|(shown, field)| format!("\"{shown}\":{}", go::json(&Value::from(reference.str(field)))));
    format!("{{{}}}", fields.join(","))
}

/// Validates the series of a repeated event.
fn series(event: &Value, errors: &mut Vec<FieldError>) {
    let Some(series) = event.at("series") else { return };
    if series.int("count").unwrap_or_default() < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if !series.has("lastObservedTime") {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn what_happened_does_not_change() {
        let event = |more: Value| {
            let mut event = json!({"metadata": {"name": "e", "namespace": "n", "resourceVersion": "1"}, "reason": "R",
                "regarding": {"kind": "Pod", "namespace": "n", "name": "p"}, "type": "Normal", "action": "A",
                "reportingController": "a.b/c", "reportingInstance": "i", "eventTime": "2024-01-02T03:04:05.000000Z"});
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event
        };
        let told = |more: Value| -> Vec<String> {
            let errors = update("events.k8s.io", &event(more), &event(json!({})));
            errors.iter().map(ToString::to_string).collect()
        };
        assert_eq!(told(json!({})), [""; 0]);
        assert_eq!(
            told(json!({"regarding": {"kind": "Pod", "namespace": "n"}, "eventTime": null})),
            [
                r#"involvedObject: Invalid value: {"Kind":"Pod","Namespace":"n","Name":"","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable"#,
                "eventTime: Invalid value: null: field is immutable"
            ]
        );
    }
}
