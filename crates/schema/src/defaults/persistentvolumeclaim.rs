//! PersistentVolumeClaims, and the templates of them.

use super::{Object, child, set, set_text};

pub(super) fn claim(object: &mut Object) {
    set_text(child(object, "status"), "phase", "Pending");
}

pub(super) fn claim_spec(spec: &mut Object) {
    set(spec, "volumeMode", "Filesystem");
}
