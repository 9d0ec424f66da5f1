//! Volumes of pods, and volume sources, which persistent volumes also have.

use super::{Object, image, set, set_text};
use crate::json::Value;

const MODE: i32 = 0o644;

pub(super) fn volume(object: &mut Object) {
    if object.iter().all(|(name, value)| name == "name" || value.is_null()) {
        object.insert("emptyDir".into(), Value::Object(Object::new()));
    }
}

/// Sets the defaults of a volume source, by the name of its type.
pub(super) fn source(name: &str, object: &mut Object) {
    match name {
        "SecretVolumeSource"
        | "ConfigMapVolumeSource"
        | "DownwardAPIVolumeSource"
        | "ProjectedVolumeSource" => {
            set(object, "defaultMode", MODE);
        }
        "HostPathVolumeSource" => set(object, "type", ""),
        "ServiceAccountTokenProjection" => set(object, "expirationSeconds", 3600),
        "ImageVolumeSource" => {
            let policy = image::pull_policy(super::text(object, "reference"));
            set_text(object, "pullPolicy", policy);
        }
        "ISCSIVolumeSource" | "ISCSIPersistentVolumeSource" => set_text(object, "iscsiInterface", "default"),
        "RBDVolumeSource" | "RBDPersistentVolumeSource" => {
            set_text(object, "pool", "rbd");
            set_text(object, "user", "admin");
            set_text(object, "keyring", "/etc/ceph/keyring");
        }
        "AzureDiskVolumeSource" => {
            set(object, "cachingMode", "ReadWrite");
            set(object, "fsType", "ext4");
            set(object, "readOnly", false);
            set(object, "kind", "Shared");
        }
        "ScaleIOVolumeSource" | "ScaleIOPersistentVolumeSource" => {
            set_text(object, "storageMode", "ThinProvisioned");
            set_text(object, "fsType", "xfs");
        }
        _ => {}
    }
}
