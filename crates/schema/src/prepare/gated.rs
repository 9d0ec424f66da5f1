//! Fields behind feature gates that are disabled by default. Kubernetes drops them, unless the stored object uses them.

use crate::json::Value;
use crate::read::Read as _;

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

/// The lists of containers in a pod's spec.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// The sources of a projected volume that are dropped.
const SOURCES: [&str; 2] = ["clusterTrustBundle", "podCertificate"];

/// Where the pod's spec is, by group and kind, as a JSON pointer.
fn pod_spec(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("", "Pod") => Some("/spec"),
        ("", "PodTemplate") => Some("/template/spec"),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => Some("/spec/template/spec"),
        ("batch", "CronJob") => Some("/spec/jobTemplate/spec/template/spec"),
        _ => None,
    }
}

/// Removes the fields of disabled features from the lists of a pod's spec, each unless the stored spec uses it.
fn drop_from_pod(spec: &mut Value, old: Option<&Value>) {
    let stop_signal = |container: &Value| container.at("lifecycle").has("stopSignal");
    if !old.is_some_and(|old| CONTAINERS.iter().any(|list| old.list(list).iter().any(stop_signal))) {
        for list in CONTAINERS {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter(|it| stop_signal(it)) {
                if let Some(Value::Object(hooks)) = container.get_mut("lifecycle") {
                    hooks.remove("stopSignal");
                }
            }
        }
    }
    let sources = |volume: &Value| volume.at("projected").list("sources").to_vec();
    for source in SOURCES {
        let used =
            |old: &Value| old.list("volumes").iter().any(|it| sources(it).iter().any(|it| it.has(source)));
        if old.is_some_and(used) {
            continue;
        }
        let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
        let lists = volumes
            .into_iter()
            .flatten()
            .filter_map(|volume| volume.get_mut("projected")?.get_mut("sources")?.as_array_mut());
        lists.flatten().filter_map(Value::as_object_mut).for_each(|it| drop(it.remove(source)));
    }
}

/// The lists of values that attributes of devices have only with a disabled feature.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
/// How devices map to resources of their node, which is a disabled feature.
const MAPPINGS: &str = "nodeAllocatableResourceMappings";

/// Removes the fields of disabled features from the devices of a ResourceSlice, each unless the stored slice uses it.
fn drop_from_devices(slice: &mut Value, old: Option<&Value>) {
    let devices = |slice: Option<&Value>| slice.at("spec").list("devices").to_vec();
    let attributes = |device: &Value| {
        device.map("attributes").into_iter().flatten().map(|(_, it)| it.clone()).collect::<Vec<_>>()
    };
    let has_list = |device: &Value| attributes(device).iter().any(|it| LISTS.iter().any(|list| it.has(list)));
    let before = devices(old);
    let (uses_lists, uses_mappings) =
        (before.iter().any(has_list), before.iter().any(|device| device.has(MAPPINGS)));
    let devices = slice.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten().filter_map(Value::as_object_mut) {
        if !uses_mappings {
            device.remove(MAPPINGS);
        }
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for attribute in attributes.into_iter().flatten().filter_map(|(_, it)| it.as_object_mut()) {
            if !uses_lists {
                attribute.retain(|field, _| !LISTS.contains(&field.as_str()));
            }
        }
    }
}

/// Removes the fields of disabled features from an object. `old` is the stored object.
pub(super) fn drop_disabled(group: &str, kind: &str, object: &mut Value, old: Option<&Value>) {
    if let Some(place) = pod_spec(group, kind)
        && let Some(spec) = object.pointer_mut(place)
    {
        let old = old.and_then(|old| old.pointer(place));
        // Most updates leave the spec as it is.
        if old != Some(&*spec) {
            drop_from_pod(spec, old);
        }
    }
    if (group, kind) == ("resource.k8s.io", "ResourceSlice") {
        drop_from_devices(object, old);
    }
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
    use crate::json::json;

    #[test]
    fn disabled_fields_of_containers_and_volumes_go() {
        let pod = json!({"spec": {"containers": [{"lifecycle": {"stopSignal": "SIGABRT", "preStop": {}}}],
            "volumes": [{"projected": {"sources": [{"podCertificate": {}, "configMap": {}}]}}]}});
        let mut new = pod.clone();
        drop_disabled("", "Pod", &mut new, None);
        let kept = json!({"spec": {"containers": [{"lifecycle": {"preStop": {}}}],
            "volumes": [{"projected": {"sources": [{"configMap": {}}]}}]}});
        assert_eq!(new, kept);
        let mut relabelled = pod.clone();
        relabelled["metadata"] = json!({"labels": {"a": "b"}});
        let before = relabelled.clone();
        drop_disabled("", "Pod", &mut relabelled, Some(&pod));
        assert_eq!(relabelled, before);
    }

    #[test]
    fn lists_in_attributes_of_devices_go_unless_they_are_stored() {
        let slice = json!({"spec": {"devices": [{"name": "d", "nodeAllocatableResourceMappings": {"cpu": {}},
            "attributes": {"a": {"string": "x", "bools": [true]}}}]}});
        let mut new = slice.clone();
        drop_disabled("resource.k8s.io", "ResourceSlice", &mut new, None);
        assert_eq!(new, json!({"spec": {"devices": [{"name": "d", "attributes": {"a": {"string": "x"}}}]}}));
        let mut kept = slice.clone();
        drop_disabled("resource.k8s.io", "ResourceSlice", &mut kept, Some(&slice));
        assert_eq!(kept, slice);
    }

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
