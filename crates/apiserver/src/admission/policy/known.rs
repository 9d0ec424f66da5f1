//! The policies and webhooks that there are, compiled.

use std::sync::Arc;

use evenkeel_schema::admission::{MatchConditions, MutatingPolicy, Policy};
use evenkeel_store::{Entry, Range, Store};
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::GROUP;
use crate::Header;
use crate::registry::{storage_folder, storage_prefix};
use crate::storage;

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
pub(in crate::admission) struct Webhook {
    pub(in crate::admission) name: String,
    pub(in crate::admission) spec: Value,
    /// Which writes it is about, in the form that policies have it in.
    pub(in crate::admission) constraints: Value,
    pub(in crate::admission) conditions: MatchConditions,
}

/// All policies that are bound and all webhooks, in the order of the names of what defines them.
#[derive(Debug, Default)]
pub(in crate::admission) struct Bound {
    pub(super) validating: Vec<Hook<Policy>>,
    pub(super) mutating: Vec<Hook<MutatingPolicy>>,
    pub(in crate::admission) validating_webhooks: Vec<Webhook>,
    pub(in crate::admission) mutating_webhooks: Vec<Webhook>,
}

/// All policies that are bound and all webhooks, compiled when one of them has changed.
///
/// They follow the store: whoever asks sees every write that the store has, so that a policy holds for the very next
/// request, and whoever writes one has nobody to tell.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    followed: RwLock<Followed>,
}

#[derive(Debug, Default)]
struct Followed {
    bound: Arc<Bound>,
    /// What `bound` was compiled from.
    source: Source,
    /// The store was looked at when it was at this revision; zero before the first look.
    revision: u64,
}

/// Tells one state of the objects of this group from any other: a write makes the newest revision greater, and a
/// deletion makes them fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Source {
    newest: u64,
    count: usize,
}

impl Policies {
    /// The policies that are bound, and the webhooks.
    pub(super) fn current(&self, store: &Store<Header>) -> Arc<Bound> {
        let revision = store.revision();
        let known = self.followed.read();
        if known.revision >= revision {
            return known.bound.clone();
        }
        drop(known);
        let range = Range { prefix: storage_folder(GROUP), ..Range::default() };
        // A range of the newest revision is never refused.
        let Ok(page) = store.range(&range) else { return Arc::default() };
        let newest = page.entries.iter().map(|entry| entry.revision).max().unwrap_or_default();
        let source = Source { newest, count: page.entries.len() };
        let mut known = self.followed.write();
        if known.revision < page.revision {
            if known.source != source {
                known.bound = Arc::new(Bound::compile(&page.entries));
                known.source = source;
            }
            known.revision = page.revision;
        }
        known.bound.clone()
    }
}

/// Stored objects, in the order of their keys.
type Entries = [Arc<Entry<Header>>];

impl Bound {
    fn compile(entries: &Entries) -> Self {
        Self {
            validating: hooks(
                entries,
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                Policy::compile,
            ),
            mutating: hooks(
                entries,
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
                MutatingPolicy::compile,
            ),
            validating_webhooks: webhooks(entries, "validatingwebhookconfigurations"),
            mutating_webhooks: webhooks(entries, "mutatingwebhookconfigurations"),
        }
    }
}

/// The webhooks of all configurations. One without rules is about nothing.
fn webhooks(entries: &Entries, configurations: &str) -> Vec<Webhook> {
    let configurations = objects(entries, configurations, "webhooks").into_iter();
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
        Self { name, constraints, conditions: MatchConditions::compile(&spec), spec }
    }
}

fn hooks<P>(entries: &Entries, policies: &str, bindings: &str, compile: fn(&Value) -> P) -> Vec<Hook<P>> {
    let bindings = objects(entries, bindings, "spec");
    if bindings.is_empty() {
        return Vec::new();
    }
    let hook = |(name, spec): (String, Value)| {
        let own = bindings.iter().filter(|(_, binding)| binding["policyName"] == name.as_str());
        let bindings: Vec<Binding> =
            own.map(|(name, spec)| Binding { name: name.clone(), spec: spec.clone() }).collect();
        (!bindings.is_empty()).then(|| Hook { policy: compile(&spec), name, spec, bindings })
    };
    objects(entries, policies, "spec").into_iter().filter_map(hook).collect()
}

/// The names of all objects of a resource, with one of their fields.
fn objects(entries: &Entries, plural: &str, field: &str) -> Vec<(String, Value)> {
    let prefix = storage_prefix(GROUP, plural);
    let own = entries.iter().filter(|entry| entry.key.starts_with(&prefix));
    let objects = own.filter_map(|entry| Some((entry, storage::read_or_skip::<Value>(entry)?)));
    objects.map(|(entry, mut object)| (entry.header.name.to_string(), object[field].take())).collect()
}
