//! The strategy of a kind: how its endpoints differ from other kinds, as data.
//!
//! Fields that the server itself sets in objects of built-in kinds are the task of
//! [`evenkeel_schema::prepare`].

use evenkeel_schema::prepare;
use jiff::Timestamp;
use serde_json::Value;

use crate::{ResourceInfo, allocate, crd};

/// The endpoint rules of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strategy {
    /// Whether a PUT creates an object that does not exist.
    pub(crate) creates_on_update: bool,
    /// Whether a PUT without a resourceVersion is accepted.
    pub(crate) unconditional_update: bool,
    /// Whether a deletion returns the object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// Whether dependents are orphaned if the client does not set a propagation policy.
    pub(crate) orphans: bool,
}

impl Strategy {
    /// The strategy of a resource.
    pub(crate) fn of(info: &ResourceInfo) -> Self {
        let (group, kind) = (info.group.as_str(), info.kind.as_str());
        if info.is_custom() {
            return Self {
                creates_on_update: false,
                unconditional_update: false,
                returns_deleted: false,
                orphans: false,
            };
        }
        Self {
            creates_on_update: creates_on_update(group, kind),
            unconditional_update: unconditional_update(group, kind),
            returns_deleted: returns_deleted(kind),
            orphans: matches!((group, kind), ("batch", "Job") | ("", "ReplicationController")),
        }
    }
}

fn creates_on_update(group: &str, kind: &str) -> bool {
    group == "rbac.authorization.k8s.io"
        || matches!(kind, "Lease" | "Service" | "Endpoints" | "Event" | "LimitRange" | "RuntimeClass")
}

fn unconditional_update(group: &str, kind: &str) -> bool {
    let conditional = matches!(group, "admissionregistration.k8s.io" | "apiextensions.k8s.io")
        || matches!(
            kind,
            "Lease"
                | "PodDisruptionBudget"
                | "RuntimeClass"
                | "CSIDriver"
                | "CSINode"
                | "CSIStorageCapacity"
                | "VolumeAttachment"
                | "APIService"
                | "ClusterTrustBundle"
        );
    !conditional
}

fn returns_deleted(kind: &str) -> bool {
    matches!(
        kind,
        "Namespace"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "Pod"
            | "PodTemplate"
            | "ResourceQuota"
            | "Service"
            | "ServiceAccount"
            | "DeviceClass"
            | "ResourceClaim"
            | "ResourceClaimTemplate"
            | "ResourceSlice"
            | "CSIDriver"
            | "CSINode"
            | "StorageClass"
            | "VolumeAttachment"
            | "VolumeAttributesClass"
    )
}

/// Sets and removes the fields that the server controls when an object is created.
pub(crate) fn prepare_create(info: &ResourceInfo, object: &mut Value, now: Timestamp) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_or_remove(&mut object["metadata"], field, Value::Null);
    }
    if !info.is_custom() {
        prepare::create(&info.group, &info.version, &info.kind, object, now);
        if info.kind == "CustomResourceDefinition" {
            crd::prepare(object, None);
        }
        return;
    }
    object["metadata"]["generation"] = 1.into();
    if info.subresource("status").is_some() {
        set_or_remove(object, "status", Value::Null);
    }
}

/// Restores the fields that an update through this endpoint must not change.
pub(crate) fn prepare_update(
    info: &ResourceInfo,
    new: &mut Value,
    old: &Value,
    subresource: &str,
    now: Timestamp,
) {
    keep_metadata(new, old);
    if !info.is_custom() {
        if info.kind == "Service" && subresource.is_empty() {
            allocate::keep_allocated(new, old);
        }
        let kind = prepare::Kind { group: &info.group, version: &info.version, kind: &info.kind };
        prepare::update(kind, new, old, subresource, now);
        if info.kind == "CustomResourceDefinition" && subresource.is_empty() {
            crd::prepare(new, Some(old));
        }
        return;
    }
    match subresource {
        "status" => prepare_custom_status(new, old),
        _ => prepare_custom(info, new, old),
    }
}

/// Prepares an update of a custom resource: keeps the status if it is a subresource, and increments the
/// generation if anything but metadata and status changed.
fn prepare_custom(info: &ResourceInfo, new: &mut Value, old: &Value) {
    if info.subresource("status").is_some() {
        set_or_remove(new, "status", old["status"].clone());
    }
    if content_differs(new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        new["metadata"]["generation"] = (generation + 1).into();
    }
}

/// Prepares an update of a custom resource's status: everything else stays unchanged.
fn prepare_custom_status(new: &mut Value, old: &Value) {
    let status = new["status"].take();
    let managed = new["metadata"]["managedFields"].take();
    *new = old.clone();
    set_or_remove(new, "status", status);
    set_or_remove(&mut new["metadata"], "managedFields", managed);
}

/// Restores the metadata that clients cannot change.
fn keep_metadata(new: &mut Value, old: &Value) {
    let old = &old["metadata"];
    let new = &mut new["metadata"];
    if new["uid"].as_str().unwrap_or_default().is_empty() {
        set_or_remove(new, "uid", old["uid"].clone());
    }
    set_or_remove(new, "creationTimestamp", old["creationTimestamp"].clone());
    set_or_remove(new, "generation", old["generation"].clone());
    if !old["deletionTimestamp"].is_null() {
        set_or_remove(new, "deletionTimestamp", old["deletionTimestamp"].clone());
    }
    if new["deletionGracePeriodSeconds"].is_null() {
        set_or_remove(new, "deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"].clone());
    }
    set_or_remove(new, "selfLink", Value::Null);
}

fn content_differs(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new != old };
    new.len() != old.len() || new.iter().any(|(key, value)| key != "metadata" && old.get(key) != Some(value))
}

/// Sets a field, or removes it if the value is null.
pub(crate) fn set_or_remove(object: &mut Value, field: &str, value: Value) {
    let Some(map) = object.as_object_mut() else { return };
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value);
    }
}
