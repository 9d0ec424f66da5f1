//! The validation of objects of built-in kinds.
//!
//! [`validate`] returns the errors of one write in Kubernetes' order and number: an update is validated by the rules of all
//! kinds first and by those of its own kind afterwards, so that an error may occur twice. Custom resources use `object_meta`
//! and `structural`.

mod addresses;
mod admission_policy;
mod api_service;
mod autoscaler;
mod certificate;
mod cluster;
mod conditions;
mod config;
mod container;
mod cronjob;
mod device;
mod endpoints;
mod event;
mod field_rules;
mod flowcontrol;
mod job;
mod limitrange;
mod networking;
mod node;
mod persistentvolume;
mod persistentvolumeclaim;
mod pod;
mod quota;
mod rbac;
mod resources;
mod scheduling;
mod security;
mod service;
mod storage;
mod volume;
mod webhook;
mod workload;

use crate::api_resources;
use crate::field::FieldError;
use crate::json::Value;
use crate::object_meta::{self, NameRule};

/// Validates an object that is created (`old` is `None`) or updated.
///
/// `subresource` is empty for the object itself, otherwise the name of the subresource (`status`, …).
pub fn validate(
    group: &str,
    version: &str,
    kind: &str,
    object: &Value,
    old: Option<&Value>,
    subresource: &str,
) -> Vec<FieldError> {
    let namespaced =
        api_resources::by_kind(group, version, kind).is_some_and(api_resources::Resource::namespaced);
    if (group, kind, subresource) == ("", "Service", "") {
        let errors = service::addresses(object);
        if !errors.is_empty() {
            return errors;
        }
    }
    let Some(old) = old else {
        let errors = create(group, kind, object, namespaced);
        return match errors.is_empty() {
            true => object_meta::create(object, namespaced, NameRule::PathSegment),
            false => errors,
        };
    };
    let mut errors = object_meta::create(object, namespaced, NameRule::PathSegment);
    errors.extend(object_meta::update(object, old));
    errors.extend(update(group, kind, object, old, subresource, namespaced));
    errors
}

/// Whether rules of this kind distinguish an empty list from an absent one. Its objects must be validated with the empty
/// lists that the client wrote, although they are stored like absent ones.
pub fn distinguishes_empty(group: &str, kind: &str) -> bool {
    matches!(
        (group, kind),
        ("resource.k8s.io", "ResourceSlice") | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

/// Validates a new object by the rules of its kind.
fn create(group: &str, kind: &str, object: &Value, namespaced: bool) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Pod") => pod::create(object),
        ("", "Service") => service::create(object),
        ("", "Secret" | "ConfigMap") => config::create(kind, object),
        ("", "PersistentVolumeClaim") => persistentvolumeclaim::create(object),
        ("", "PersistentVolume") => persistentvolume::create(object),
        ("" | "events.k8s.io", "Event") => event::create(group, object),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload::create(kind, object)
        }
        ("batch", "Job") => job::create(object),
        ("batch", "CronJob") => cronjob::create(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            crate::structural::definition::validate(object, None)
        }
        ("", "Endpoints") | ("discovery.k8s.io", "EndpointSlice") => endpoints::create(kind, object),
        ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy") => {
            networking::create(kind, object, namespaced)
        }
        ("networking.k8s.io", "IPAddress" | "ServiceCIDR") => addresses::create(kind, object),
        ("apiregistration.k8s.io", "APIService") => api_service::create(object),
        ("rbac.authorization.k8s.io", _) => rbac::create(kind, object, namespaced),
        ("admissionregistration.k8s.io", _) => webhook::create(kind, object),
        ("flowcontrol.apiserver.k8s.io", _) => flowcontrol::create(kind, object),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificate::create(object),
        ("resource.k8s.io", _) => device::create(kind, object, namespaced),
        _ => cluster::create(group, kind, object, namespaced),
    }
}

/// Validates an update by the rules of the object's kind.
fn update(
    group: &str,
    kind: &str,
    new: &Value,
    old: &Value,
    subresource: &str,
    namespaced: bool,
) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Pod") => pod::update(new, old, subresource),
        ("", "Service") => service::update(new, old, subresource),
        ("", "Secret" | "ConfigMap") => config::update(kind, new, old),
        ("", "PersistentVolumeClaim") => persistentvolumeclaim::update(new, old, subresource),
        ("", "PersistentVolume") => persistentvolume::update(new, old, subresource),
        ("" | "events.k8s.io", "Event") => event::update(group, new, old),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload::update(kind, new, old, subresource)
        }
        ("batch", "Job") => job::update(new, old, subresource),
        ("batch", "CronJob") => cronjob::update(new, old, subresource),
        ("apiextensions.k8s.io", "CustomResourceDefinition") if subresource.is_empty() => {
            crate::structural::definition::validate(new, Some(old))
        }
        ("apiextensions.k8s.io", _) => crate::structural::definition::validate_status(new, old),
        ("", "Endpoints") | ("discovery.k8s.io", "EndpointSlice") => endpoints::update(kind, new, old),
        ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy") => {
            networking::update(kind, new, old, subresource)
        }
        ("networking.k8s.io", "IPAddress" | "ServiceCIDR") => addresses::update(kind, new, old, subresource),
        ("apiregistration.k8s.io", "APIService") => api_service::update(new, old, subresource),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificate::update(new, old, subresource),
        ("rbac.authorization.k8s.io", _) => rbac::update(kind, new, old, namespaced),
        ("admissionregistration.k8s.io", _) => webhook::update(kind, new, subresource),
        ("flowcontrol.apiserver.k8s.io", _) => flowcontrol::update(kind, new, subresource),
        ("resource.k8s.io", _) => device::update(kind, new, old, subresource),
        _ => cluster::update(group, kind, new, old, subresource),
    }
}
