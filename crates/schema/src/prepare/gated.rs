//! Fields behind feature gates that are disabled by default. Kubernetes drops them, unless the stored object uses them.

use crate::json::Value;

/// The fields that are dropped, by group and kind, as JSON pointers.
fn fields(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("", "Pod") => &["/spec/schedulingGroup", "/status/nodeAllocatableResourceClaimStatuses"],
        ("", "PodTemplate") => &["/template/spec/schedulingGroup"],
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => &["/spec/template/spec/schedulingGroup"],
        ("batch", "CronJob") => &["/spec/jobTemplate/spec/template/spec/schedulingGroup"],
        ("coordination.k8s.io", "Lease") => &["/spec/preferredHolder", "/spec/strategy"],
        ("", "Node") => &["/spec/configSource", "/status/config"],
        ("storage.k8s.io", "CSIDriver") => &["/spec/preventPodSchedulingIfMissing"],
        _ => &[],
    }
}

/// Removes the fields of disabled features from an object. `old` is the stored object.
pub(super) fn drop_disabled(group: &str, kind: &str, object: &mut Value, old: Option<&Value>) {
    for place in fields(group, kind) {
        let in_use = old.and_then(|old| old.pointer(place)).is_some_and(|value| !value.is_null());
        let Some((parent, field)) = place.rsplit_once('/').filter(|_| !in_use) else { continue };
        if let Some(Value::Object(parent)) = object.pointer_mut(parent) {
            parent.remove(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_disabled_field_stays_only_if_it_is_stored() {
        let lease = json!({"spec": {"holderIdentity": "a", "strategy": "OldestEmulationVersion"}});
        let mut new = lease.clone();
        drop_disabled("coordination.k8s.io", "Lease", &mut new, None);
        assert_eq!(new, json!({"spec": {"holderIdentity": "a"}}));
        let mut kept = lease.clone();
        drop_disabled("coordination.k8s.io", "Lease", &mut kept, Some(&lease));
        assert_eq!(kept, lease);
    }
}
