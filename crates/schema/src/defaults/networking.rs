//! The API group `networking.k8s.io`: IngressClasses and NetworkPolicies.

use super::{Object, child, is_absent, is_empty, set};
use crate::json::Value;

pub(super) fn rules(name: &str, object: &mut Object) {
    match name {
        "NetworkPolicyPort" => set(object, "protocol", "TCP"),
        "NetworkPolicy" => policy(object),
        "IngressClass" => {
            let spec = child(object, "spec");
            if !is_absent(spec, "parameters") {
                set(child(spec, "parameters"), "scope", "Cluster");
            }
        }
        _ => {}
    }
}

fn policy(object: &mut Object) {
    let spec = child(object, "spec");
    if is_empty(spec, "policyTypes") {
        let mut types = vec![Value::from("Ingress")];
        if !is_empty(spec, "egress") {
            types.push(Value::from("Egress"));
        }
        spec.insert("policyTypes".into(), Value::Array(types.into()));
    }
}
