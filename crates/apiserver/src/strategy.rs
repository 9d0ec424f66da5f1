//! What differs between kinds on the way of a write, as data.
//!
//! A strategy says which parts of an object a writer may set through which endpoint, when the generation counts up,
//! and what the server fills in by itself.

mod pod;

use serde_json::{Map, Value, json};

use crate::ResourceInfo;

/// What moves `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The kind has none.
    None,
    /// A change of the spec.
    Spec,
    /// A change of the spec or of the annotations.
    SpecAndAnnotations,
    /// A change of anything but metadata and status.
    Content,
    /// A change of anything but metadata, of the status too.
    ContentAndStatus,
}

/// The rules of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strategy {
    pub(crate) generation: Generation,
    /// Whether the status is written by its own endpoint alone.
    pub(crate) owns_status: bool,
    /// Whether the status endpoint leaves labels, annotations, finalizers and owners alone.
    pub(crate) status_keeps_metadata: bool,
    /// Whether a PUT to a name that does not exist creates it.
    pub(crate) creates_on_update: bool,
    /// Whether a PUT without a resourceVersion is taken.
    pub(crate) unconditional_update: bool,
    /// Whether a deletion answers with the object and not with a Status.
    pub(crate) returns_deleted: bool,
    /// Whether dependents stay when the client does not say what to do with them.
    pub(crate) orphans: bool,
}

impl Strategy {
    /// The rules of a resource.
    pub(crate) fn of(info: &ResourceInfo) -> Self {
        let (group, kind) = (info.group.as_str(), info.kind.as_str());
        let has_status = info.subresource("status").is_some();
        if info.is_custom() {
            return Self {
                generation: if has_status { Generation::Content } else { Generation::ContentAndStatus },
                owns_status: has_status,
                status_keeps_metadata: true,
                creates_on_update: false,
                unconditional_update: false,
                returns_deleted: false,
                orphans: false,
            };
        }
        Self {
            generation: generation(kind),
            owns_status: has_status,
            status_keeps_metadata: status_keeps_metadata(kind),
            creates_on_update: creates_on_update(group, kind),
            unconditional_update: unconditional_update(group, kind),
            returns_deleted: returns_deleted(kind),
            orphans: matches!((group, kind), ("batch", "Job") | ("", "ReplicationController")),
        }
    }
}

fn generation(kind: &str) -> Generation {
    match kind {
        "Deployment" => Generation::SpecAndAnnotations,
        "DaemonSet"
        | "ReplicaSet"
        | "StatefulSet"
        | "ReplicationController"
        | "CronJob"
        | "Job"
        | "Pod"
        | "Ingress"
        | "IngressClass"
        | "NetworkPolicy"
        | "PodDisruptionBudget"
        | "FlowSchema"
        | "PriorityLevelConfiguration"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding"
        | "MutatingAdmissionPolicy"
        | "MutatingAdmissionPolicyBinding"
        | "DeviceClass"
        | "ResourceSlice"
        | "CustomResourceDefinition" => Generation::Spec,
        "EndpointSlice"
        | "PodTemplate"
        | "MutatingWebhookConfiguration"
        | "ValidatingWebhookConfiguration"
        | "PriorityClass" => Generation::Content,
        _ => Generation::None,
    }
}

fn status_keeps_metadata(kind: &str) -> bool {
    matches!(
        kind,
        "ValidatingAdmissionPolicy"
            | "ServiceCIDR"
            | "ResourceClaim"
            | "VolumeAttachment"
            | "CustomResourceDefinition"
    )
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

/// What the server sets when an object is created: the status is not the client's, the generation starts at 1.
pub(crate) fn prepare_create(info: &ResourceInfo, strategy: &Strategy, object: &mut Value) {
    if strategy.generation == Generation::None {
        remove_metadata(object, "generation");
    } else {
        object["metadata"]["generation"] = 1.into();
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        remove_metadata(object, field);
    }
    if strategy.owns_status {
        initial_status(info, object);
    }
    match (info.group.as_str(), info.kind.as_str()) {
        ("", "Pod") => pod::prepare_create(object),
        ("", "Namespace") => namespace_finalizer(object),
        _ => {}
    }
}

fn initial_status(info: &ResourceInfo, object: &mut Value) {
    let status = match (info.group.as_str(), info.kind.as_str()) {
        // A node registers itself together with its status.
        ("", "Node") => return,
        ("", "Namespace") => json!({"phase": "Active"}),
        ("", "PersistentVolume" | "PersistentVolumeClaim") => json!({"phase": "Pending"}),
        ("", "Service") => json!({"loadBalancer": {}}),
        ("networking.k8s.io", "Ingress") => json!({"loadBalancer": {}}),
        _ => Value::Null,
    };
    set_or_remove(object, "status", status);
}

/// A namespace is emptied before it goes: this finalizer is in its spec, not in its metadata.
fn namespace_finalizer(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    let mut finalizers = spec["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|it| it == "kubernetes") {
        finalizers.push("kubernetes".into());
    }
    spec["finalizers"] = finalizers.into();
}

/// What the server keeps from the old object when an update comes through the main endpoint.
pub(crate) fn prepare_update(info: &ResourceInfo, strategy: &Strategy, new: &mut Value, old: &Value) {
    keep_metadata(new, old);
    if strategy.owns_status {
        set_or_remove(new, "status", old["status"].clone());
    }
    if (info.group.as_str(), info.kind.as_str()) == ("", "Namespace") {
        // The content's finalizers go through `/finalize` alone.
        let finalizers = old["spec"]["finalizers"].clone();
        if !new["spec"].is_object() {
            new["spec"] = Value::Object(Map::new());
        }
        set_or_remove(&mut new["spec"], "finalizers", finalizers);
    }
    if moves_generation(strategy.generation, new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        new["metadata"]["generation"] = (generation + 1).into();
    }
}

/// What the server keeps from the old object when an update comes through the status endpoint: all but the status.
pub(crate) fn prepare_status(info: &ResourceInfo, strategy: &Strategy, new: &mut Value, old: &Value) {
    keep_metadata(new, old);
    if strategy.status_keeps_metadata {
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            set_or_remove(&mut new["metadata"], field, old["metadata"][field].clone());
        }
    }
    match (info.group.as_str(), info.kind.as_str()) {
        ("apps", "Deployment") => {
            set_or_remove(&mut new["metadata"], "labels", old["metadata"]["labels"].clone());
        }
        ("", "Pod") => pod::prepare_status(new, old),
        _ => {}
    }
    let status = new["status"].clone();
    keep_content(new, old, &["status"]);
    set_or_remove(new, "status", status);
}

/// Replaces everything but metadata and what is named by the old object's.
pub(crate) fn keep_content(new: &mut Value, old: &Value, but: &[&str]) {
    let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) else { return };
    let free = |key: &str| key == "metadata" || key == "apiVersion" || key == "kind" || but.contains(&key);
    new.retain(|key, _| free(key));
    for (key, value) in old.iter().filter(|(key, _)| !free(key)) {
        new.insert(key.clone(), value.clone());
    }
}

/// The metadata that is never the client's to change.
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

fn moves_generation(rule: Generation, new: &Value, old: &Value) -> bool {
    match rule {
        Generation::None => false,
        Generation::Spec => new["spec"] != old["spec"],
        Generation::SpecAndAnnotations => {
            new["spec"] != old["spec"] || new["metadata"]["annotations"] != old["metadata"]["annotations"]
        }
        Generation::Content => content_differs(new, old, &["metadata", "status"]),
        Generation::ContentAndStatus => content_differs(new, old, &["metadata"]),
    }
}

fn content_differs(new: &Value, old: &Value, but: &[&str]) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new != old };
    let members = |map: &Map<String, Value>| map.keys().filter(|key| !but.contains(&key.as_str())).count();
    members(new) != members(old)
        || new.iter().any(|(key, value)| !but.contains(&key.as_str()) && old.get(key) != Some(value))
}

/// Sets a member, or removes it where the value is null.
pub(crate) fn set_or_remove(object: &mut Value, field: &str, value: Value) {
    let Some(map) = object.as_object_mut() else { return };
    if value.is_null() {
        map.remove(field);
    } else {
        map.insert(field.to_owned(), value);
    }
}

fn remove_metadata(object: &mut Value, field: &str) {
    set_or_remove(&mut object["metadata"], field, Value::Null);
}
