//! Priority classes.

use super::{Object, set};

pub(super) fn rules(name: &str, object: &mut Object) {
    if name == "PriorityClass" {
        set(object, "preemptionPolicy", "PreemptLowerPriority");
    }
}
