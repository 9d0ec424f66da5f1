//! PersistentVolumes.

use super::{Object, child, set, set_text};

pub(super) fn volume(object: &mut Object) {
    set_text(child(object, "status"), "phase", "Pending");
    let spec = child(object, "spec");
    set_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
}
