//! Chooses the node for a pod, or explains in Kubernetes' words why no node fits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_schema::pod_resources::Amounts;
use evenkeel_schema::quantity::{Format, Quantity};

use super::affinity;
use super::cache::{NodeInfo, PlacedPod, PodRequests, SchedulerCache};
use super::interpod::Neighbours;
use super::queue;
use super::spread::Spread;
use crate::kinds::{Node, Pod};

/// Why a node does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) reasons: Vec<String>,
    /// Whether evicting other pods could make room.
    pub(crate) resolvable: bool,
}

impl Misfit {
    /// A misfit for one reason.
    pub(crate) fn new(reason: impl Into<String>, resolvable: bool) -> Self {
        Self { reasons: vec![reason.into()], resolvable }
    }
}

/// Why no node fits, by the name of the node.
pub(crate) type Misfits = BTreeMap<String, Misfit>;

/// Where a pod may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The node that fits best.
    Node(String),
    /// No node fits.
    None(Misfits),
}

/// What constraints between pods mean for an incoming pod.
#[derive(Debug, Default)]
struct Relations {
    neighbours: Neighbours,
    spread: Spread,
}

impl Relations {
    fn of(pod: &Pod, cache: &SchedulerCache) -> Self {
        Self { neighbours: Neighbours::of(pod, cache), spread: Spread::of(pod, cache) }
    }
}

/// Finds the node that fits a pod best. The node that the pod is nominated to comes first, if the pod fits there.
pub(crate) fn place(incoming: &PlacedPod, cache: &mut SchedulerCache) -> Placement {
    let relations = Relations::of(&incoming.pod, cache);
    if let Some(node) = incoming.pod.str("status/nominatedNodeName")
        && cache.node(node).is_some()
        && misfit_with_nominated(incoming, node, &relations, cache).is_none()
    {
        return Placement::Node(node.to_owned());
    }
    let (mut misfits, mut feasible) = (Misfits::new(), Vec::new());
    let judged: Vec<_> =
        cache.all().map(|(node, info)| (node.clone(), misfit(incoming, node, info, &relations))).collect();
    for (node, judgement) in judged {
        let judgement = judgement.or_else(|| misfit_of_nominated(incoming, node.name(), cache));
        match judgement {
            Some(misfit) => drop(misfits.insert(node.name().to_owned(), misfit)),
            None => feasible.push(node),
        }
    }
    match best(incoming, &feasible, &relations, cache) {
        Some(node) => Placement::Node(node),
        None => Placement::None(misfits),
    }
}

/// Returns why a pod does not fit on a node; `None` if it fits. Pods of the same or a higher priority that are
/// nominated to the node count as placed there.
pub(crate) fn refusal(incoming: &PlacedPod, node: &str, cache: &mut SchedulerCache) -> Option<Misfit> {
    let relations = Relations::of(&incoming.pod, cache);
    misfit_with_nominated(incoming, node, &relations, cache)
}

fn misfit_with_nominated(
    incoming: &PlacedPod,
    node: &str,
    relations: &Relations,
    cache: &mut SchedulerCache,
) -> Option<Misfit> {
    let (found, info) = cache.get(node)?;
    misfit(incoming, found, info, relations).or_else(|| misfit_of_nominated(incoming, node, cache))
}

/// Returns why a pod does not fit beside the pods of the same or a higher priority that are nominated to a node.
fn misfit_of_nominated(incoming: &PlacedPod, node: &str, cache: &mut SchedulerCache) -> Option<Misfit> {
    let priority = queue::priority(&incoming.pod);
    let before = |other: &&PlacedPod| {
        queue::priority(&other.pod) >= priority
            && other.uid() != incoming.uid()
            && !cache.is_placed(other.uid())
    };
    let nominated: Vec<_> = cache.nominated(node).filter(before).cloned().collect();
    if nominated.is_empty() {
        return None;
    }
    nominated.iter().for_each(|other| cache.place(node, other.clone()));
    let relations = Relations::of(&incoming.pod, cache);
    let found = cache.get(node).and_then(|(found, info)| misfit(incoming, found, info, &relations));
    nominated.iter().for_each(|other| drop(cache.forget(other.uid())));
    found
}

/// Preference, load, number of pods. Higher is better. The first node by name wins among nodes of the same score.
type Score = (i64, Reverse<i128>, Reverse<usize>);

fn best(
    incoming: &PlacedPod,
    feasible: &[Arc<Node>],
    relations: &Relations,
    cache: &SchedulerCache,
) -> Option<String> {
    let preferences = preferences(incoming, feasible, relations);
    let mut best: Option<(Score, &Arc<Node>)> = None;
    for (index, node) in feasible.iter().enumerate() {
        let Some((_, info)) = cache.get(node.name()) else { continue };
        let preference = preferences.as_ref().and_then(|all| all.get(index)).copied().unwrap_or(0);
        let load = load(&incoming.requests, info);
        let score = (preference, Reverse(load), Reverse(info.pod_count()));
        if best.as_ref().is_none_or(|(highest, _)| score > *highest) {
            best = Some((score, node));
        }
    }
    best.map(|(_, node)| node.name().to_owned())
}

/// The weights of kube-scheduler's plugins for taints, and for affinity and spread.
const TAINTS: i64 = 3;
const OTHERS: i64 = 2;

/// Returns how much the pod prefers each node, by kube-scheduler's weights; `None` if it has no preference.
fn preferences(incoming: &PlacedPod, feasible: &[Arc<Node>], relations: &Relations) -> Option<Vec<i64>> {
    let spec = incoming.pod.at("spec");
    let Relations { neighbours, spread } = relations;
    let tainted = feasible.iter().any(|node| affinity::is_avoided(node));
    let liked = affinity::has_preference(spec);
    if !(tainted || liked || neighbours.prefer() || spread.prefer()) {
        return None;
    }
    let mut sums = vec![0_i64; feasible.len()];
    let mut add = |weight: i64, scores: Vec<i64>| {
        sums.iter_mut()
            .zip(scores)
            .for_each(|(sum, score)| *sum = sum.saturating_add(score.saturating_mul(weight)));
    };
    if tainted {
        let avoided = |node: &Arc<Node>| -affinity::avoidance(spec, node);
        add(TAINTS, normalized(feasible.iter().map(avoided)));
    }
    if liked {
        add(OTHERS, normalized(feasible.iter().map(|node| affinity::preference(spec, node).into())));
    }
    if neighbours.prefer() {
        add(OTHERS, normalized(feasible.iter().map(|node| neighbours.preference(node))));
    }
    if spread.prefer() {
        let crowding: Vec<_> = feasible.iter().map(|node| spread.crowding(node, feasible.len())).collect();
        let worst = crowding.iter().flatten().max().copied().unwrap_or(0);
        // A node without the labels is the worst choice.
        let beyond = worst.saturating_add(1);
        add(OTHERS, normalized(crowding.into_iter().map(|crowding| -crowding.unwrap_or(beyond))));
    }
    Some(sums)
}

/// Maps scores to the range from 0 to 100, in the same order.
fn normalized(scores: impl Iterator<Item = i64>) -> Vec<i64> {
    let scores: Vec<_> = scores.collect();
    let least = scores.iter().min().copied().unwrap_or(0);
    let range = i128::from(scores.iter().max().copied().unwrap_or(0)) - i128::from(least);
    let scaled = |score: i64| match range {
        0 => 0,
        _ => i64::try_from((i128::from(score) - i128::from(least)) * 100 / range).unwrap_or(100),
    };
    scores.into_iter().map(scaled).collect()
}

/// Returns how full the fuller of cpu and memory would be with the pod, in thousandths.
fn load(requests: &PodRequests, info: &NodeInfo) -> i128 {
    let milli = |amount: Option<&Quantity>| amount.map_or(0, |amount| i128::from(amount.milli_value()));
    let full = |resource: &str| {
        let total = milli(info.allocatable().get(resource));
        let taken = milli(info.requested(resource)) + milli(requests.amounts.get(resource));
        if total == 0 { 0 } else { taken * 1000 / total }
    };
    full("cpu").max(full("memory"))
}

/// Returns why the node does not fit the pod, or `None` if it fits.
///
/// The first check that fails decides, in the order of kube-scheduler's plugins. The check of resources reports all that
/// lack.
fn misfit(incoming: &PlacedPod, node: &Node, info: &NodeInfo, relations: &Relations) -> Option<Misfit> {
    let spec = incoming.pod.at("spec");
    if node.is_true("spec/unschedulable") && !affinity::tolerates_unschedulable(spec) {
        return Some(Misfit::new("node(s) were unschedulable", false));
    }
    if affinity::untolerated(spec, node, &["NoSchedule", "NoExecute"]).is_some() {
        return Some(Misfit::new("node(s) had untolerated taint(s)", false));
    }
    if !affinity::matches(spec, node) {
        return Some(Misfit::new("node(s) didn't match Pod's node affinity/selector", false));
    }
    if info.has_port_conflict(&incoming.requests) {
        return Some(Misfit::new("node(s) didn't have free ports for the requested pod ports", true));
    }
    if let Some(misfit) = insufficient(info.allocatable(), &incoming.requests, info) {
        return Some(misfit);
    }
    let related = relations.spread.misfit(node).or_else(|| relations.neighbours.misfit(node));
    related.map(|(reason, resolvable)| Misfit::new(reason, resolvable))
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

/// The message about a pod for which there is no node at all.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// Returns how many nodes do not fit, and why, in the words of kube-scheduler.
pub(crate) fn describe<'a>(nodes: usize, misfits: impl Iterator<Item = &'a Misfit>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in misfits.flat_map(|misfit| &misfit.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let mut lines: Vec<_> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    lines.sort();
    format!("0/{nodes} nodes are available: {}.", lines.join(", "))
}

#[cfg(test)]
mod tests;
