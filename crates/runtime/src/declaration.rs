//! What a controller declares to do with a kind: the base of its RBAC rules.

use std::any::TypeId;
use std::collections::BTreeSet;

use kube::core::ApiResource;

/// What a controller does with the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Reconciles them.
    Primary,
    /// Creates them and owns them.
    Owned,
    /// Reads them.
    Read,
}

/// A kind that a controller watches, and what for.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) resource: ApiResource,
    /// The Rust type of the objects in the cache.
    pub(crate) type_id: TypeId,
    /// The namespaces that are watched; empty for all.
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) purpose: Purpose,
    /// Whether objects of this kind are known to live in namespaces.
    pub(crate) namespaced: bool,
    /// Whether objects of this kind own others.
    pub(crate) owns: bool,
}

impl Declaration {
    /// Limits a declaration of all namespaces to these, if its kind lives in namespaces.
    pub(crate) fn within(mut self, namespaces: &BTreeSet<String>) -> Self {
        if self.namespaced && self.namespaces.is_empty() {
            self.namespaces.clone_from(namespaces);
        }
        self
    }
}
