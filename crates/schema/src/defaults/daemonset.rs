//! DaemonSets.

use super::{Object, child, set, set_text, text};

pub(super) fn daemon_set(object: &mut Object) {
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
