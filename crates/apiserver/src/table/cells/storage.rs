//! Rows of volumes, claims, classes and storage drivers.

use evenkeel_schema::json::Value;

use super::view::{NONE, UNSET, View};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) fn persistent_volume(object: View<'_>) -> Vec<Value> {
    let claim = object
        .get("/spec/claimRef")
        .map_or_else(String::new, |claim| format!("{}/{}", claim.text("/namespace"), claim.text("/name")));
    vec![
        object.name().into(),
        object.quantity("/spec/capacity/storage").into(),
        access_modes(object, "/spec/accessModes").into(),
        object.text("/spec/persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        storage_class_name(object).into(),
        object.maybe_text("/spec/volumeAttributesClassName").unwrap_or(UNSET).into(),
        object.text("/status/reason").into(),
        object.age().into(),
        object.maybe_text("/spec/volumeMode").unwrap_or(UNSET).into(),
    ]
}

pub(super) fn persistent_volume_claim(object: View<'_>) -> Vec<Value> {
    let bound = !object.text("/spec/volumeName").is_empty();
    let capacity = if bound { object.quantity("/status/capacity/storage") } else { String::new() };
    let modes = if bound { access_modes(object, "/status/accessModes") } else { String::new() };
    vec![
        object.name().into(),
        phase(object).into(),
        object.text("/spec/volumeName").into(),
        capacity.into(),
        modes.into(),
        storage_class_name(object).into(),
        object.maybe_text("/spec/volumeAttributesClassName").unwrap_or(UNSET).into(),
        object.age().into(),
        object.maybe_text("/spec/volumeMode").unwrap_or(UNSET).into(),
    ]
}

fn phase(object: View<'_>) -> &str {
    if object.deleting() { "Terminating" } else { object.text("/status/phase") }
}

fn storage_class_name(object: View<'_>) -> &str {
    object.annotation(CLASS_ANNOTATION).unwrap_or_else(|| object.text("/spec/storageClassName"))
}

/// The access modes in their short forms, in a fixed order.
fn access_modes(object: View<'_>, pointer: &str) -> String {
    let modes = object.texts(pointer);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let present = short.iter().filter(|(mode, _)| modes.contains(mode));
    present.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

pub(super) fn storage_class(object: View<'_>) -> Vec<Value> {
    let is_default = DEFAULT_ANNOTATIONS.iter().any(|key| object.annotation(key) == Some("true"));
    let suffix = if is_default { " (default)" } else { "" };
    vec![
        format!("{}{suffix}", object.name()).into(),
        object.text("/provisioner").into(),
        object.maybe_text("/reclaimPolicy").unwrap_or("Delete").into(),
        object.maybe_text("/volumeBindingMode").unwrap_or("Immediate").into(),
        object.flag("/allowVolumeExpansion").into(),
        object.age().into(),
    ]
}

pub(super) fn volume_attributes_class(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.text("/driverName").into(), object.age().into()]
}

pub(super) fn volume_attachment(object: View<'_>) -> Vec<Value> {
    vec![
        object.name().into(),
        object.text("/spec/attacher").into(),
        object.text("/spec/source/persistentVolumeName").into(),
        object.text("/spec/nodeName").into(),
        object.flag("/status/attached").into(),
        object.age().into(),
    ]
}

pub(super) fn csi_node(object: View<'_>) -> Vec<Value> {
    vec![object.name().into(), object.len("/spec/drivers").into(), object.age().into()]
}

pub(super) fn csi_driver(object: View<'_>) -> Vec<Value> {
    let tokens = object.get("/spec/tokenRequests").map_or_else(
        || UNSET.to_owned(),
        |_| {
            let requests = object.list("/spec/tokenRequests");
            requests.map(|request| request.text("/audience")).collect::<Vec<_>>().join(",")
        },
    );
    let modes = object.texts("/spec/volumeLifecycleModes").join(",");
    vec![
        object.name().into(),
        object.maybe_flag("/spec/attachRequired").unwrap_or(true).into(),
        object.flag("/spec/podInfoOnMount").into(),
        object.flag("/spec/storageCapacity").into(),
        tokens.into(),
        object.flag("/spec/requiresRepublish").into(),
        if modes.is_empty() { NONE.into() } else { modes.into() },
        object.age().into(),
    ]
}
