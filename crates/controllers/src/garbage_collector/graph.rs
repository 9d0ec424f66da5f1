//! The graph of owners and dependents: the objects of all kinds by uid, and the dependents of each owner.
//!
//! Metadata informers update the graph. For each change, it returns the uids that must be checked. No operation walks over
//! all objects: a change concerns an object, its owners and its dependents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::metadata_informers::Resource;

/// The finalizer of an owner that is deleted in the foreground, until the dependents that block it are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of an owner that orphans its dependents, until they no longer name it.
pub(crate) const ORPHAN: &str = "orphan";

/// One object, as the informers show it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Shared by all objects of the resource.
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) owners: Vec<OwnerReference>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) deleting: bool,
}

impl Node {
    /// The node of an object; `None` without a name or uid.
    pub(crate) fn new(resource: &Arc<Resource>, metadata: &ObjectMeta) -> Option<Self> {
        Some(Self {
            resource: resource.clone(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone()?,
            uid: metadata.uid.clone()?,
            owners: metadata.owner_references.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        })
    }

    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|present| present == finalizer)
    }

    /// Whether the object is being deleted in the foreground and waits for its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(FOREGROUND)
    }

    /// Whether the object is being deleted and orphans its dependents.
    pub(crate) fn orphans_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(ORPHAN)
    }

    /// Whether the object blocks the foreground deletion of this owner.
    pub(crate) fn blocks(&self, owner: &str) -> bool {
        self.owners
            .iter()
            .any(|reference| reference.uid == owner && reference.block_owner_deletion == Some(true))
    }
}

/// The graph. Each update returns the uids that must be checked.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: BTreeMap<String, Node>,
    /// From the uid of an owner, known or not, to the uids of its dependents.
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Returns the object with this uid.
    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Returns the dependents of this uid.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|dependent| self.nodes.get(dependent))
    }

    /// Adds or updates an object.
    pub(crate) fn observe(&mut self, node: Node) -> BTreeSet<String> {
        let mut concerned = BTreeSet::new();
        let uid = node.uid.clone();
        let before = self.nodes.remove(&uid);
        let owners_before: Vec<_> = before.iter().flat_map(|before| before.owners.clone()).collect();
        for owner in &owners_before {
            self.unlink(&owner.uid, &uid);
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        let owners_changed = owners_before != node.owners;
        if owners_changed && node.owners.iter().any(|owner| self.is_suspect(&owner.uid, &node)) {
            concerned.insert(uid.clone());
        }
        // A former owner may no longer have to wait for this object.
        for owner in owners_before.iter().filter(|_| owners_changed) {
            concerned.extend(self.waiting(&owner.uid));
        }
        let newly = |is: fn(&Node) -> bool| is(&node) && !before.as_ref().is_some_and(is);
        if newly(Node::waits_for_dependents) {
            concerned.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
            concerned.insert(uid.clone());
        }
        if newly(Node::orphans_dependents) {
            concerned.insert(uid.clone());
        }
        // A dependent that begins to wait may close a cycle in which its owner waits.
        if newly(|node| node.deleting) {
            concerned.extend(node.owners.iter().flat_map(|owner| self.waiting(&owner.uid)));
        }
        self.nodes.insert(uid, node);
        concerned
    }

    /// Removes an object.
    pub(crate) fn forget(&mut self, uid: &str) -> BTreeSet<String> {
        let mut concerned: BTreeSet<String> = self.dependents.get(uid).cloned().unwrap_or_default();
        if let Some(node) = self.nodes.remove(uid) {
            for owner in &node.owners {
                self.unlink(&owner.uid, uid);
                concerned.extend(self.waiting(&owner.uid));
            }
        }
        concerned
    }

    /// Whether an owner is unknown, in another namespace, or waits for its dependents, so that the object must be checked.
    fn is_suspect(&self, owner: &str, node: &Node) -> bool {
        match self.nodes.get(owner) {
            None => true,
            Some(owner) => owner.waits_for_dependents() || !is_reachable(owner, node),
        }
    }

    fn waiting(&self, uid: &str) -> Option<String> {
        self.nodes.get(uid).filter(|node| node.waits_for_dependents()).map(|node| node.uid.clone())
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}

/// Whether an object may have that owner: one in the same namespace, or a cluster-scoped one.
pub(crate) fn is_reachable(owner: &Node, node: &Node) -> bool {
    owner.namespace.is_none() || owner.namespace == node.namespace
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) fn node(uid: &str, owners: &[(&str, bool)]) -> Node {
        let owners: Vec<_> = owners
            .iter()
            .map(|(uid, block)| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": block}))
            .collect();
        let metadata = json!({"name": uid, "namespace": "default", "uid": uid, "ownerReferences": owners});
        Node::new(&Resource::tests_config_maps(), &serde_json::from_value(metadata).unwrap()).unwrap()
    }

    pub(crate) fn deleting(mut node: Node, finalizers: &[&str]) -> Node {
        node.deleting = true;
        node.finalizers = finalizers.iter().map(|finalizer| finalizer.to_string()).collect();
        node
    }

    fn set(uids: &[&str]) -> BTreeSet<String> {
        uids.iter().map(|uid| uid.to_string()).collect()
    }

    #[test]
    fn an_owner_that_goes_concerns_its_dependents_alone() {
        let mut graph = Graph::default();
        assert_eq!(graph.observe(node("a", &[])), set(&[]));
        assert_eq!(graph.observe(node("b", &[("a", false)])), set(&[]));
        assert_eq!(graph.observe(node("c", &[("a", false)])), set(&[]));
        graph.observe(node("d", &[]));
        assert_eq!(graph.forget("a"), set(&["b", "c"]));
    }

    #[test]
    fn an_unknown_owner_is_a_reason_to_look() {
        assert_eq!(Graph::default().observe(node("b", &[("a", false)])), set(&["b"]));
    }

    #[test]
    fn an_owner_elsewhere_is_a_reason_to_look() {
        let mut graph = Graph::default();
        let mut owner = node("a", &[]);
        owner.namespace = Some("other".to_owned());
        graph.observe(owner);
        assert_eq!(graph.observe(node("b", &[("a", false)])), set(&["b"]));
    }

    #[test]
    fn a_foreground_deletion_concerns_all_and_then_the_owner() {
        let mut graph = Graph::default();
        graph.observe(node("a", &[]));
        graph.observe(node("b", &[("a", true)]));
        assert_eq!(graph.observe(deleting(node("a", &[]), &[FOREGROUND])), set(&["a", "b"]));
        assert_eq!(graph.observe(deleting(node("a", &[]), &[FOREGROUND])), set(&[]), "said once");
        assert_eq!(graph.forget("b"), set(&["a"]));
    }

    #[test]
    fn an_orphaning_deletion_concerns_the_owner() {
        let mut graph = Graph::default();
        graph.observe(node("a", &[]));
        assert_eq!(graph.observe(deleting(node("a", &[]), &[ORPHAN])), set(&["a"]));
    }
}
