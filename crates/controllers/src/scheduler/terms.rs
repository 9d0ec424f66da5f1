//! The terms by which a pod wants to be near other pods, or away from them: pod affinity and pod anti-affinity.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_tree::Tree;
use kube::core::{Selector, SelectorExt};

use crate::kinds::Pod;
use crate::object::{Fields, selector};

/// The labels of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// The labels of the namespaces, by name.
pub(crate) type NamespaceLabels = BTreeMap<String, Labels>;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Selects pods, and says in which topology they count.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    /// The label of nodes whose values are the domains, such as `topology.kubernetes.io/zone`.
    pub(crate) topology_key: String,
    namespaces: BTreeSet<String>,
    /// Selects further namespaces by their labels.
    namespace_selector: Option<Selector>,
    /// `None` selects no pod.
    selector: Option<Selector>,
}

impl Term {
    fn of(term: &Tree, namespace: &str) -> Self {
        let mut namespaces: BTreeSet<_> = term.texts("namespaces").map(str::to_owned).collect();
        let namespace_selector = term.label_selector("namespaceSelector").and_then(selector);
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.insert(namespace.to_owned());
        }
        Self {
            topology_key: term.str("topologyKey").unwrap_or_default().to_owned(),
            namespaces,
            namespace_selector,
            selector: term.label_selector("labelSelector").and_then(selector),
        }
    }

    /// Whether the term selects a pod of this namespace with these labels.
    pub(crate) fn matches(&self, namespace: &str, labels: &Labels, known: &NamespaceLabels) -> bool {
        let in_namespace = || {
            let empty = Labels::new();
            self.namespaces.contains(namespace)
                || self
                    .namespace_selector
                    .as_ref()
                    .is_some_and(|selector| selector.matches(known.get(namespace).unwrap_or(&empty)))
        };
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels)) && in_namespace()
    }
}

/// All terms of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodTerms {
    /// The pod must be in a domain with a pod that all of these select.
    pub(crate) affinity: Vec<Term>,
    /// The pod must not be in a domain with a pod that one of these selects.
    pub(crate) anti_affinity: Vec<Term>,
    /// Preferences with their weights, which are negative for anti-affinity.
    pub(crate) preferred: Vec<(Term, i64)>,
}

impl PodTerms {
    /// Reads the terms of a pod.
    pub(crate) fn of(pod: &Pod) -> Self {
        let namespace = pod.in_namespace();
        let (near, far) = (pod.at("spec/affinity/podAffinity"), pod.at("spec/affinity/podAntiAffinity"));
        let required =
            |tree: &Tree| tree.list(REQUIRED).iter().map(|term| Term::of(term, namespace)).collect();
        let preferred = |tree: &Tree, sign: i64| -> Vec<_> {
            let weighted = tree.list(PREFERRED).iter();
            weighted
                .map(|it| {
                    let weight = it.i64("weight").unwrap_or(0).clamp(0, 100);
                    (Term::of(it.at("podAffinityTerm"), namespace), sign * weight)
                })
                .collect()
        };
        Self {
            affinity: required(near),
            anti_affinity: required(far),
            preferred: [preferred(near, 1), preferred(far, -1)].concat(),
        }
    }

    /// Whether there are no terms.
    pub(crate) fn is_empty(&self) -> bool {
        self.affinity.is_empty() && self.anti_affinity.is_empty() && self.preferred.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::tests::pod;
    use serde_json::json;

    #[test]
    fn a_term_without_namespaces_selects_in_its_own() {
        let terms = PodTerms::of(&pod(
            json!({"metadata": {"namespace": "own"}, "spec": {"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}},
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, "namespaceSelector": {"matchLabels": {"team": "x"}}},
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}, "namespaceSelector": {}},
                {"topologyKey": "zone"}]}}}}),
        ));
        let labels = |key: &str, value: &str| Labels::from([(key.to_owned(), value.to_owned())]);
        let known =
            NamespaceLabels::from([("own".to_owned(), Labels::new()), ("x".to_owned(), labels("team", "x"))]);
        let selects = |index: usize, namespace: &str| {
            terms.affinity[index].matches(namespace, &labels("app", "a"), &known)
        };
        assert_eq!([selects(0, "own"), selects(0, "x")], [true, false]);
        assert_eq!([selects(1, "own"), selects(1, "x")], [false, true]);
        assert_eq!([selects(2, "own"), selects(2, "x")], [true, true]);
        assert!(!selects(3, "own"), "without a selector, a term selects no pod");
    }
}
