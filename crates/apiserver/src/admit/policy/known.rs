//! The policies that there are, compiled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_schema::policy::{MutatingPolicy, Policy};
use evenkeel_store::{Range, Store};
use parking_lot::RwLock;
use serde_json::Value;

use super::GROUP;
use crate::Header;
use crate::registry::storage_prefix;

/// A policy with its bindings.
#[derive(Debug)]
pub(super) struct Hook<P> {
    pub(super) name: String,
    pub(super) spec: Value,
    pub(super) policy: P,
    pub(super) bindings: Vec<Binding>,
}

/// Where a policy holds, and with what parameters.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) spec: Value,
}

/// All policies that are bound, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Bound {
    pub(super) validating: Vec<Hook<Policy>>,
    pub(super) mutating: Vec<Hook<MutatingPolicy>>,
}

/// All policies that are bound, read from the store when one of them has changed.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    current: RwLock<Option<Arc<Bound>>>,
    /// Counts the changes, so that what was read before one is not kept after it.
    changes: AtomicU64,
}

impl Policies {
    /// Notes that a policy or a binding has changed.
    pub(crate) fn forget(&self) {
        let mut current = self.current.write();
        self.changes.fetch_add(1, Ordering::SeqCst);
        *current = None;
    }

    /// The policies that are bound.
    pub(super) fn current(&self, store: &Store<Header>) -> Arc<Bound> {
        if let Some(current) = &*self.current.read() {
            return current.clone();
        }
        let before = self.changes.load(Ordering::SeqCst);
        let read = Arc::new(read(store));
        let mut current = self.current.write();
        if self.changes.load(Ordering::SeqCst) == before {
            *current = Some(read.clone());
        }
        read
    }
}

fn read(store: &Store<Header>) -> Bound {
    Bound {
        validating: hooks(
            store,
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            Policy::compile,
        ),
        mutating: hooks(
            store,
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            MutatingPolicy::compile,
        ),
    }
}

fn hooks<P>(store: &Store<Header>, policies: &str, bindings: &str, compile: fn(&Value) -> P) -> Vec<Hook<P>> {
    let bindings = objects(store, bindings);
    if bindings.is_empty() {
        return Vec::new();
    }
    let hook = |(name, spec): (String, Value)| {
        let own = bindings.iter().filter(|(_, binding)| binding["policyName"] == name.as_str());
        let bindings: Vec<Binding> =
            own.map(|(name, spec)| Binding { name: name.clone(), spec: spec.clone() }).collect();
        (!bindings.is_empty()).then(|| Hook { policy: compile(&spec), name, spec, bindings })
    };
    objects(store, policies).into_iter().filter_map(hook).collect()
}

/// The names and specs of all objects of a resource.
fn objects(store: &Store<Header>, plural: &str) -> Vec<(String, Value)> {
    let range = Range { prefix: storage_prefix(GROUP, plural), ..Range::default() };
    let entries = store.range(&range).map(|page| page.entries).unwrap_or_default();
    let object = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    entries.iter().map(|entry| (entry.header.name.to_string(), object(&entry.value)["spec"].take())).collect()
}
