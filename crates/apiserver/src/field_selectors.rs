//! Field selectors: the selectable fields of each kind.
//!
//! The values are read once, when an object is encoded for the store; selectors are evaluated on the header.

use evenkeel_schema::json::Value;

use crate::status::quote;

/// A selectable field.
struct Field {
    label: &'static str,
    read: fn(&Value) -> String,
}

/// The selectable fields of a kind, besides `metadata.name` and `metadata.namespace`.
struct Selectable {
    group: &'static str,
    kind: &'static str,
    fields: &'static [Field],
    /// Whether `metadata.namespace` is selectable, too.
    by_namespace: bool,
    /// The error message for a field that is not selectable.
    refusal: fn(&str) -> String,
}

/// The defaults, which hold for most kinds.
const USUAL: Selectable =
    Selectable { group: "", kind: "", fields: &[], by_namespace: true, refusal: not_supported };

fn not_supported(label: &str) -> String {
    format!("field label not supported: {label}")
}

macro_rules! fields {
    ($($label:literal => $read:expr),* $(,)?) => { &[$(Field { label: $label, read: $read }),*] };
}

const KINDS: &[Selectable] = &[
    Selectable {
        kind: "Pod",
        fields: fields! {
            "spec.nodeName" => |o| text(&o["spec"]["nodeName"]),
            "spec.restartPolicy" => |o| text(&o["spec"]["restartPolicy"]),
            "spec.schedulerName" => |o| text(&o["spec"]["schedulerName"]),
            "spec.serviceAccountName" => |o| text(&o["spec"]["serviceAccountName"]),
            "spec.hostNetwork" => |o| boolean(&o["spec"]["hostNetwork"]),
            "status.phase" => |o| text(&o["status"]["phase"]),
            "status.podIP" => |o| text(&o["status"]["podIP"]),
            "status.podIPs" => |o| text(&o["status"]["podIP"]),
            "status.nominatedNodeName" => |o| text(&o["status"]["nominatedNodeName"]),
        },
        ..USUAL
    },
    Selectable {
        kind: "Event",
        fields: fields! {
            "involvedObject.kind" => |o| text(&o["involvedObject"]["kind"]),
            "involvedObject.namespace" => |o| text(&o["involvedObject"]["namespace"]),
            "involvedObject.name" => |o| text(&o["involvedObject"]["name"]),
            "involvedObject.uid" => |o| text(&o["involvedObject"]["uid"]),
            "involvedObject.apiVersion" => |o| text(&o["involvedObject"]["apiVersion"]),
            "involvedObject.resourceVersion" => |o| text(&o["involvedObject"]["resourceVersion"]),
            "involvedObject.fieldPath" => |o| text(&o["involvedObject"]["fieldPath"]),
            "reason" => |o| text(&o["reason"]),
            "reportingComponent" => |o| text(&o["reportingComponent"]),
            "source" => event_source,
            "type" => |o| text(&o["type"]),
        },
        ..USUAL
    },
    Selectable {
        kind: "Node",
        by_namespace: false,
        fields: fields! { "spec.unschedulable" => |o| boolean(&o["spec"]["unschedulable"]) },
        ..USUAL
    },
    Selectable {
        kind: "Namespace",
        by_namespace: false,
        fields: fields! { "status.phase" => |o| text(&o["status"]["phase"]) },
        ..USUAL
    },
    Selectable { kind: "Secret", fields: fields! { "type" => |o| text(&o["type"]) }, ..USUAL },
    Selectable {
        kind: "ReplicationController",
        fields: fields! { "status.replicas" => |o| number(&o["status"]["replicas"]) },
        ..USUAL
    },
    Selectable {
        kind: "Service",
        fields: fields! {
            "spec.clusterIP" => |o| text(&o["spec"]["clusterIP"]),
            "spec.type" => |o| text(&o["spec"]["type"]),
        },
        ..USUAL
    },
    Selectable {
        group: "batch",
        kind: "Job",
        refusal: |label| format!("field label {} not supported for Job", quote(label)),
        fields: fields! { "status.successful" => |o| number(&o["status"]["succeeded"]) },
        ..USUAL
    },
    Selectable {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        by_namespace: false,
        fields: fields! { "spec.signerName" => |o| text(&o["spec"]["signerName"]) },
        ..USUAL
    },
    Selectable {
        group: "resource.k8s.io",
        kind: "ResourceSlice",
        refusal: |label| {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
        },
        fields: fields! {
            "spec.nodeName" => |o| text(&o["spec"]["nodeName"]),
            "spec.driver" => |o| text(&o["spec"]["driver"]),
        },
        ..USUAL
    },
];

fn find(group: &str, kind: &str) -> Option<&'static Selectable> {
    KINDS.iter().find(|it| it.group == group && it.kind == kind)
}

/// Whether a kind has selectable fields.
pub(crate) fn is_selectable(api_version: &str, kind: &str) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    find(group, kind).is_some()
}

/// The values of an object's selectable fields, in the order in which its kind declares them.
pub(crate) fn values(object: &Value) -> Box<[Box<str>]> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default();
    let fields = find(group, kind).map_or(&[][..], |it| it.fields);
    fields.iter().map(|field| (field.read)(object).into_boxed_str()).collect()
}

/// The index of a selectable field's value in the header; `None` if the field is not selectable.
pub(crate) fn position(group: &str, kind: &str, label: &str) -> Option<usize> {
    find(group, kind)?.fields.iter().position(|it| it.label == label)
}

/// Whether objects of a kind can be selected by `metadata.namespace`.
pub(crate) fn is_selectable_by_namespace(group: &str, kind: &str) -> bool {
    find(group, kind).is_none_or(|it| it.by_namespace)
}

/// The error message for a field that is not selectable.
pub(crate) fn refusal(group: &str, kind: &str, label: &str) -> String {
    match find(group, kind) {
        Some(kind) => (kind.refusal)(label),
        None => format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(label)
        ),
    }
}

/// The field label in core/v1 for a field label of `events.k8s.io`, which has other field names.
pub(crate) fn event_label(label: &str) -> Option<&str> {
    let label = match label {
        "regarding.kind" => "involvedObject.kind",
        "regarding.namespace" => "involvedObject.namespace",
        "regarding.name" => "involvedObject.name",
        "regarding.uid" => "involvedObject.uid",
        "regarding.apiVersion" => "involvedObject.apiVersion",
        "regarding.resourceVersion" => "involvedObject.resourceVersion",
        "regarding.fieldPath" => "involvedObject.fieldPath",
        "reportingController" => "reportingComponent",
        "reason" | "type" | "metadata.name" | "metadata.namespace" => label,
        _ => return None,
    };
    Some(label)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Prints a boolean; an unset field is `false`.
fn boolean(value: &Value) -> String {
    value.as_bool().unwrap_or_default().to_string()
}

/// Prints a number; an unset field is zero.
fn number(value: &Value) -> String {
    value.as_i64().unwrap_or_default().to_string()
}

/// As in Kubernetes, the source's component, or the reporting component if that is empty.
fn event_source(event: &Value) -> String {
    let source = text(&event["source"]["component"]);
    if source.is_empty() { text(&event["reportingComponent"]) } else { source }
}
