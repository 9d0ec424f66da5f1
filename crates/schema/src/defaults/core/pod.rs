//! Pods, and the spec that templates share with them.

use super::{Object, items, pod_resources, set, set_text};
use crate::json::Value;

/// What only a Pod gets, not a template.
pub(super) fn pod(object: &mut Object) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
        }
    }
    // A negative grace period has always meant the shortest one.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), Value::from(1));
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
    // The deprecated name is an alias on the wire: whichever is given fills both.
    let name = super::text(spec, "serviceAccountName").to_owned();
    let alias = super::text(spec, "serviceAccount").to_owned();
    let account = if name.is_empty() { alias } else { name };
    if !account.is_empty() {
        spec.insert("serviceAccountName".to_owned(), Value::from(account.as_str()));
        spec.insert("serviceAccount".to_owned(), Value::from(account));
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
