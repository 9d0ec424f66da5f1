//! The compiled policies and webhooks.

use std::sync::{Arc, LazyLock};

use evenkeel_schema::admission::{MatchConditions, MutatingPolicy, Policy};
use evenkeel_schema::json::{Value, json};
use evenkeel_store::{Entry, Range, Store};
use parking_lot::RwLock;

use crate::Header;
use crate::registry::{storage_folder, storage_prefix};
use crate::storage;

/// The API group of policies and webhook configurations. No policy or webhook applies to its own objects.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// A compiled policy with its bindings.
#[derive(Debug)]
pub(crate) struct Hook<P> {
    pub(crate) name: String,
    pub(crate) spec: Value,
    pub(crate) policy: P,
    pub(crate) bindings: Vec<Binding>,
}

/// A binding of a policy.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) spec: Value,
}

/// A compiled webhook.
#[derive(Debug)]
pub(crate) struct Webhook {
    /// The name of the configuration that defines the webhook.
    pub(crate) configuration: String,
    pub(crate) name: String,
    pub(crate) spec: Value,
    /// The requests that the webhook matches, in the form of a policy's `matchConstraints`.
    pub(crate) constraints: Value,
    pub(crate) conditions: MatchConditions,
}

/// All bound policies and all webhooks, in the order of the names of the objects that define them.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    pub(crate) validating: Vec<Hook<Policy>>,
    pub(crate) mutating: Vec<Hook<MutatingPolicy>>,
    pub(crate) validating_webhooks: Vec<Webhook>,
    pub(crate) mutating_webhooks: Vec<Webhook>,
    /// Why the policies and webhooks are not known, if one of their objects cannot be read.
    pub(crate) unreadable: Option<String>,
}

/// The key prefix of policies, bindings and webhook configurations.
static FOLDER: LazyLock<String> = LazyLock::new(|| storage_folder(GROUP));

/// All bound policies and all webhooks, compiled again whenever one of them changes.
///
/// The policies and webhooks follow the store: every read sees all writes in the store, so that a policy
/// applies to the very next request and writers need not notify anyone.
#[derive(Debug, Default)]
pub(crate) struct AdmissionRegistrations {
    followed: RwLock<Followed>,
}

#[derive(Debug, Default)]
struct Followed {
    registered: Arc<Registered>,
    /// The state from which `registered` was compiled.
    source: Source,
    /// The store's revision at the last check; zero before the first.
    revision: u64,
}

/// Identifies a state of the group's objects: a write increases the newest revision, and a deletion decreases
/// the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Source {
    newest: u64,
    count: usize,
}

impl AdmissionRegistrations {
    /// The bound policies and the webhooks, current with the store. They are listed only if one of them may
    /// have changed.
    pub(crate) fn current(&self, store: &Store<Header>) -> Arc<Registered> {
        let known = self.followed.read();
        if known.revision > 0 && store.unchanged_since(&FOLDER, known.revision).is_some() {
            return known.registered.clone();
        }
        drop(known);
        let range = Range { prefix: FOLDER.clone(), ..Range::default() };
        // A range read of the newest revision never fails.
        let Ok(page) = store.range(&range) else { return Arc::default() };
        let newest = page.entries.iter().map(|entry| entry.revision).max().unwrap_or_default();
        let source = Source { newest, count: page.entries.len() };
        let mut known = self.followed.write();
        if known.revision < page.revision {
            if known.source != source {
                known.registered = Arc::new(Registered::compile(&page.entries));
                known.source = source;
            }
            known.revision = page.revision;
        }
        known.registered.clone()
    }
}

/// Stored objects, in the order of their keys.
type Entries = [Arc<Entry<Header>>];

impl Registered {
    /// Whether a policy or webhook may look at deleted objects.
    pub(crate) fn sees_deletions(&self) -> bool {
        !self.validating.is_empty()
            || !self.validating_webhooks.is_empty()
            || !self.mutating_webhooks.is_empty()
    }

    fn compile(entries: &Entries) -> Self {
        let mut damaged = Vec::new();
        let validating = hooks(
            entries,
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            Policy::compile,
            &mut damaged,
        );
        let mutating = hooks(
            entries,
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            MutatingPolicy::compile,
            &mut damaged,
        );
        Self {
            validating,
            mutating,
            validating_webhooks: webhooks(entries, "validatingwebhookconfigurations", &mut damaged),
            mutating_webhooks: webhooks(entries, "mutatingwebhookconfigurations", &mut damaged),
            unreadable: damaged.into_iter().next(),
        }
    }
}

/// The webhooks of all configurations. A webhook without rules matches nothing and is left out.
fn webhooks(entries: &Entries, configurations: &str, damaged: &mut Vec<String>) -> Vec<Webhook> {
    let configurations = Objects::read(entries, configurations, "webhooks");
    damaged.extend(configurations.damaged.into_iter().map(|(_, why)| why));
    let mut webhooks = Vec::new();
    for (configuration, mut hooks) in configurations.readable {
        let Value::Array(hooks) = hooks.take() else { continue };
        let hooks =
            hooks.into_iter().filter(|hook| hook["rules"].as_array().is_some_and(|it| !it.is_empty()));
        webhooks.extend(hooks.map(|spec| Webhook::new(configuration.clone(), spec)));
    }
    webhooks
}

impl Webhook {
    fn new(configuration: String, spec: Value) -> Self {
        let constraints = json!({
            "matchPolicy": spec["matchPolicy"],
            "resourceRules": spec["rules"],
            "namespaceSelector": spec["namespaceSelector"],
            "objectSelector": spec["objectSelector"],
        });
        let name = spec["name"].as_str().unwrap_or_default().to_owned();
        Self { configuration, name, constraints, conditions: MatchConditions::compile(&spec), spec }
    }
}

/// The bound policies. An unreadable policy counts as damaged if a binding names it; an unreadable binding
/// always counts, because it might name any policy.
fn hooks<P>(
    entries: &Entries,
    policies: &str,
    bindings: &str,
    compile: fn(&Value) -> P,
    damaged: &mut Vec<String>,
) -> Vec<Hook<P>> {
    let bindings = Objects::read(entries, bindings, "spec");
    damaged.extend(bindings.damaged.into_iter().map(|(_, why)| why));
    let bindings = bindings.readable;
    if bindings.is_empty() {
        return Vec::new();
    }
    let policies = Objects::read(entries, policies, "spec");
    let is_named = |name: &str| bindings.iter().any(|(_, binding)| binding["policyName"] == name);
    damaged.extend(policies.damaged.into_iter().filter(|(name, _)| is_named(name)).map(|(_, why)| why));
    let hook = |(name, spec): (String, Value)| {
        let own = bindings.iter().filter(|(_, binding)| binding["policyName"] == name.as_str());
        let bindings: Vec<Binding> =
            own.map(|(name, spec)| Binding { name: name.clone(), spec: spec.clone() }).collect();
        (!bindings.is_empty()).then(|| Hook { policy: compile(&spec), name, spec, bindings })
    };
    policies.readable.into_iter().filter_map(hook).collect()
}

/// The objects of a resource, by name.
#[derive(Default)]
struct Objects {
    /// The names of the readable objects, each with one of its fields.
    readable: Vec<(String, Value)>,
    /// The names of the unreadable objects, each with the reason.
    damaged: Vec<(String, String)>,
}

impl Objects {
    fn read(entries: &Entries, plural: &str, field: &str) -> Self {
        let prefix = storage_prefix(GROUP, plural);
        let mut objects = Self::default();
        for entry in entries.iter().filter(|entry| entry.key.starts_with(&prefix)) {
            let name = entry.header.name.to_string();
            match storage::read::<Value>(entry) {
                Ok(mut object) => objects.readable.push((name, object[field].take())),
                Err(status) => objects.damaged.push((name, status.message)),
            }
        }
        objects
    }
}
