//! Services. The API server allocates addresses and ports.

use super::{Object, child, is_empty, items, set, set_text, text};
use crate::json::Value;
use crate::read::Read;

/// The timeout of client IP affinity: three hours.
const AFFINITY_SECONDS: i32 = 10_800;

pub(super) fn service(object: &mut Object) {
    let spec = child(object, "spec");
    set_text(spec, "sessionAffinity", "None");
    affinity(spec);
    set_text(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        set_text(port, "protocol", "TCP");
        target_port(port);
    }
    let kind = text(spec, "type").to_owned();
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !is_empty(spec, "externalIPs"));
    if external {
        set_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", true);
        ingress_modes(object);
    }
}

fn affinity(spec: &mut Object) {
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let client = spec.get("sessionAffinityConfig").at("clientIP").at("timeoutSeconds");
            if client.is_none() {
                let config = crate::json::json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                spec.insert("sessionAffinityConfig".into(), config);
            }
        }
        _ => {}
    }
}

fn target_port(port: &mut Object) {
    let unset = match port.get("targetPort") {
        None | Some(Value::Null) => true,
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::String(name)) => name.is_empty(),
        Some(_) => false,
    };
    if unset {
        let number = port.get("port").cloned().unwrap_or(Value::from(0));
        port.insert("targetPort".into(), number);
    }
}

fn ingress_modes(object: &mut Object) {
    let Some(Value::Object(status)) = object.get_mut("status") else { return };
    let Some(Value::Object(balancer)) = status.get_mut("loadBalancer") else { return };
    for ingress in items(balancer, "ingress") {
        if !text(ingress, "ip").is_empty() {
            set(ingress, "ipMode", "VIP");
        }
    }
}
