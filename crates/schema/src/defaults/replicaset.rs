//! ReplicaSets.

use super::{Object, child, set};

pub(super) fn replica_set(object: &mut Object) {
    set(child(object, "spec"), "replicas", 1);
}
