//! Pods: the quality-of-service class, and what the node alone says.

use evenkeel_schema::quantity::Quantity;
use serde_json::{Value, json};

use super::set_or_remove;

/// A new pod waits, in the class that its resources put it in.
pub(super) fn prepare_create(pod: &mut Value) {
    pod["status"] = json!({"phase": "Pending", "qosClass": qos_class(pod)});
}

/// The node's reports do not touch owners, and keep the class.
pub(super) fn prepare_status(new: &mut Value, old: &Value) {
    set_or_remove(&mut new["metadata"], "ownerReferences", old["metadata"]["ownerReferences"].clone());
    if !new["status"].is_object() {
        new["status"] = json!({});
    }
    for field in ["qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus"] {
        if new["status"][field].is_null() {
            let kept = old["status"][field].clone();
            set_or_remove(&mut new["status"], field, kept);
        }
    }
}

/// Guaranteed where every container's limits equal its requests for both cpu and memory, BestEffort where nothing
/// is said, else Burstable.
fn qos_class(pod: &Value) -> &'static str {
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().flat_map(|it| pod["spec"][*it].as_array().into_iter().flatten());
    let mut anything = false;
    let mut guaranteed = true;
    for container in containers {
        let resources = &container["resources"];
        for name in ["cpu", "memory"] {
            let limit = amount(&resources["limits"][name]);
            let request = amount(&resources["requests"][name]);
            anything |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (anything, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// A quantity that is more than nothing, in thousandths.
fn amount(value: &Value) -> Option<i64> {
    let quantity = Quantity::from_json(value).ok()?;
    (!quantity.is_zero()).then(|| quantity.milli_value())
}
