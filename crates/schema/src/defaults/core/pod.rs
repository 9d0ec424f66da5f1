//! Pods, and pod specs in templates.

use super::{Object, items, pod_resources, set, set_text};
use crate::json::Value;

/// Sets the defaults of a Pod that a pod template does not get. A spec that is shared with the old pod has them.
pub(super) fn pod(object: &mut Object, old: Option<&Value>) {
    let old = old.and_then(|old| old.get("spec"));
    if object.get("spec").zip(old).is_some_and(|(spec, old)| spec.is_shared_with(old)) {
        return;
    }
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
        }
    }
    // Kubernetes treats a negative grace period as one second.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), Value::from(1));
    }
    pod_resources::fill_in(spec);
    set(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or_default() {
        for list in ["containers", "initContainers"] {
            items(spec, list).for_each(host_ports);
        }
    }
}

pub(super) fn pod_spec(spec: &mut Object) {
    set_text(spec, "dnsPolicy", "ClusterFirst");
    set_text(spec, "restartPolicy", "Always");
    set(spec, "securityContext", Object::new());
    set(spec, "terminationGracePeriodSeconds", 30);
    set_text(spec, "schedulerName", "default-scheduler");
    // `serviceAccount` is the deprecated name of `serviceAccountName`: each is set from the other.
    let name = super::text(spec, "serviceAccountName").to_owned();
    let alias = super::text(spec, "serviceAccount").to_owned();
    let account = if name.is_empty() { alias } else { name };
    if !account.is_empty() {
        spec.insert("serviceAccountName".into(), Value::from(account.as_str()));
        spec.insert("serviceAccount".into(), Value::from(account));
    }
}

fn requests_from_limits(container: &mut Object) {
    let Some(Value::Object(resources)) = container.get_mut("resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = super::child(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

fn host_ports(container: &mut Object) {
    for port in items(container, "ports") {
        let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or_default();
        if number != 0 {
            super::set_number(port, "hostPort", number);
        }
    }
}
