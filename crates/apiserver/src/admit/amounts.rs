//! Amounts of resources by name, and what a pod asks for as a whole.

use std::collections::BTreeMap;

use evenkeel_schema::quantity::Quantity;
use serde_json::Value;

/// Amounts by the name of the resource.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// Reads a list of amounts; what is no amount is left out.
pub(super) fn read(list: &Value) -> Amounts {
    let members = list.as_object().into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), Quantity::from_json(value).ok()?))).collect()
}

fn add(amounts: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = match amounts.remove(name) {
            Some(had) => had + amount.clone(),
            None => amount.clone(),
        };
        amounts.insert(name.clone(), sum);
    }
}

fn raise(amounts: &mut Amounts, to: &Amounts) {
    for (name, amount) in to {
        if amounts.get(name).is_none_or(|had| amount > had) {
            amounts.insert(name.clone(), amount.clone());
        }
    }
}

/// What a pod asks for (`which` is `requests`) or may use (`limits`): all containers together, or as much as an init
/// container needs while those that keep running beside it run. What the pod says for itself counts before that.
pub(super) fn of_pod(pod: &Value, which: &str) -> Amounts {
    let spec = &pod["spec"];
    let list = |container: &Value| read(&container["resources"][which]);
    let mut all = Amounts::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        add(&mut all, &list(container));
    }
    let mut running = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        let mut own = list(container);
        if container["restartPolicy"] == "Always" {
            add(&mut all, &own);
            add(&mut running, &own);
            own.clone_from(&running);
        } else {
            add(&mut own, &running);
        }
        raise(&mut starting, &own);
    }
    raise(&mut all, &starting);
    for (name, amount) in read(&spec["resources"][which]) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            all.insert(name, amount);
        }
    }
    all
}
