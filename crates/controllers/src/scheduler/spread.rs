//! Topology spread constraints, as kube-scheduler's plugin `PodTopologySpread` judges them.

use std::collections::BTreeMap;

use evenkeel_tree::Tree;
use kube::core::{Selector, SelectorExt};

use super::affinity;
use super::cache::SchedulerCache;
use super::terms::Labels;
use crate::kinds::{Node, Pod};
use crate::object::{Fields, selector};

/// The label whose domains are single nodes.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// One constraint, with the pods that it counts.
#[derive(Debug)]
struct Constraint {
    key: String,
    max_skew: i64,
    /// `minDomains`: with fewer domains than this, the emptiest domain counts as having no pods.
    min_domains: i64,
    selector: Option<Selector>,
    honors_affinity: bool,
    honors_taints: bool,
    /// How many pods match in each domain, by the value of the label.
    domains: BTreeMap<String, i64>,
}

/// The spread constraints of an incoming pod.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// The constraints that a node must satisfy.
    required: Vec<Constraint>,
    /// The constraints by which nodes are preferred.
    preferred: Vec<Constraint>,
    /// The labels of the pod.
    labels: Labels,
}

impl Spread {
    /// Counts the placed pods for the constraints of an incoming pod.
    pub(crate) fn of(pod: &Pod, cache: &SchedulerCache) -> Self {
        let constraints = pod.list("spec/topologySpreadConstraints");
        if constraints.is_empty() {
            return Self::default();
        }
        let read = |when: &str| {
            let wanted = constraints
                .iter()
                .filter(|it| it.str("whenUnsatisfiable").unwrap_or("DoNotSchedule") == when);
            counted(pod, wanted.map(Constraint::of).collect(), cache)
        };
        Self {
            required: read("DoNotSchedule"),
            preferred: read("ScheduleAnyway"),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
        }
    }

    /// Returns why the pod may not be on a node, and whether removing pods could help.
    pub(crate) fn misfit(&self, node: &Node) -> Option<(&'static str, bool)> {
        for constraint in &self.required {
            let Some(value) = node.label(&constraint.key) else {
                let missing = "node(s) didn't match pod topology spread constraints (missing required label)";
                return Some((missing, false));
            };
            let present = constraint.domains.get(value).copied().unwrap_or(0);
            let own = i64::from(constraint.selects(&self.labels));
            if present.saturating_add(own).saturating_sub(constraint.least()) > constraint.max_skew {
                return Some(("node(s) didn't match pod topology spread constraints", true));
            }
        }
        None
    }

    /// Whether constraints matter for the choice among nodes.
    pub(crate) fn prefer(&self) -> bool {
        !self.preferred.is_empty()
    }

    /// Returns how crowded the domains of a node are: less is better. `None` if the node lacks one of the labels.
    pub(crate) fn crowding(&self, node: &Node, feasible: usize) -> Option<i64> {
        let mut score = 0.0;
        for constraint in &self.preferred {
            let present = constraint.domains.get(node.label(&constraint.key)?).copied().unwrap_or(0);
            let domains = if constraint.key == HOSTNAME { feasible } else { constraint.domains.len() };
            score += as_f64(present) * as_f64(i64::try_from(domains).unwrap_or(i64::MAX - 2) + 2).ln();
            score += as_f64(constraint.max_skew - 1);
        }
        #[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates")]
        Some(score.round() as i64)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a score need not be exact")]
fn as_f64(number: i64) -> f64 {
    number as f64
}

impl Constraint {
    fn of(constraint: &Tree) -> Self {
        Self {
            key: constraint.str("topologyKey").unwrap_or_default().to_owned(),
            max_skew: constraint.i64("maxSkew").unwrap_or(1),
            min_domains: constraint.i64("minDomains").unwrap_or(1),
            selector: constraint.label_selector("labelSelector").and_then(selector),
            honors_affinity: !constraint.is("nodeAffinityPolicy", "Ignore"),
            honors_taints: constraint.is("nodeTaintsPolicy", "Honor"),
            domains: BTreeMap::new(),
        }
    }

    fn selects(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Whether the pods on a node count.
    fn includes(&self, spec: &Tree, node: &Node) -> bool {
        (!self.honors_affinity || affinity::matches(spec, node))
            && (!self.honors_taints
                || affinity::untolerated(spec, node, &["NoSchedule", "NoExecute"]).is_none())
    }

    /// Returns the number of pods in the emptiest domain.
    fn least(&self) -> i64 {
        let domains = i64::try_from(self.domains.len()).unwrap_or(i64::MAX);
        if domains < self.min_domains { 0 } else { self.domains.values().copied().min().unwrap_or(0) }
    }
}

/// Counts the pods for some constraints. Only nodes with the labels of all of them count.
fn counted(pod: &Pod, mut constraints: Vec<Constraint>, cache: &SchedulerCache) -> Vec<Constraint> {
    if constraints.is_empty() {
        return constraints;
    }
    let keys: Vec<_> = constraints.iter().map(|it| it.key.clone()).collect();
    let spec = pod.at("spec");
    let pods_of = |constraint: &Constraint| {
        let groups =
            cache.groups().all().filter(|group| !group.terminating && group.namespace == pod.in_namespace());
        let mut by_node: BTreeMap<&str, i64> = BTreeMap::new();
        for group in groups.filter(|group| constraint.selects(&group.labels)) {
            group.nodes.iter().for_each(|(node, count)| *by_node.entry(node).or_default() += count);
        }
        by_node
    };
    for constraint in &mut constraints {
        let by_node = pods_of(constraint);
        for node in cache.nodes().filter(|node| keys.iter().all(|key| node.label(key).is_some())) {
            if constraint.includes(spec, node) {
                let value = node.label(&constraint.key).unwrap_or_default().to_owned();
                *constraint.domains.entry(value).or_default() +=
                    by_node.get(node.name()).copied().unwrap_or(0);
            }
        }
    }
    constraints
}
