//! The taints that follow from the conditions of a node.

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use crate::kinds::Node;
use crate::object::{Fields, time};

/// A condition, its status, and the taint that follows.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The taint of a node with `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The taints that also evict running pods.
const EVICTING: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Returns the taints that the node should have; `None` if it has them. Other taints are kept.
pub(super) fn wanted(node: &Node, now: Timestamp) -> Option<Vec<Tree>> {
    let present = node.list("spec/taints");
    let condition = |kind: &str| node.at("status").condition(kind);
    let holds = |kind: &str, state: &str| condition(kind).is_some_and(|one| one.is("status", state));
    // A node without a condition `Ready` keeps the taint that it was created with.
    let silent = condition("Ready").is_none();
    let mut keys: Vec<&str> =
        BY_CONDITION.iter().filter(|(kind, state, _)| holds(kind, state)).map(|(_, _, key)| *key).collect();
    if node.is_true("spec/unschedulable") {
        keys.push(UNSCHEDULABLE);
    }
    let ours = |taint: &Tree| {
        let managed = BY_CONDITION.iter().map(|(_, _, key)| *key).chain([UNSCHEDULABLE]);
        managed.filter(|key| !(silent && EVICTING.contains(key))).any(|key| taint.is("key", key))
    };
    let mut taints: Vec<_> = present.iter().filter(|taint| !ours(taint)).cloned().collect();
    for key in keys {
        taints.push(keep(present, key, "NoSchedule", None));
        if EVICTING.contains(&key) {
            taints.push(keep(present, key, "NoExecute", Some(now)));
        }
    }
    let same = taints.len() == present.len() && taints.iter().all(|taint| present.contains(taint));
    (!same).then_some(taints)
}

/// Returns the present taint, or a new one.
fn keep(present: &[Tree], key: &str, effect: &str, since: Option<Timestamp>) -> Tree {
    let there = present.iter().find(|taint| taint.is("key", key) && taint.is("effect", effect));
    let new = || tree!({"key": key, "effect": effect, "timeAdded": since.map(time)});
    there.cloned().unwrap_or_else(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn keys(value: serde_json::Value) -> Option<Vec<String>> {
        let node = crate::object::object(value);
        let taints = wanted(&node, "2026-01-01T00:00:00Z".parse().unwrap())?;
        Some(
            taints
                .into_iter()
                .map(|taint| {
                    let (key, effect) = (taint.str("key").unwrap(), taint.str("effect").unwrap());
                    format!("{}:{effect}", key.rsplit('/').next().unwrap())
                })
                .collect(),
        )
    }

    #[test]
    fn a_ready_node_loses_the_taint_it_began_with() {
        let began = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "own", "effect": "NoSchedule"}]);
        assert_eq!(keys(json!({"spec": {"taints": began}})), None, "it has not said anything yet");
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(
            keys(json!({"spec": {"taints": began}, "status": ready})),
            Some(vec!["own:NoSchedule".to_owned()])
        );
    }

    #[test]
    fn a_lost_node_drives_its_pods_out() {
        let unknown = json!({"conditions": [{"type": "Ready", "status": "Unknown"}]});
        assert_eq!(
            keys(json!({"status": unknown})),
            Some(vec!["unreachable:NoSchedule".to_owned(), "unreachable:NoExecute".to_owned()])
        );
        assert_eq!(
            keys(json!({"spec": {"unschedulable": true}})),
            Some(vec!["unschedulable:NoSchedule".to_owned()])
        );
    }
}
