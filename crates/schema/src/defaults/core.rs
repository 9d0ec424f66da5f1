//! The core API group. Larger types have files of their own.

mod container;
mod image;
mod pod;
mod pod_resources;
mod service;
mod volume;

use super::{Object, child, is_absent, is_empty, items, set, set_number, set_text, text};
use crate::json::Value;
use crate::read::Read;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn rules(name: &str, object: &mut Object, old: Option<&Value>) {
    match name {
        "Pod" => pod::pod(object, old),
        "PodSpec" => pod::pod_spec(object),
        "Container" | "EphemeralContainer" => container::container(object),
        "ContainerPort" => set_text(object, "protocol", "TCP"),
        "Probe" => container::probe(object),
        "HTTPGetAction" => container::http_get(object),
        "GRPCAction" => set(object, "service", ""),
        "ObjectFieldSelector" => set_text(object, "apiVersion", "v1"),
        "Volume" => volume::volume(object),
        "ReplicationController" => replication_controller(object),
        "Service" => service::service(object),
        // `prepare` writes `stringData` into `data`: that is part of the conversion, not a default.
        "Secret" => set_text(object, "type", "Opaque"),
        "PersistentVolumeClaim" => set_text(child(object, "status"), "phase", "Pending"),
        "PersistentVolumeClaimSpec" => set(object, "volumeMode", "Filesystem"),
        "PersistentVolume" => persistent_volume(object),
        "Namespace" => namespace(object),
        "NamespaceStatus" => set_text(object, "phase", "Active"),
        "NodeSpec" => node_spec(object),
        "NodeStatus" => node_status(object),
        "LimitRangeItem" => limit_range_item(object),
        "EndpointPort" => set_text(object, "protocol", "TCP"),
        _ => volume::source(name, object),
    }
}

/// Sets the label that carries the namespace's name.
fn namespace(object: &mut Object) {
    let metadata = child(object, "metadata");
    let name = text(metadata, "name").to_owned();
    if !name.is_empty() {
        child(metadata, "labels").insert(NAME_LABEL.into(), Value::from(name));
    }
    child(object, "status");
}

/// Takes the selector and the labels from the template.
fn replication_controller(object: &mut Object) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    let labels = spec.get("template").at("metadata").at("labels").cloned();
    let Some(labels) = labels.filter(Value::is_object) else { return };
    if is_empty(spec, "selector") {
        spec.insert("selector".into(), labels.clone());
    }
    let metadata = child(object, "metadata");
    if is_empty(metadata, "labels") {
        metadata.insert("labels".into(), labels);
    }
}

fn persistent_volume(object: &mut Object) {
    set_text(child(object, "status"), "phase", "Pending");
    let spec = child(object, "spec");
    set_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
}

/// Makes `podCIDR` and the first of `podCIDRs` agree; `podCIDR` wins.
fn node_spec(spec: &mut Object) {
    let first = spec.get("podCIDRs").and_then(|list| list.get(0)).and_then(Value::as_str).map(str::to_owned);
    let single = spec.get("podCIDR").and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned);
    match (single, first) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            spec.insert("podCIDRs".into(), Value::from(vec![single]));
        }
        (None, Some(first)) => drop(spec.insert("podCIDR".into(), first.into())),
        _ => {}
    }
}

/// Makes the whole capacity allocatable unless the kubelet says otherwise.
fn node_status(status: &mut Object) {
    if is_absent(status, "allocatable")
        && let Some(capacity) = status.get("capacity").cloned().filter(|capacity| !capacity.is_null())
    {
        status.insert("allocatable".into(), capacity);
    }
}

/// Fills in a container's limits and requests from one another.
fn limit_range_item(item: &mut Object) {
    if text(item, "type") != "Container" {
        return;
    }
    fill_in(item, "default", "max");
    fill_in(item, "defaultRequest", "default");
    fill_in(item, "defaultRequest", "min");
}

fn fill_in(item: &mut Object, target: &str, source: &str) {
    let Some(Value::Object(source)) = item.get(source).cloned() else { return };
    let target = child(item, target);
    for (name, quantity) in source {
        target.entry(name).or_insert(quantity);
    }
}
