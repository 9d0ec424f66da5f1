//! The placed pods, counted by what affinity and spread constraints see of them.
//!
//! Pods of one namespace with the same labels and the same terms are one group. There are as many groups as workloads,
//! so that a constraint is matched against groups and never against each pod.

use std::collections::{BTreeMap, BTreeSet};

use super::terms::{Labels, PodTerms};
use crate::kinds::Pod;

/// Pods that constraints cannot tell apart.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) namespace: String,
    pub(crate) labels: Labels,
    /// Whether the pods are being deleted: spread constraints do not count them.
    pub(crate) terminating: bool,
    pub(crate) terms: PodTerms,
    /// How many pods of the group are on each node.
    pub(crate) nodes: BTreeMap<String, i64>,
}

/// All groups of placed pods.
#[derive(Debug, Default)]
pub(crate) struct PodGroups {
    groups: BTreeMap<String, Group>,
    /// The keys of the groups whose pods have terms.
    with_terms: BTreeSet<String>,
}

impl PodGroups {
    /// Counts a pod on a node.
    pub(crate) fn add(&mut self, pod: &Pod, node: &str) {
        let key = key(pod);
        let group = match self.groups.get_mut(&key) {
            Some(group) => group,
            None => {
                let group = Group {
                    namespace: pod.in_namespace().to_owned(),
                    labels: pod.metadata.labels.clone().unwrap_or_default(),
                    terminating: pod.is_deleting(),
                    terms: PodTerms::of(pod),
                    nodes: BTreeMap::new(),
                };
                if !group.terms.is_empty() {
                    self.with_terms.insert(key.clone());
                }
                self.groups.entry(key).or_insert(group)
            }
        };
        match group.nodes.get_mut(node) {
            Some(count) => *count += 1,
            None => {
                group.nodes.insert(node.to_owned(), 1);
            }
        }
    }

    /// Removes a pod that was counted on a node.
    pub(crate) fn remove(&mut self, pod: &Pod, node: &str) {
        let key = key(pod);
        let Some(group) = self.groups.get_mut(&key) else { return };
        if let Some(count) = group.nodes.get_mut(node) {
            *count -= 1;
            if *count <= 0 {
                group.nodes.remove(node);
            }
        }
        if group.nodes.is_empty() {
            self.groups.remove(&key);
            self.with_terms.remove(&key);
        }
    }

    /// Returns all groups.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// Returns the groups whose pods have terms of affinity.
    pub(crate) fn with_terms(&self) -> impl Iterator<Item = &Group> {
        self.with_terms.iter().filter_map(|key| self.groups.get(key))
    }

    /// Whether the pods of any group have terms of affinity.
    pub(crate) fn have_terms(&self) -> bool {
        !self.with_terms.is_empty()
    }
}

/// Whether two states of a pod are counted alike.
pub(crate) fn same_group(one: &Pod, other: &Pod) -> bool {
    one.metadata.labels == other.metadata.labels
        && one.is_deleting() == other.is_deleting()
        && ["podAffinity", "podAntiAffinity"]
            .iter()
            .all(|kind| one.at("spec/affinity").get(kind) == other.at("spec/affinity").get(kind))
}

/// Returns what tells a group from all others.
fn key(pod: &Pod) -> String {
    let mut key = String::with_capacity(64);
    key.push_str(if pod.is_deleting() { "-" } else { "+" });
    key.push_str(pod.in_namespace());
    for (name, value) in pod.metadata.labels.iter().flatten() {
        // Neither names nor values contain these characters.
        key.extend([",", name, "=", value]);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = pod.at("spec/affinity").get(kind);
        if !terms.is_null() {
            key.push(';');
            key.push_str(&terms.to_string());
        }
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::pod;
    use serde_json::json;

    #[test]
    fn pods_of_one_workload_are_one_group() {
        let mut groups = PodGroups::default();
        let of = |app: &str| pod(json!({"metadata": {"namespace": "n", "labels": {"app": app}}}));
        for (app, node) in [("a", "1"), ("a", "1"), ("a", "2"), ("b", "1")] {
            groups.add(&of(app), node);
        }
        let counts = |groups: &PodGroups| -> Vec<_> {
            groups.all().map(|group| (group.labels["app"].clone(), group.nodes.clone())).collect()
        };
        let nodes =
            |all: &[(&str, i64)]| all.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect();
        assert_eq!(
            counts(&groups),
            [("a".to_owned(), nodes(&[("1", 2), ("2", 1)])), ("b".to_owned(), nodes(&[("1", 1)]))]
        );
        groups.remove(&of("b"), "1");
        groups.remove(&of("a"), "1");
        assert_eq!(counts(&groups), [("a".to_owned(), nodes(&[("1", 1), ("2", 1)]))]);
    }

    #[test]
    fn groups_with_terms_are_known() {
        let mut groups = PodGroups::default();
        let shy = pod(json!({"spec": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]}}}}));
        groups.add(&shy, "1");
        groups.add(&pod(json!({})), "1");
        assert_eq!((groups.with_terms().count(), groups.all().count()), (1, 2));
        groups.remove(&shy, "1");
        assert!(!groups.have_terms());
    }
}
