//! StatefulSets.

use super::{Object, child, is_absent, set, set_text, text};

pub(super) fn stateful_set(object: &mut Object) {
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
    for template in super::pod::items(spec, "volumeClaimTemplates") {
        set_text(template, "apiVersion", "v1");
        set_text(template, "kind", "PersistentVolumeClaim");
    }
}
