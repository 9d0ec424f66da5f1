//! The resources of a whole pod: what its containers ask for becomes its own request.

use std::collections::BTreeMap;

use super::Object;
use crate::json::Value;
use crate::quantity::Quantity;
use crate::read::Read;

type Resources = BTreeMap<String, Quantity>;

/// Fills in `spec.resources` where the pod has set a part of it.
pub(super) fn fill_in(spec: &mut Object) {
    let Some(Value::Object(resources)) = spec.get("resources") else { return };
    let (limits, requests) = (list(resources, "limits"), list(resources, "requests"));
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

fn list(resources: &Object, name: &str) -> Resources {
    let entries = resources.get(name).and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value).ok()?))).collect()
}

fn store(resources: &mut Object, name: &str, list: &Resources) {
    let entries = list.iter().map(|(name, quantity)| (name.clone(), Value::from(quantity.to_string())));
    resources.insert(name.to_owned(), Value::Object(entries.collect()));
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn may_overcommit(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

fn huge_page_limits(pod: &Value, mut limits: Resources, requests: &Resources) -> Resources {
    for (name, limit) in aggregate(pod, "limits") {
        if is_huge_page(&name) && !requests.contains_key(&name) {
            limits.entry(name).or_insert(limit);
        }
    }
    limits
}

fn pod_requests(pod: &Value, limits: &Resources, mut requests: Resources) -> Resources {
    for (name, request) in aggregate(pod, "requests") {
        if may_overcommit(&name) {
            requests.entry(name).or_insert(request);
        }
    }
    for (name, limit) in limits {
        if may_overcommit(name) || is_huge_page(name) {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
    requests
}

/// What all containers need together: they run at once, init containers before them one by one, and the init
/// containers that restart go on beside whatever comes after them.
pub(crate) fn aggregate(pod_spec: &Value, which: &str) -> BTreeMap<String, Quantity> {
    let of = |container: &Value| match container.at("resources").and_then(Value::as_object) {
        Some(resources) => list(resources, which),
        None => Resources::new(),
    };
    let mut total = Resources::new();
    pod_spec.list("containers").iter().for_each(|container| add(&mut total, &of(container)));
    let (mut peak, mut running) = (Resources::new(), Resources::new());
    for container in pod_spec.list("initContainers") {
        let own = of(container);
        if container.str("restartPolicy") == "Always" {
            add(&mut total, &own);
            add(&mut running, &own);
            maximum(&mut peak, &running);
        } else {
            let mut at_once = own;
            add(&mut at_once, &running);
            maximum(&mut peak, &at_once);
        }
    }
    maximum(&mut total, &peak);
    total
}

fn add(total: &mut Resources, more: &Resources) {
    for (name, quantity) in more {
        match total.get_mut(name) {
            Some(sum) => *sum = sum.clone() + quantity.clone(),
            None => drop(total.insert(name.clone(), quantity.clone())),
        }
    }
}

fn maximum(total: &mut Resources, other: &Resources) {
    for (name, quantity) in other {
        match total.get_mut(name) {
            Some(largest) if quantity > largest => *largest = quantity.clone(),
            Some(_) => {}
            None => drop(total.insert(name.clone(), quantity.clone())),
        }
    }
}
