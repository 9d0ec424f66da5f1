//! DaemonSets.

use super::{Object, child, set, set_text, text};
use crate::prepare::TEMPLATE_GENERATION;

pub(super) fn daemon_set(object: &mut Object) {
    // The count of the template's changes has no place but this annotation, and the server's form always has it.
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
