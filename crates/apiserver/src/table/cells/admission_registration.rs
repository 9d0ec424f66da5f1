//! Rows of admission webhooks, admission policies and their bindings.

use evenkeel_schema::json::Value;

use super::view::{UNSET, View, plain};

pub(super) fn webhook_configuration(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.len("/webhooks").into(), object.age().into()]
}

pub(super) fn validating_policy(object: View<'_>) -> Vec<Value> {
    admission_policy(object, "/spec/validations")
}

pub(super) fn mutating_policy(object: View<'_>) -> Vec<Value> {
    admission_policy(object, "/spec/mutations")
}

fn admission_policy(object: View<'_>, steps: &str) -> Vec<Value> {
    let kind = object.get("/spec/paramKind").map_or_else(
        || UNSET.to_owned(),
        |kind| format!("{}/{}", kind.text("/apiVersion"), kind.text("/kind")),
    );
    vec![object.name().into(), object.len(steps).into(), kind.into(), object.age().into()]
}

pub(super) fn admission_policy_binding(object: View<'_>) -> Vec<Value> {
    let parameter = object.get("/spec/paramRef").map_or_else(|| UNSET.to_owned(), parameter_reference);
    vec![object.name().into(), object.text("/spec/policyName").into(), parameter.into(), object.age().into()]
}

fn parameter_reference(reference: View<'_>) -> String {
    match (reference.text("/name"), reference.get("/selector")) {
        ("", Some(selector)) => raw_selector(selector),
        ("", None) => UNSET.to_owned(),
        (name, _) => format!("{}/{name}", reference.text_or("/namespace", "*")),
    }
}

/// Prints a selector in Go's debug format, which Kubernetes shows only in this column.
fn raw_selector(selector: View<'_>) -> String {
    let labels = selector.map("/matchLabels").into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", plain(value))).collect();
    let expressions: String = selector
        .list("/matchExpressions")
        .map(|item| {
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                item.text("/key"),
                item.text("/operator"),
                item.texts("/values").join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
