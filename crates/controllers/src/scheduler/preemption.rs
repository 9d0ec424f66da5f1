//! Chooses the pods that make room for a pod of higher priority, as kube-scheduler's plugin `DefaultPreemption` does.
//!
//! *Invariant:* the scheduler's cache is the same after an evaluation as before, whatever was tried on it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::{Selector, SelectorExt};

use super::cache::{PlacedPod, SchedulerCache};
use super::placement::{self, Misfit, Misfits, describe};
use super::queue;
use crate::kinds::{Pod, PodDisruptionBudget};
use crate::object::{Fields, selector};
use crate::pod;

/// The reason of the condition `DisruptionTarget` of a pod that is preempted.
pub(crate) const REASON: &str = "PreemptionByScheduler";

/// How many nodes are tried if there are many: kube-scheduler's `minCandidateNodesAbsolute`. Of more than ten times as
/// many nodes, a tenth is tried: `minCandidateNodesPercentage`.
const CANDIDATES: usize = 100;

/// How many pods of a budget may be disrupted.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    namespace: String,
    selector: Selector,
    allowed: i64,
    /// The names of the pods whose disruption is counted already.
    disrupted: Vec<String>,
}

impl Budget {
    /// Reads a budget. One without a selector, or with an empty one, protects no pod: `None`.
    pub(crate) fn of(budget: &PodDisruptionBudget) -> Option<Self> {
        let selector = budget.label_selector("spec/selector").and_then(selector)?;
        if selector.selects_all() {
            return None;
        }
        Some(Self {
            namespace: budget.in_namespace().to_owned(),
            selector,
            allowed: budget.i64("status/disruptionsAllowed").unwrap_or(0),
            disrupted: budget.entries("status/disruptedPods").map(|(name, _)| name.to_owned()).collect(),
        })
    }

    /// Whether the budget counts the disruption of a pod. A pod without labels has no budget, as in Kubernetes.
    fn counts(&self, pod: &Pod) -> bool {
        self.namespace == pod.in_namespace()
            && pod
                .metadata
                .labels
                .as_ref()
                .is_some_and(|labels| !labels.is_empty() && self.selector.matches(labels))
            && !self.disrupted.iter().any(|name| name == pod.name())
    }
}

/// The pods to evict from a node, so that another pod fits there.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) node: String,
    /// From the most important to the least important.
    pub(crate) victims: Vec<Arc<Pod>>,
    /// How many of the victims their budgets do not allow to disrupt.
    violations: usize,
}

/// Why no pods are evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The part of the message after `preemption: `.
    pub(crate) message: String,
    /// Whether the pod keeps its nomination to a node.
    pub(crate) keeps_nomination: bool,
}

/// Returns the best node for a pod that fits nowhere, and the pods to evict from it.
pub(crate) fn evaluate(
    incoming: &PlacedPod,
    misfits: &Misfits,
    budgets: &[Budget],
    cache: &mut SchedulerCache,
) -> Result<Candidate, Refused> {
    if let Some(message) = ineligible(incoming, misfits, cache) {
        return Err(Refused { message: message.to_owned(), keeps_nomination: true });
    }
    let nodes = misfits.len();
    let potential: Vec<_> =
        misfits.iter().filter(|(_, misfit)| misfit.resolvable).map(|(node, _)| node).collect();
    let enough = potential.len().min(CANDIDATES.max(potential.len() / 10));
    let (mut candidates, mut refused) = (Vec::new(), BTreeMap::new());
    for node in potential {
        match select_victims(incoming, node, budgets, cache) {
            Ok(candidate) => candidates.push(candidate),
            Err(misfit) => drop(refused.insert(node.clone(), misfit)),
        }
        if candidates.len() >= enough && candidates.iter().any(|it: &Candidate| it.violations == 0) {
            break;
        }
    }
    candidates.into_iter().min_by_key(rank).ok_or_else(|| {
        let helpless = Misfit::new("Preemption is not helpful for scheduling", false);
        let all = misfits.keys().map(|node| refused.get(node).unwrap_or(&helpless));
        Refused { message: describe(nodes, all), keeps_nomination: false }
    })
}

/// Returns why a pod may not preempt others.
fn ineligible(incoming: &PlacedPod, misfits: &Misfits, cache: &SchedulerCache) -> Option<&'static str> {
    if incoming.pod.is("spec/preemptionPolicy", "Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = incoming.pod.str("status/nominatedNodeName").filter(|node| !node.is_empty())?;
    if misfits.get(nominated).is_some_and(|misfit| !misfit.resolvable) {
        return None;
    }
    let (_, info) = cache.get(nominated)?;
    let leaves = |other: &PlacedPod| other.pod.is_deleting() && is_preempted(&other.pod);
    let priority = queue::priority(&incoming.pod);
    let mut victims = info.pods().filter(|other| queue::priority(&other.pod) < priority);
    victims.any(leaves).then_some("not eligible due to a terminating pod on the nominated node.")
}

fn is_preempted(pod: &Pod) -> bool {
    let target = pod::condition(pod, "DisruptionTarget");
    target.is_some_and(|it| it.is("status", "True") && it.is("reason", REASON))
}

/// Returns the fewest and least important pods to evict from a node, so that a pod fits.
fn select_victims(
    incoming: &PlacedPod,
    node: &str,
    budgets: &[Budget],
    cache: &mut SchedulerCache,
) -> Result<Candidate, Misfit> {
    let priority = queue::priority(&incoming.pod);
    let Some((_, info)) = cache.get(node) else { return Err(Misfit::new("node not found", false)) };
    let lower = info.pods().filter(|other| queue::priority(&other.pod) < priority);
    let mut potential: Vec<PlacedPod> = lower.cloned().collect();
    if potential.is_empty() {
        return Err(Misfit::new("No preemption victims found for incoming pod", false));
    }
    potential.sort_by_key(importance);
    potential.iter().for_each(|victim| drop(cache.forget(victim.uid())));
    let chosen = match placement::refusal(incoming, node, cache) {
        Some(misfit) => Err(misfit),
        None => Ok(reprieve(incoming, node, &potential, budgets, cache)),
    };
    // The search removed pods from the cache. Put all of them back.
    potential.iter().for_each(|victim| cache.place(node, victim.clone()));
    match chosen {
        Ok((victims, _)) if victims.is_empty() => {
            Err(Misfit::new("No preemption victims found for incoming pod", false))
        }
        Ok((mut victims, violations)) => {
            victims.sort_by_key(importance);
            let victims = victims.into_iter().map(|victim| victim.pod).collect();
            Ok(Candidate { node: node.to_owned(), victims, violations })
        }
        Err(misfit) => Err(misfit),
    }
}

/// Puts back as many pods as possible, first those whose budgets forbid their disruption. Returns those that must go, and
/// how many of them violate a budget.
fn reprieve(
    incoming: &PlacedPod,
    node: &str,
    potential: &[PlacedPod],
    budgets: &[Budget],
    cache: &mut SchedulerCache,
) -> (Vec<PlacedPod>, usize) {
    let (protected, others) = by_budget(potential, budgets);
    let (mut victims, mut violations) = (Vec::new(), 0);
    let protected = protected.into_iter().map(|victim| (victim, 1));
    for (victim, violation) in protected.chain(others.into_iter().map(|victim| (victim, 0))) {
        cache.place(node, victim.clone());
        if placement::refusal(incoming, node, cache).is_some() {
            cache.forget(victim.uid());
            violations += violation;
            victims.push(victim.clone());
        }
    }
    (victims, violations)
}

/// Divides pods into those whose disruption would violate a budget, and the others.
fn by_budget<'a>(pods: &'a [PlacedPod], budgets: &[Budget]) -> (Vec<&'a PlacedPod>, Vec<&'a PlacedPod>) {
    let mut allowed: Vec<_> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.iter().partition(|victim| {
        let mut violates = false;
        for (_, allowed) in budgets.iter().zip(&mut allowed).filter(|(budget, _)| budget.counts(&victim.pod))
        {
            *allowed = allowed.saturating_sub(1);
            violates |= *allowed < 0;
        }
        violates
    })
}

/// The order of importance: higher priority first, then who started first.
fn importance(placed: &PlacedPod) -> (Reverse<i32>, Timestamp, String) {
    (Reverse(queue::priority(&placed.pod)), started(&placed.pod), placed.pod.name().to_owned())
}

/// Returns when a pod started. One that has not started counts as started at the end of time.
fn started(pod: &Pod) -> Timestamp {
    pod.time("status/startTime").unwrap_or(Timestamp::MAX)
}

/// The order in which nodes are preferred: the fewest violated budgets; then the lowest priority of the most important
/// victim, the lowest sum of priorities and the fewest victims; then the latest start of the most important victims; then
/// the name.
fn rank(candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Timestamp>, String) {
    let priority = |pod: &Arc<Pod>| queue::priority(pod);
    let highest = candidate.victims.iter().map(priority).max().unwrap_or(0);
    // All priorities count as positive, so that a node with fewer pods of negative priority is preferred.
    let sum = candidate.victims.iter().map(|pod| i64::from(priority(pod)) + i64::from(i32::MAX) + 1);
    let foremost = candidate.victims.iter().filter(|pod| priority(pod) == highest);
    let earliest = foremost.map(|pod| started(pod)).min().unwrap_or(Timestamp::MAX);
    (
        candidate.violations,
        highest,
        sum.fold(0, i64::saturating_add),
        candidate.victims.len(),
        Reverse(earliest),
        candidate.node.clone(),
    )
}

#[cfg(test)]
mod tests;
