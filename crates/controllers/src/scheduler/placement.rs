//! Where a pod goes: the first of the nodes that fit best, or why none fits, in Kubernetes' words.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::affinity;
use super::resources::{Account, Amounts, Demand, Used, allocatable};
use crate::quantity::Milli;

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

/// The name of the node that the pod goes to.
pub(crate) fn place(pod: &Pod, nodes: &[Arc<Node>], account: &Account) -> Result<String, Unschedulable> {
    if nodes.is_empty() {
        return Err(Unschedulable { message: "no nodes available to schedule pods".to_owned() });
    }
    let demand = Demand::of(pod);
    let empty = Used::default();
    let mut misfits = Vec::new();
    let mut best: Option<(Score, &Arc<Node>)> = None;
    for node in nodes {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let used = account.get(name).unwrap_or(&empty);
        match misfit(pod, node, &demand, used) {
            Some(misfit) => misfits.push(misfit),
            None => {
                let score = score(pod, node, &demand, used);
                if best.as_ref().is_none_or(|(highest, _)| score > *highest) {
                    best = Some((score, node));
                }
            }
        }
    }
    match best {
        Some((_, node)) => Ok(node.metadata.name.clone().unwrap_or_default()),
        None => Err(Unschedulable { message: message(&misfits) }),
    }
}

/// Higher is better; nodes of the same score are taken in the order of their names.
type Score = (i32, bool, Reverse<i128>, Reverse<usize>);

fn score(pod: &Pod, node: &Node, demand: &Demand, used: &Used) -> Score {
    let spec = affinity::spec(pod);
    let clean = affinity::untolerated(&spec, node, &["PreferNoSchedule"]).is_none();
    (
        affinity::preference(&spec, node),
        clean,
        Reverse(load(&allocatable(node), demand, used)),
        Reverse(used.count()),
    )
}

/// How full the fullest of cpu and memory would be, in thousandths.
fn load(given: &Amounts, demand: &Demand, used: &Used) -> i128 {
    let full = |resource: &str| {
        let total = given.get(resource).map_or(0, |amount| amount.0);
        let wanted = demand.requests.get(resource).map_or(0, |amount| amount.0);
        if total == 0 { 0 } else { (used.of(resource).0 + wanted) * 1000 / total }
    };
    full("cpu").max(full("memory"))
}

/// The first check that fails decides, as it does in Kubernetes; resources report all that lack.
fn misfit(pod: &Pod, node: &Node, demand: &Demand, used: &Used) -> Option<Misfit> {
    let spec = affinity::spec(pod);
    let fixed = |reason: &str| Some(Misfit { reasons: vec![reason.to_owned()], resolvable: false });
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    if unschedulable && !affinity::tolerates_unschedulable(&spec) {
        return fixed("node(s) were unschedulable");
    }
    if affinity::untolerated(&spec, node, &["NoSchedule", "NoExecute"]).is_some() {
        return fixed("node(s) had untolerated taint(s)");
    }
    if !affinity::matches(&spec, node) {
        return fixed("node(s) didn't match Pod's node affinity/selector");
    }
    if used.conflicts(demand) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Some(Misfit { reasons: vec![reason.to_owned()], resolvable: true });
    }
    lacking(&allocatable(node), demand, used)
}

fn lacking(given: &Amounts, demand: &Demand, used: &Used) -> Option<Misfit> {
    let mut reasons = Vec::new();
    let mut resolvable = true;
    let pods = given.get("pods").copied().unwrap_or_default();
    let count = i64::try_from(used.count()).unwrap_or(i64::MAX - 1) + 1;
    if Milli::whole(count) > pods {
        reasons.push("Too many pods".to_owned());
    }
    for (name, wanted) in demand.requests.iter().filter(|(_, wanted)| wanted.0 > 0) {
        let total = given.get(name).copied().unwrap_or_default();
        if wanted.0 + used.of(name).0 > total.0 {
            reasons.push(format!("Insufficient {name}"));
            resolvable &= *wanted <= total;
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
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn wants(cpu: &str) -> Pod {
        pod(json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}))
    }

    #[test]
    fn pods_spread_by_load_and_then_by_name() {
        let nodes = [node("a", json!({})), node("b", json!({}))];
        let mut account = Account::default();
        let mut chosen = Vec::new();
        for uid in ["1", "2", "3", "4"] {
            let pod = wants("500m");
            let to = place(&pod, &nodes, &account).unwrap();
            account.place(uid, &to, Demand::of(&pod));
            chosen.push(to);
        }
        assert_eq!(chosen, ["a", "b", "a", "b"]);
        let full = place(&wants("500m"), &nodes, &account).unwrap_err();
        assert!(full.message.starts_with("0/2 nodes are available: 2 Too many pods. "), "{}", full.message);
    }

    #[test]
    fn the_message_counts_the_reasons() {
        let nodes = [
            node("a", json!({"spec": {"unschedulable": true}})),
            node("b", json!({})),
            node("c", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})),
        ];
        let message = place(&wants("3"), &nodes, &Account::default()).unwrap_err().message;
        assert_eq!(
            message,
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. \
             no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        );
    }

    #[test]
    fn without_nodes_it_says_so() {
        let message = place(&wants("1"), &[], &Account::default()).unwrap_err().message;
        assert_eq!(message, "no nodes available to schedule pods");
    }
}
