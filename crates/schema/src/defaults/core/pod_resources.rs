//! The defaults of pod-level resources (`spec.resources`), from the requests of the containers.

use super::Object;
use crate::json::Value;
use crate::pod_resources::{Amounts, Part, PodResources, is_pod_level, read};
use crate::resource_names::is_huge_page;

/// Completes `spec.resources` if the pod sets a part of it.
pub(super) fn fill_in(spec: &mut Object) {
    let Some(Value::Object(resources)) = spec.get("resources") else { return };
    let (limits, requests) = (read(resources.get("limits")), read(resources.get("requests")));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    let pod = Value::Object(spec.clone());
    let Some(Value::Object(resources)) = spec.get_mut("resources") else { return };
    let limits = huge_page_limits(&pod, limits, &requests);
    if !limits.is_empty() {
        store(resources, "limits", &limits);
        let requests = pod_requests(&pod, &limits, requests);
        if !requests.is_empty() {
            store(resources, "requests", &requests);
        }
    }
}

fn store(resources: &mut Object, name: &str, list: &Amounts) {
    let entries = list.iter().map(|(name, quantity)| (name.clone(), Value::from(quantity.to_string())));
    resources.insert(name.into(), Value::Object(entries.collect()));
}

fn huge_page_limits(pod: &Value, mut limits: Amounts, requests: &Amounts) -> Amounts {
    for (name, limit) in PodResources::of_spec(pod, Part::Limits).of_containers() {
        if is_huge_page(&name) && !requests.contains_key(&name) {
            limits.entry(name).or_insert(limit);
        }
    }
    limits
}

fn pod_requests(pod: &Value, limits: &Amounts, mut requests: Amounts) -> Amounts {
    for (name, request) in PodResources::of_spec(pod, Part::Requests).of_containers() {
        if is_pod_level(&name) && !is_huge_page(&name) {
            requests.entry(name).or_insert(request);
        }
    }
    for (name, limit) in limits {
        if is_pod_level(name) {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
    requests
}
