//! Empty lists in required fields.
//!
//! Kubernetes stores such a list like an absent one and returns null for it. But a client that writes `[]` becomes an owner
//! of the field, unlike a client that omits it. So the empty list is kept until the managed fields are computed.

use crate::json::Value;

/// The fields with required lists, by kind. Deeper ones lie inside of atomic lists, which have one owner anyway.
fn places(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => &["/rules"],
        ("discovery.k8s.io", "EndpointSlice") => &["/endpoints", "/ports"],
        ("", "LimitRange") => &["/spec/limits"],
        ("storage.k8s.io", "CSINode") => &["/spec/drivers"],
        _ => &[],
    }
}

/// The required lists that are empty in an object.
pub fn find(group: &str, kind: &str, object: &Value) -> Vec<&'static str> {
    let is_empty =
        |place: &&&str| object.pointer(place).is_some_and(|it| it.as_array().is_some_and(Vec::is_empty));
    places(group, kind).iter().filter(is_empty).copied().collect()
}

/// Sets these fields to empty lists.
pub fn keep(object: &mut Value, places: &[&str]) {
    for place in places {
        if let Some(value) = object.pointer_mut(place) {
            *value = Value::Array(Default::default());
        }
    }
}

/// Replaces the empty lists of an object by null, which is their stored form.
pub fn forget(group: &str, kind: &str, object: &mut Value) {
    for place in find(group, kind, object) {
        if let Some(value) = object.pointer_mut(place) {
            *value = Value::Null;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn an_empty_list_is_kept_until_it_is_forgotten() {
        let (group, kind) = ("discovery.k8s.io", "EndpointSlice");
        let places = find(group, kind, &json!({"endpoints": [], "ports": [{"port": 1}]}));
        assert_eq!(places, ["/endpoints"]);
        let mut object = json!({"endpoints": null, "ports": [{"port": 1}]});
        keep(&mut object, &places);
        assert_eq!(object["endpoints"], json!([]));
        forget(group, kind, &mut object);
        assert_eq!(object, json!({"endpoints": null, "ports": [{"port": 1}]}));
        assert!(find("", "ConfigMap", &json!({"rules": []})).is_empty());
    }
}
