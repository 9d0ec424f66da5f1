//! Rows of RBAC bindings, admission, certificates, flow control, priorities and device claims.

use serde_json::Value;

use super::view::{NONE, UNSET, View, plain};
use crate::table::age;

pub(super) fn role_binding(object: View<'_>) -> Vec<Value> {
    let subjects = |kind: &str| {
        let matching = object.list("/subjects").filter(move |subject| subject.text("/kind") == kind);
        matching.map(subject_name).collect::<Vec<_>>().join(", ")
    };
    vec![
        object.name().into(),
        format!("{}/{}", object.text("/roleRef/kind"), object.text("/roleRef/name")).into(),
        object.age().into(),
        subjects("User").into(),
        subjects("Group").into(),
        subjects("ServiceAccount").into(),
    ]
}

fn subject_name(subject: View<'_>) -> String {
    match subject.text("/kind") {
        "ServiceAccount" => format!("{}/{}", subject.text("/namespace"), subject.text("/name")),
        _ => subject.text("/name").to_owned(),
    }
}

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

/// Prints a selector in Go's debug form, which Kubernetes shows in this column only.
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

pub(super) fn certificate_signing_request(object: View<'_>) -> Vec<Value> {
    let duration = object.maybe_int("/spec/expirationSeconds");
    vec![
        object.name().into(),
        object.age().into(),
        object.text_or("/spec/signerName", NONE).into(),
        object.text("/spec/username").into(),
        duration.map_or_else(|| NONE.to_owned(), age::human).into(),
        certificate_status(object).into(),
    ]
}

fn certificate_status(request: View<'_>) -> String {
    let has = |kind| request.condition("/status/conditions", kind).is_some();
    let mut status = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !request.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    status
}

pub(super) fn flow_schema(object: View<'_>) -> Vec<Value> {
    let dangling = object.condition("/status/conditions", "Dangling");
    vec![
        object.name().into(),
        object.text("/spec/priorityLevelConfiguration/name").into(),
        object.int("/spec/matchingPrecedence").into(),
        object.maybe_text("/spec/distinguisherMethod/type").unwrap_or(NONE).into(),
        object.age().into(),
        dangling.map_or("?", |condition| condition.text("/status")).into(),
    ]
}

pub(super) fn priority_level(object: View<'_>) -> Vec<Value> {
    let limited = object.get("/spec/limited");
    let queuing = limited.and_then(|limited| limited.get("/limitResponse/queuing"));
    let number =
        |part: Option<View<'_>>, pointer| part.map_or(Value::from(NONE), |part| part.int(pointer).into());
    vec![
        object.name().into(),
        object.text("/spec/type").into(),
        number(limited, "/nominalConcurrencyShares"),
        number(queuing, "/queues"),
        number(queuing, "/handSize"),
        number(queuing, "/queueLengthLimit"),
        object.age().into(),
    ]
}

pub(super) fn priority_class(object: View<'_>) -> Vec<Value> {
    vec![
        object.name().into(),
        object.int("/value").into(),
        object.flag("/globalDefault").into(),
        object.age().into(),
        object.text("/preemptionPolicy").into(),
    ]
}

pub(super) fn runtime_class(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.text("/handler").into(), object.age().into()]
}

pub(super) fn resource_claim(object: View<'_>) -> Vec<Value> {
    let mut states = Vec::new();
    if object.deleting() {
        states.push("deleted");
    }
    if object.has("/status/allocation") {
        states.push("allocated");
        if object.len("/status/reservedFor") > 0 {
            states.push("reserved");
        }
    } else if !object.deleting() {
        states.push("pending");
    }
    vec![object.name().into(), states.join(",").into(), object.age().into()]
}

pub(super) fn resource_slice(object: View<'_>) -> Vec<Value> {
    vec![
        object.name().into(),
        object.text("/spec/nodeName").into(),
        object.text("/spec/driver").into(),
        object.text("/spec/pool/name").into(),
        object.age().into(),
    ]
}

pub(super) fn api_service(object: View<'_>) -> Vec<Value> {
    let service = object.get("/spec/service").map_or_else(
        || "Local".to_owned(),
        |service| format!("{}/{}", service.text("/namespace"), service.text("/name")),
    );
    let available = object.condition("/status/conditions", "Available").map_or_else(
        || "Unknown".to_owned(),
        |condition| match (condition.text("/status"), condition.text("/reason")) {
            ("True", _) => "True".to_owned(),
            (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    );
    vec![object.name().into(), service.into(), available.into(), object.age().into()]
}
