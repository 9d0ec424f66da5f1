//! Chooses the node for a pod, or explains in Kubernetes' words why no node fits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_schema::pod_resources::Amounts;
use evenkeel_schema::quantity::{Format, Quantity};
use evenkeel_tree::Tree;

use super::affinity;
use super::cache::{NodeInfo, PodRequests, SchedulerCache};
use crate::kinds::{Node, Pod};

/// Why a node does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Misfit {
    reasons: Vec<String>,
    /// Whether evicting other pods could make room.
    resolvable: bool,
}

/// No node fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unschedulable {
    /// The message of the condition `PodScheduled`.
    pub(crate) message: String,
}

/// Returns the name of the node that fits the pod best.
pub(crate) fn place(
    pod: &Pod,
    requests: &PodRequests,
    nodes: &[Arc<Node>],
    cache: &SchedulerCache,
) -> Result<String, Unschedulable> {
    if nodes.is_empty() {
        return Err(Unschedulable { message: "no nodes available to schedule pods".to_owned() });
    }
    let (empty, spec) = (NodeInfo::default(), pod.at("spec"));
    let mut misfits = Vec::new();
    let mut best: Option<(Score, &Arc<Node>)> = None;
    for node in nodes {
        let info = cache.get(node.name()).unwrap_or(&empty);
        let allocatable = cache.allocatable(node);
        match misfit(spec, node, &allocatable, requests, info) {
            Some(misfit) => misfits.push(misfit),
            None => {
                let score = score(spec, node, &allocatable, requests, info);
                if best.as_ref().is_none_or(|(highest, _)| score > *highest) {
                    best = Some((score, node));
                }
            }
        }
    }
    match best {
        Some((_, node)) => Ok(node.name().to_owned()),
        None => Err(Unschedulable { message: message(&misfits) }),
    }
}

/// Preference, absence of `PreferNoSchedule` taints, load, number of pods. Higher is better. The first node by name wins
/// among nodes of the same score.
type Score = (i32, bool, Reverse<i128>, Reverse<usize>);

fn score(spec: &Tree, node: &Node, allocatable: &Amounts, requests: &PodRequests, info: &NodeInfo) -> Score {
    let clean = affinity::untolerated(spec, node, &["PreferNoSchedule"]).is_none();
    (
        affinity::preference(spec, node),
        clean,
        Reverse(load(allocatable, requests, info)),
        Reverse(info.pod_count()),
    )
}

/// Returns how full the fuller of cpu and memory would be with the pod, in thousandths.
fn load(allocatable: &Amounts, requests: &PodRequests, info: &NodeInfo) -> i128 {
    let milli = |amount: Option<&Quantity>| amount.map_or(0, |amount| i128::from(amount.milli_value()));
    let full = |resource: &str| {
        let total = milli(allocatable.get(resource));
        let taken = milli(info.requested(resource)) + milli(requests.amounts.get(resource));
        if total == 0 { 0 } else { taken * 1000 / total }
    };
    full("cpu").max(full("memory"))
}

/// Returns why the node does not fit the pod, or `None` if it fits.
///
/// The first check that fails decides, as in Kubernetes. The check of resources reports all that lack.
fn misfit(
    spec: &Tree,
    node: &Node,
    allocatable: &Amounts,
    requests: &PodRequests,
    info: &NodeInfo,
) -> Option<Misfit> {
    let fixed = |reason: &str| Some(Misfit { reasons: vec![reason.to_owned()], resolvable: false });
    if node.is_true("spec/unschedulable") && !affinity::tolerates_unschedulable(spec) {
        return fixed("node(s) were unschedulable");
    }
    if affinity::untolerated(spec, node, &["NoSchedule", "NoExecute"]).is_some() {
        return fixed("node(s) had untolerated taint(s)");
    }
    if !affinity::matches(spec, node) {
        return fixed("node(s) didn't match Pod's node affinity/selector");
    }
    if info.has_port_conflict(requests) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Some(Misfit { reasons: vec![reason.to_owned()], resolvable: true });
    }
    insufficient(allocatable, requests, info)
}

fn insufficient(allocatable: &Amounts, requests: &PodRequests, info: &NodeInfo) -> Option<Misfit> {
    let mut reasons = Vec::new();
    let mut resolvable = true;
    let zero = Quantity::zero();
    let pods_max = allocatable.get("pods").unwrap_or(&zero);
    let pods = i64::try_from(info.pod_count()).unwrap_or(i64::MAX - 1) + 1;
    if Quantity::new(pods, Format::DecimalSi) > *pods_max {
        reasons.push("Too many pods".to_owned());
    }
    for (name, wanted) in requests.amounts.iter().filter(|(_, wanted)| **wanted > zero) {
        let total = allocatable.get(name).unwrap_or(&zero);
        if wanted.clone() + info.requested(name).cloned().unwrap_or_default() > *total {
            reasons.push(format!("Insufficient {name}"));
            resolvable &= wanted <= total;
        }
    }
    (!reasons.is_empty()).then_some(Misfit { reasons, resolvable })
}

fn message(misfits: &[Misfit]) -> String {
    let reasons = misfits.iter().flat_map(|misfit| misfit.reasons.iter().cloned());
    let preemption = misfits.iter().map(|misfit| {
        let reason = if misfit.resolvable {
            "No preemption victims found for incoming pod"
        } else {
            "Preemption is not helpful for scheduling"
        };
        reason.to_owned()
    });
    let available = format!("0/{} nodes are available:", misfits.len());
    format!(
        "{available} {}. no new claims to deallocate, preemption: {available} {}.",
        histogram(reasons),
        histogram(preemption)
    )
}

fn histogram(reasons: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    let mut lines: Vec<_> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    lines.sort();
    lines.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::pod;
    use serde_json::json;

    fn node(name: &str, extra: serde_json::Value) -> Arc<Node> {
        let mut value = json!({
            "metadata": {"name": name}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "2"}},
        });
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        Arc::new(pod(value))
    }

    fn wants(cpu: &str) -> Pod {
        pod(json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}))
    }

    fn placed(pod: &Pod, nodes: &[Arc<Node>], cache: &SchedulerCache) -> Result<String, Unschedulable> {
        place(pod, &PodRequests::of(pod), nodes, cache)
    }

    #[test]
    fn pods_spread_by_load_and_then_by_name() {
        let nodes = [node("a", json!({})), node("b", json!({}))];
        let mut cache = SchedulerCache::default();
        let mut chosen = Vec::new();
        for uid in ["1", "2", "3", "4"] {
            let pod = wants("500m");
            let to = placed(&pod, &nodes, &cache).unwrap();
            cache.place(uid, &to, PodRequests::of(&pod));
            chosen.push(to);
        }
        assert_eq!(chosen, ["a", "b", "a", "b"]);
        let full = placed(&wants("500m"), &nodes, &cache).unwrap_err();
        assert!(full.message.starts_with("0/2 nodes are available: 2 Too many pods. "), "{}", full.message);
    }

    #[test]
    fn the_message_counts_the_reasons() {
        let nodes = [
            node("a", json!({"spec": {"unschedulable": true}})),
            node("b", json!({})),
            node("c", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
        ];
        let message = placed(&wants("3"), &nodes, &SchedulerCache::default()).unwrap_err().message;
        assert_eq!(
            message,
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. \
             no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn without_nodes_it_says_so() {
        let message = placed(&wants("1"), &[], &SchedulerCache::default()).unwrap_err().message;
        assert_eq!(message, "no nodes available to schedule pods");
    }
}
