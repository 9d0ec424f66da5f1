//! The API group `apps`.

use super::{Object, child, is_absent, items, set, set_text, text};

/// The annotation of a DaemonSet that counts the changes of its template.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn rules(name: &str, object: &mut Object) {
    match name {
        "Deployment" => deployment(object),
        "ReplicaSet" => set(child(object, "spec"), "replicas", 1),
        "StatefulSet" => stateful_set(object),
        "DaemonSet" => daemon_set(object),
        _ => {}
    }
}

fn deployment(object: &mut Object) {
    let spec = child(object, "spec");
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
    let strategy = child(spec, "strategy");
    set_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", "25%");
        set(rolling, "maxSurge", "25%");
    }
}

fn stateful_set(object: &mut Object) {
    let spec = child(object, "spec");
    set_text(spec, "podManagementPolicy", "OrderedReady");
    let strategy = child(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        set_text(strategy, "type", "RollingUpdate");
        child(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate" && !is_absent(strategy, "rollingUpdate") {
        set(child(strategy, "rollingUpdate"), "partition", 0);
    }
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    set_text(retention, "whenDeleted", "Retain");
    set_text(retention, "whenScaled", "Retain");
    set(spec, "replicas", 1);
    set(spec, "revisionHistoryLimit", 10);
    for template in items(spec, "volumeClaimTemplates") {
        set_text(template, "apiVersion", "v1");
        set_text(template, "kind", "PersistentVolumeClaim");
    }
}

fn daemon_set(object: &mut Object) {
    // Kubernetes counts the template's changes in this annotation alone, and the stored form always has it.
    set_text(child(child(object, "metadata"), "annotations"), TEMPLATE_GENERATION, "0");
    let spec = child(object, "spec");
    set(spec, "revisionHistoryLimit", 10);
    let strategy = child(spec, "updateStrategy");
    set_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        set(rolling, "maxUnavailable", 1);
        set(rolling, "maxSurge", 0);
    }
}
