//! Which objects a quota is about.

use serde_json::Value;

use crate::ResourceInfo;

/// Whether a quota is about an object. One without scopes is about all; scopes are about pods, or about claims.
pub(super) fn matches(quota: &Value, info: &ResourceInfo, object: &Value) -> bool {
    let spec = &quota["spec"];
    let scopes = spec["scopes"].as_array().into_iter().flatten();
    let selectors = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    let kind = if info.group.is_empty() { info.kind.as_str() } else { "" };
    scopes
        .into_iter()
        .all(|scope| holds(scope.as_str().unwrap_or_default(), "Exists", &Value::Null, kind, object))
        && selectors.into_iter().all(|it| {
            let text = |field: &str| it[field].as_str().unwrap_or_default();
            holds(text("scopeName"), text("operator"), &it["values"], kind, object)
        })
}

fn holds(scope: &str, operator: &str, values: &Value, kind: &str, object: &Value) -> bool {
    let spec = &object["spec"];
    let limited = spec["activeDeadlineSeconds"].as_i64().is_some_and(|it| it >= 0);
    match (scope, kind) {
        ("Terminating", "Pod") => limited,
        ("NotTerminating", "Pod") => !limited,
        ("BestEffort", "Pod") => is_best_effort(object),
        ("NotBestEffort", "Pod") => !is_best_effort(object),
        ("PriorityClass", "Pod") => selects(operator, values, spec["priorityClassName"].as_str()),
        ("CrossNamespacePodAffinity", "Pod") => reaches_other_namespaces(&spec["affinity"]),
        ("VolumeAttributesClass", "PersistentVolumeClaim") => {
            selects(operator, values, spec["volumeAttributesClassName"].as_str())
        }
        _ => false,
    }
}

fn selects(operator: &str, values: &Value, value: Option<&str>) -> bool {
    let value = value.filter(|it| !it.is_empty());
    let listed = value.is_some_and(|it| values.as_array().into_iter().flatten().any(|other| other == it));
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "DoesNotExist" => value.is_none(),
        _ => value.is_some(),
    }
}

/// No container asks for processor or memory.
fn is_best_effort(pod: &Value) -> bool {
    if let Some(class) = pod["status"]["qosClass"].as_str() {
        return class == "BestEffort";
    }
    let lists = ["containers", "initContainers"];
    let mut containers = lists.iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let asks = |resources: &Value| {
        ["requests", "limits"]
            .iter()
            .any(|part| ["cpu", "memory"].iter().any(|name| !resources[part][name].is_null()))
    };
    !asks(&pod["spec"]["resources"]) && !containers.any(|container| asks(&container["resources"]))
}

fn reaches_other_namespaces(affinity: &Value) -> bool {
    let crosses = |term: &Value| {
        term["namespaces"].as_array().is_some_and(|it| !it.is_empty())
            || term["namespaceSelector"].is_object()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let terms = |field: &str| affinity[kind][field].as_array().cloned().unwrap_or_default();
        terms("requiredDuringSchedulingIgnoredDuringExecution").iter().any(crosses)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|it| crosses(&it["podAffinityTerm"]))
    })
}
