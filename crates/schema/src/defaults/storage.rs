//! The API group `storage.k8s.io`: StorageClasses and CSIDrivers.

use super::{Object, child, is_empty, set};
use crate::json::Value;

pub(super) fn rules(name: &str, object: &mut Object) {
    match name {
        "StorageClass" => {
            set(object, "reclaimPolicy", "Delete");
            set(object, "volumeBindingMode", "Immediate");
        }
        "CSIDriver" => driver(child(object, "spec")),
        _ => {}
    }
}

fn driver(spec: &mut Object) {
    set(spec, "attachRequired", true);
    set(spec, "podInfoOnMount", false);
    set(spec, "storageCapacity", false);
    set(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    if is_empty(spec, "volumeLifecycleModes") {
        spec.insert("volumeLifecycleModes".into(), Value::Array(vec![Value::from("Persistent")].into()));
    }
    set(spec, "requiresRepublish", false);
    set(spec, "seLinuxMount", false);
}
