//! Pods: QoS class, scheduling gates, and the fields that each subresource may change.

use std::collections::BTreeMap;

use crate::json::json;
use jiff::Timestamp;

use super::{bump_generation, child, copy, metadata, object_of, put, reset_metadata, set};
use crate::json::{Map, Value};
use crate::quantity::Quantity;
use crate::read::Read;
use crate::time::{self, Precision};

pub(super) fn create(pod: &mut Value, now: Timestamp) {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(pod)});
    if !(&*pod).at("spec").list("schedulingGates").is_empty() {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates", "lastTransitionTime": time::print(now, Precision::Seconds)}]);
    }
    set(pod, "status", status);
    let labels = (&*pod).at("metadata").at("labels").cloned().unwrap_or(Value::Null);
    if let Some(affinity) = child(pod, "spec").get_mut("affinity").filter(|affinity| affinity.is_object()) {
        for side in ["podAffinity", "podAntiAffinity"] {
            affinity.get_mut(side).into_iter().for_each(|side| merge_label_keys(side, &labels));
        }
    }
    let spec = child(pod, "spec");
    for constraint in list_mut(spec, "topologySpreadConstraints") {
        add_expressions(constraint, "matchLabelKeys", "In", &labels);
    }
}

fn list_mut<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn merge_label_keys(side: &mut Value, labels: &Value) {
    for weighted in list_mut(side, "preferredDuringSchedulingIgnoredDuringExecution") {
        weighted.get_mut("podAffinityTerm").into_iter().for_each(|term| merge_term(term, labels));
    }
    for term in list_mut(side, "requiredDuringSchedulingIgnoredDuringExecution") {
        merge_term(term, labels);
    }
}

fn merge_term(term: &mut Value, labels: &Value) {
    add_expressions(term, "matchLabelKeys", "In", labels);
    add_expressions(term, "mismatchLabelKeys", "NotIn", labels);
}

/// Adds the pod's own values of some labels to a selector (`matchLabelKeys` and `mismatchLabelKeys`).
fn add_expressions(term: &mut Value, keys: &str, operator: &str, labels: &Value) {
    let expressions: Vec<Value> = (&*term)
        .strs(keys)
        .into_iter()
        .filter_map(|key| Some(json!({"key": key, "operator": operator, "values": [labels.at(key)?]})))
        .collect();
    let Some(selector) = term.get_mut("labelSelector").filter(|selector| selector.is_object()) else {
        return;
    };
    if !expressions.is_empty() {
        let mut all = (&*selector).list("matchExpressions").to_vec();
        all.extend(expressions);
        set(selector, "matchExpressions", Value::Array(all.into()));
    }
}

/// The QoS class: `Guaranteed` if requests and limits of cpu and memory are all set and equal.
pub fn qos_class(pod: &Value) -> &'static str {
    let spec = pod.at("spec");
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut guaranteed = true;
    if let Some(resources) = spec.at("resources") {
        add(&mut requests, resources.at("requests"));
        let found = add(&mut limits, resources.at("limits"));
        guaranteed = found == 2 || resources.map("limits").is_none_or(|limits| limits.is_empty());
    } else {
        for container in spec.list("containers").iter().chain(spec.list("initContainers")) {
            add(&mut requests, container.at("resources").at("requests"));
            guaranteed &= add(&mut limits, container.at("resources").at("limits")) == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    if guaranteed && requests == limits { "Guaranteed" } else { "Burstable" }
}

/// Adds the cpu and memory of a resource list to a sum. Returns how many of the two the list has.
fn add(sum: &mut BTreeMap<&'static str, Quantity>, list: Option<&Value>) -> usize {
    let mut found = 0;
    for name in ["cpu", "memory"] {
        let quantity = list.at(name).and_then(|value| Quantity::from_json(value).ok());
        let Some(quantity) = quantity.filter(|quantity| *quantity > Quantity::zero()) else { continue };
        found += 1;
        let total = sum.entry(name).or_insert_with(Quantity::zero);
        *total = total.clone() + quantity;
    }
    found
}

/// Keeps `podIP` and `podIPs` in sync: its first address is in both fields, and `podIP` decides if they differ.
fn addresses(status: &mut Map) {
    let first = status.get("podIPs").and_then(|list| list.get(0)).and_then(|it| it.get("ip")).cloned();
    match status.get("podIP").filter(|address| !matches!(address, Value::Null) && **address != "") {
        Some(address) if first.as_ref() != Some(address) => {
            let list = json!([{"ip": address}]);
            put(status, "podIPs", list);
        }
        None => first.into_iter().for_each(|first| put(status, "podIP", first)),
        Some(_) => {}
    }
}

pub(super) fn update_status(new: &mut Value, old: &Value) {
    let metadata = metadata(new);
    metadata.remove("deletionTimestamp");
    copy(metadata, old.at("metadata"), "deletionTimestamp");
    copy(metadata, old.at("metadata"), "ownerReferences");
    let status = object_of(child(new, "status"));
    addresses(status);
    for field in ["qosClass", "observedGeneration"] {
        let unset =
            status.get(field).is_none_or(|value| matches!(value, Value::Null) || value == "" || value == 0);
        if unset {
            copy(status, old.at("status"), field);
        }
    }
    let mut before: BTreeMap<&str, Vec<Option<&Value>>> = BTreeMap::new();
    for condition in old.at("status").list("conditions").iter().rev() {
        before.entry(condition.str("type")).or_default().push(condition.at("observedGeneration"));
    }
    for condition in list_mut(child(new, "status"), "conditions") {
        let kind = (&*condition).str("type").to_owned();
        let generation = before.get_mut(kind.as_str()).and_then(Vec::pop).flatten();
        if let (None, Some(generation)) = ((&*condition).at("observedGeneration"), generation) {
            set(condition, "observedGeneration", generation.clone());
        }
    }
}

pub(super) fn update_ephemeral_containers(new: &mut Value, old: &Value) {
    let containers = (&*new).at("spec").at("ephemeralContainers").cloned();
    copy(object_of(new), Some(old), "spec");
    copy(object_of(new), Some(old), "status");
    reset_metadata(new, old);
    let spec = object_of(child(new, "spec"));
    match containers {
        Some(containers) => put(spec, "ephemeralContainers", containers),
        None => drop(spec.remove("ephemeralContainers")),
    }
    bump(new, old);
}

/// Keeps only the resources and resize policies of the containers in a resize. Validation refuses containers that were added,
/// removed or moved.
pub(super) fn update_resize(new: &mut Value, old: &Value) {
    let lists = ["containers", "initContainers"];
    let same = |list: &str| (&*new).at("spec").list(list).len() == old.at("spec").list(list).len();
    if !lists.into_iter().all(same) {
        return;
    }
    let mut spec = old.at("spec").cloned().unwrap_or(Value::Null);
    for list in lists {
        for (index, container) in list_mut(&mut spec, list).enumerate() {
            let Some(asked) = (&*new).at("spec").list(list).get(index) else { continue };
            if asked.str("name") != (&*container).str("name") {
                *container = asked.clone();
                continue;
            }
            for field in ["resources", "resizePolicy"] {
                copy(object_of(container), Some(asked), field);
            }
        }
    }
    let resources = (&*new).at("spec").at("resources").cloned();
    if let Some(resources) = resources {
        set(&mut spec, "resources", resources);
    }
    set(new, "spec", spec);
    copy(object_of(new), Some(old), "status");
    reset_metadata(new, old);
    bump(new, old);
}

fn bump(new: &mut Value, old: &Value) {
    if (&*new).at("spec") != old.at("spec") {
        bump_generation(new, old);
    }
}
