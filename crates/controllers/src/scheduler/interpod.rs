//! Pod affinity and pod anti-affinity, as kube-scheduler's plugin `InterPodAffinity` judges them.

use std::collections::BTreeMap;

use super::cache::SchedulerCache;
use super::groups::Group;
use super::terms::{Labels, PodTerms, Term};
use crate::kinds::{Node, Pod};

/// Sums by domain: by the key and the value of a label of nodes.
type Domains = BTreeMap<String, BTreeMap<String, i64>>;

/// What a placed pod's required affinity for an incoming pod weighs when nodes are scored: kube-scheduler's
/// `hardPodAffinityWeight`.
const HARD_AFFINITY_WEIGHT: i64 = 1;

/// The placed pods, as an incoming pod's terms and their own terms see them.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    terms: PodTerms,
    /// The pods that all affinity terms select, by the domains of each term.
    affinity: Domains,
    /// The pods that an anti-affinity term selects.
    anti_affinity: Domains,
    /// The pods whose own anti-affinity terms select the incoming pod.
    opposed: Domains,
    /// The sum of the weights of preferences, of either side.
    preferred: Domains,
    /// Whether the pod's affinity terms select the pod itself: the first pod of such a group may be placed anywhere.
    selects_itself: bool,
}

impl Neighbours {
    /// Looks at the placed pods from an incoming pod's point of view.
    pub(crate) fn of(pod: &Pod, cache: &SchedulerCache) -> Self {
        let mut seen = Self { terms: PodTerms::of(pod), ..Self::default() };
        let groups = cache.groups();
        if seen.terms.is_empty() && !groups.have_terms() {
            return seen;
        }
        let empty = Labels::new();
        let (namespace, labels) = (pod.in_namespace(), pod.metadata.labels.as_ref().unwrap_or(&empty));
        let selects = |term: &Term| term.matches(namespace, labels, cache.namespaces());
        for group in groups.with_terms() {
            let of_group = |terms: &[Term], domains: &mut Domains, weight: i64| {
                terms
                    .iter()
                    .filter(|term| selects(term))
                    .for_each(|term| count(domains, term, group, cache, weight));
            };
            of_group(&group.terms.anti_affinity, &mut seen.opposed, 1);
            of_group(&group.terms.affinity, &mut seen.preferred, HARD_AFFINITY_WEIGHT);
            for (term, weight) in group.terms.preferred.iter().filter(|(term, _)| selects(term)) {
                count(&mut seen.preferred, term, group, cache, *weight);
            }
        }
        if !seen.terms.is_empty() {
            seen.look_around(cache);
            seen.selects_itself = seen.terms.affinity.iter().all(selects);
        }
        seen
    }

    /// Counts the pods that the incoming pod's own terms select.
    fn look_around(&mut self, cache: &SchedulerCache) {
        let Self { terms, affinity, anti_affinity, preferred, .. } = self;
        for group in cache.groups().all() {
            let selects = |term: &Term| term.matches(&group.namespace, &group.labels, cache.namespaces());
            if terms.affinity.iter().all(selects) {
                terms.affinity.iter().for_each(|term| count(affinity, term, group, cache, 1));
            }
            for term in terms.anti_affinity.iter().filter(|term| selects(term)) {
                count(anti_affinity, term, group, cache, 1);
            }
            for (term, weight) in terms.preferred.iter().filter(|(term, _)| selects(term)) {
                count(preferred, term, group, cache, *weight);
            }
        }
    }

    /// Returns why the pod may not be on a node because of other pods, and whether removing pods could help.
    pub(crate) fn misfit(&self, node: &Node) -> Option<(&'static str, bool)> {
        if !self.affinity_holds(node) {
            return Some(("node(s) didn't match pod affinity rules", false));
        }
        let near = |term: &Term| at(&self.anti_affinity, &term.topology_key, node) > 0;
        if self.terms.anti_affinity.iter().any(near) {
            return Some(("node(s) didn't match pod anti-affinity rules", true));
        }
        if self.opposed.keys().any(|key| at(&self.opposed, key, node) > 0) {
            return Some(("node(s) didn't satisfy existing pods anti-affinity rules", true));
        }
        None
    }

    fn affinity_holds(&self, node: &Node) -> bool {
        let terms = &self.terms.affinity;
        if terms.iter().any(|term| node.label(&term.topology_key).is_none()) {
            return false;
        }
        terms.iter().all(|term| at(&self.affinity, &term.topology_key, node) > 0)
            || (self.affinity.is_empty() && self.selects_itself)
    }

    /// Returns the sum of the weights of the preferences that a node satisfies.
    pub(crate) fn preference(&self, node: &Node) -> i64 {
        self.preferred.keys().map(|key| at(&self.preferred, key, node)).sum()
    }

    /// Whether other pods matter for the choice among nodes.
    pub(crate) fn prefer(&self) -> bool {
        !self.preferred.is_empty()
    }
}

/// Adds the pods of a group to their domains of a term's topology, with a weight for each.
fn count(domains: &mut Domains, term: &Term, group: &Group, cache: &SchedulerCache, weight: i64) {
    for (node, pods) in &group.nodes {
        let Some(value) = cache.node(node).and_then(|node| node.label(&term.topology_key)) else { continue };
        let domain =
            domains.entry(term.topology_key.clone()).or_default().entry(value.to_owned()).or_default();
        *domain = domain.saturating_add(pods.saturating_mul(weight));
    }
}

/// Returns the sum of the domain that a node is in.
fn at(domains: &Domains, key: &str, node: &Node) -> i64 {
    let sum = || domains.get(key)?.get(node.label(key)?).copied();
    sum().unwrap_or(0)
}
