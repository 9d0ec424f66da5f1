//! Services: drops the fields that the Service's type does not need, unless the same update changes them.

use std::collections::BTreeSet;

use super::{child, object_of, remove, set};
use crate::json::{Map, Value};
use crate::read::Read;

/// Copies `clusterIP` to `clusterIPs` if only the former is set: its first address is in both fields.
pub(super) fn create(service: &mut Value) {
    let spec = child(service, "spec");
    let address = (&*spec).str("clusterIP").to_owned();
    if !address.is_empty() && (&*spec).list("clusterIPs").is_empty() {
        set(spec, "clusterIPs", Value::from(vec![address]));
    }
    drop_internal_policy(spec);
}

/// Drops the internal traffic policy of an ExternalName Service, which has no traffic inside of the cluster.
fn drop_internal_policy(spec: &mut Value) {
    if (&*spec).str("type") == "ExternalName" {
        remove(spec, "internalTrafficPolicy");
    }
}

/// Keeps `clusterIP` and `clusterIPs` in sync, and keeps allocated addresses that the update omits.
fn keep_addresses(spec: &mut Value, old: &Value) {
    let this = &*spec;
    let before = old.at("spec");
    let same_many = |spec: &Value| spec.list("clusterIPs") == before.list("clusterIPs");
    let address = this.str("clusterIP").to_owned();
    if address != before.str("clusterIP") && same_many(this) {
        match address.is_empty() {
            true => remove(spec, "clusterIPs"),
            false => set(spec, "clusterIPs", Value::from(vec![address])),
        }
    }
    if (&*spec).str("type") == "ExternalName" || before.str("type") == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs"] {
        if !(&*spec).has(field)
            && let Some(value) = before.at(field)
        {
            set(spec, field, value.clone());
        }
    }
}

pub(super) fn update(new: &mut Value, old: &Value) {
    keep_addresses(child(new, "spec"), old);
    let (new_type, old_type) = ((&*new).at("spec").str("type").to_owned(), old.at("spec").str("type"));
    let spec = child(new, "spec");
    let same = |spec: &Value, field: &str| spec.at(field) == old.at("spec").at(field);
    if old_type != "ExternalName" && new_type == "ExternalName" {
        if same(spec, "clusterIP") && same(spec, "clusterIPs") {
            remove(spec, "clusterIP");
            remove(spec, "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(spec, field) {
                remove(spec, field);
            }
        }
    }
    if needs_node_port(old_type) && !needs_node_port(&new_type) && adds_no_node_port(spec, old) {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            remove(port, "nodePort");
        }
    }
    if needs_health_check(old.at("spec"))
        && !needs_health_check(Some(spec))
        && same(spec, "healthCheckNodePort")
    {
        remove(spec, "healthCheckNodePort");
    }
    if old_type == "LoadBalancer" && new_type != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, field) {
                remove(spec, field);
            }
        }
    }
    if is_external(old.at("spec")) && !is_external(Some(spec)) && same(spec, "externalTrafficPolicy") {
        remove(spec, "externalTrafficPolicy");
    }
    drop_internal_policy(spec);
    if new_type != "LoadBalancer" {
        set(object_of_status(new), "loadBalancer", Value::Object(Map::new()));
    }
}

fn object_of_status(service: &mut Value) -> &mut Value {
    let status = child(service, "status");
    object_of(status);
    status
}

fn needs_node_port(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

fn node_ports(spec: Option<&Value>) -> BTreeSet<i64> {
    spec.list("ports").iter().filter_map(|port| port.int("nodePort")).filter(|port| *port != 0).collect()
}

fn adds_no_node_port(spec: &Value, old: &Value) -> bool {
    node_ports(old.at("spec")).is_superset(&node_ports(Some(spec)))
}

fn needs_health_check(spec: Option<&Value>) -> bool {
    spec.str("type") == "LoadBalancer" && spec.str("externalTrafficPolicy") == "Local"
}

fn is_external(spec: Option<&Value>) -> bool {
    match spec.str("type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.list("externalIPs").is_empty(),
        _ => false,
    }
}
