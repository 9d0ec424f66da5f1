//! The API group `scheduling.k8s.io`: PriorityClasses.

use super::{Object, set};

pub(super) fn rules(name: &str, object: &mut Object) {
    if name == "PriorityClass" {
        set(object, "preemptionPolicy", "PreemptLowerPriority");
    }
}
