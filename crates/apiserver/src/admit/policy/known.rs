//! The policies and webhooks that there are, compiled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_schema::policy::{Conditions, MutatingPolicy, Policy};
use evenkeel_store::{Range, Store};
use parking_lot::RwLock;
use serde_json::{Value, json};

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

/// Whom to ask about a write.
#[derive(Debug)]
pub(in crate::admit) struct Webhook {
    pub(in crate::admit) name: String,
    pub(in crate::admit) spec: Value,
    /// Which writes it is about, in the form that policies have it in.
    pub(in crate::admit) constraints: Value,
    pub(in crate::admit) conditions: Conditions,
}

/// All policies that are bound and all webhooks, in the order of the names of what defines them.
#[derive(Debug, Default)]
pub(in crate::admit) struct Bound {
    pub(super) validating: Vec<Hook<Policy>>,
    pub(super) mutating: Vec<Hook<MutatingPolicy>>,
    pub(in crate::admit) validating_webhooks: Vec<Webhook>,
    pub(in crate::admit) mutating_webhooks: Vec<Webhook>,
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

    /// The policies that are bound, and the webhooks.
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
        validating_webhooks: webhooks(store, "validatingwebhookconfigurations"),
        mutating_webhooks: webhooks(store, "mutatingwebhookconfigurations"),
    }
}

/// The webhooks of all configurations. One without rules is about nothing.
fn webhooks(store: &Store<Header>, configurations: &str) -> Vec<Webhook> {
    let configurations = objects(store, configurations, "webhooks").into_iter();
    let hooks = configurations.flat_map(|(_, mut hooks)| match hooks.take() {
        Value::Array(hooks) => hooks,
        _ => Vec::new(),
    });
    hooks.filter(|hook| hook["rules"].as_array().is_some_and(|it| !it.is_empty())).map(Webhook::new).collect()
}

impl Webhook {
    fn new(spec: Value) -> Self {
        let constraints = json!({
            "matchPolicy": spec["matchPolicy"],
            "resourceRules": spec["rules"],
            "namespaceSelector": spec["namespaceSelector"],
            "objectSelector": spec["objectSelector"],
        });
        let name = spec["name"].as_str().unwrap_or_default().to_owned();
        Self { name, constraints, conditions: Conditions::compile(&spec), spec }
    }
}

fn hooks<P>(store: &Store<Header>, policies: &str, bindings: &str, compile: fn(&Value) -> P) -> Vec<Hook<P>> {
    let bindings = objects(store, bindings, "spec");
    if bindings.is_empty() {
        return Vec::new();
    }
    let hook = |(name, spec): (String, Value)| {
        let own = bindings.iter().filter(|(_, binding)| binding["policyName"] == name.as_str());
        let bindings: Vec<Binding> =
            own.map(|(name, spec)| Binding { name: name.clone(), spec: spec.clone() }).collect();
        (!bindings.is_empty()).then(|| Hook { policy: compile(&spec), name, spec, bindings })
    };
    objects(store, policies, "spec").into_iter().filter_map(hook).collect()
}

/// The names of all objects of a resource, with one of their fields.
fn objects(store: &Store<Header>, plural: &str, field: &str) -> Vec<(String, Value)> {
    let range = Range { prefix: storage_prefix(GROUP, plural), ..Range::default() };
    let entries = store.range(&range).map(|page| page.entries).unwrap_or_default();
    let object = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    entries.iter().map(|entry| (entry.header.name.to_string(), object(&entry.value)[field].take())).collect()
}
