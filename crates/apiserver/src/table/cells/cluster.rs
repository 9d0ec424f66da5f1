//! Rows of namespaces, nodes, configuration, quotas, leases, events, RBAC bindings, certificates, flow control, priorities
//! and device claims.

use std::collections::BTreeSet;

use evenkeel_schema::json::Value;

use super::view::{NONE, View};
use crate::table::age;

const UNKNOWN: &str = "<unknown>";

/// The row of a kind that shows only its name and age.
pub(super) fn name_and_age(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.age().into()]
}

pub(super) fn namespace(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.text("/status/phase").into(), object.age().into()]
}

pub(super) fn config_map(object: View<'_>) -> Vec<Value> {
    let entries = object.len("/data") + object.len("/binaryData");
    vec![object.name().into(), entries.into(), object.age().into()]
}

pub(super) fn secret(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.text("/type").into(), object.len("/data").into(), object.age().into()]
}

pub(super) fn lease(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.text("/spec/holderIdentity").into(), object.age().into()]
}

pub(super) fn component_status(object: View<'_>) -> Vec<Value> {
    let healthy = object.condition("/conditions", "Healthy");
    let status = match healthy.map(|condition| condition.text("/status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let text = |pointer| healthy.map_or("", |condition| condition.text(pointer));
    vec![object.name().into(), status.into(), text("/message").into(), text("/error").into()]
}

pub(super) fn resource_quota(object: View<'_>) -> Vec<Value> {
    let mut requests = Vec::new();
    let mut limits = Vec::new();
    let used = object.get("/status/used");
    for (resource, hard) in object.map("/status/hard").into_iter().flatten() {
        let used =
            used.and_then(|used| used.value.get(resource)).map_or_else(|| "0".to_owned(), super::view::plain);
        let line = format!("{resource}: {used}/{}", super::view::plain(hard));
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(line);
    }
    vec![object.name().into(), requests.join(", ").into(), limits.join(", ").into(), object.age().into()]
}

pub(super) fn node(object: View<'_>) -> Vec<Value> {
    let info = |field: &str| object.text(&format!("/status/nodeInfo/{field}"));
    let known = |field: &str| match info(field) {
        "" => UNKNOWN.to_owned(),
        text => text.to_owned(),
    };
    let kernel = match info("architecture") {
        "" => known("kernelVersion"),
        architecture => format!("{} ({architecture})", known("kernelVersion")),
    };
    vec![
        object.name().into(),
        node_status(object).into(),
        node_roles(object).into(),
        object.age().into(),
        info("kubeletVersion").into(),
        node_address(object, "InternalIP").into(),
        node_address(object, "ExternalIP").into(),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]
}

fn node_status(node: View<'_>) -> String {
    let ready = node.list("/status/conditions").rfind(|condition| condition.text("/type") == "Ready");
    let status = match ready.map(|condition| condition.text("/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match node.flag("/spec/unschedulable") {
        true => format!("{status},SchedulingDisabled"),
        false => status.to_owned(),
    }
}

fn node_roles(node: View<'_>) -> String {
    let labels = node.map("/metadata/labels").into_iter().flatten();
    let roles: BTreeSet<_> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn node_address<'a>(node: View<'a>, kind: &str) -> &'a str {
    let address = node.list("/status/addresses").find(|address| address.text("/type") == kind);
    address.map_or(NONE, |address| address.text("/address"))
}

/// The row of an Event of either API: the core API, or `events.k8s.io` with its renamed fields.
pub(super) fn event(object: View<'_>) -> Vec<Value> {
    let first = match known_since(object, ["/firstTimestamp", "/deprecatedFirstTimestamp"]) {
        Some(first) => first,
        None => object.since("/eventTime"),
    };
    let last = known_since(object, ["/lastTimestamp", "/deprecatedLastTimestamp"]);
    let last = match object.get("/series") {
        Some(series) => series.since("/lastObservedTime"),
        None => last.unwrap_or_else(|| first.clone()),
    };
    let count = match object.get("/series") {
        Some(series) => series.int("/count"),
        None => object.int("/count").max(object.int("/deprecatedCount")).max(1),
    };
    let subject = object.get("/involvedObject").or_else(|| object.get("/regarding"));
    let part = |pointer| subject.map_or("", |subject| subject.text(pointer));
    let target = match part("/name") {
        "" => part("/kind").to_lowercase(),
        name => format!("{}/{name}", part("/kind").to_lowercase()),
    };
    vec![
        last.into(),
        object.text("/type").into(),
        object.text("/reason").into(),
        target.into(),
        part("/fieldPath").into(),
        event_source(object).into(),
        object.text_or("/message", object.text("/note")).trim().into(),
        first.into(),
        count.into(),
        object.name().into(),
    ]
}

fn known_since(object: View<'_>, pointers: [&str; 2]) -> Option<String> {
    let pointer = pointers.into_iter().find(|pointer| object.time(pointer).is_some())?;
    Some(object.since(pointer))
}

fn event_source(event: View<'_>) -> String {
    let source = event.get("/source").or_else(|| event.get("/deprecatedSource"));
    let part = |pointer| source.map_or("", |source| source.text(pointer));
    let reporter = event.text_or("/reportingComponent", event.text("/reportingController"));
    let component = if part("/component").is_empty() { reporter } else { part("/component") };
    let instance = if part("/host").is_empty() { event.text("/reportingInstance") } else { part("/host") };
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

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
