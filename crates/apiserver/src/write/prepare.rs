//! The fields of an object that the server controls.

use evenkeel_schema::json::Value;
use evenkeel_schema::prepare;
use jiff::Timestamp;

use crate::members::set_or_remove;
use crate::{ResourceInfo, allocate, crd};

/// Sets and removes the fields that the server controls when an object is created.
pub(super) fn prepare_create(info: &ResourceInfo, object: &mut Value, now: Timestamp) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_or_remove(&mut object["metadata"], field, Value::Null);
    }
    if !info.is_custom() {
        prepare::create(&info.group, &info.version, &info.kind, object, now);
        if info.strategy.declares_resources {
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
pub(super) fn prepare_update(
    info: &ResourceInfo,
    new: &mut Value,
    old: &Value,
    subresource: &str,
    now: Timestamp,
) {
    keep_metadata(new, old);
    if !info.is_custom() {
        if info.strategy.allocates_addresses && subresource.is_empty() {
            allocate::keep_allocated(new, old);
        }
        let kind = prepare::GroupVersionKind { group: &info.group, version: &info.version, kind: &info.kind };
        prepare::update(kind, new, old, subresource, now);
        if info.strategy.declares_resources && subresource.is_empty() {
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
