//! The policies and webhooks that there are, compiled.

use std::sync::{Arc, LazyLock};

use evenkeel_schema::admission::{MatchConditions, MutatingPolicy, Policy};
use evenkeel_store::{Entry, Range, Store};
use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::Header;
use crate::registry::{storage_folder, storage_prefix};
use crate::storage;

/// The API group of policies and webhook configurations, whose own objects no policy and no webhook sees.
pub(crate) const GROUP: &str = "admissionregistration.k8s.io";

/// A policy with its bindings.
#[derive(Debug)]
pub(crate) struct Hook<P> {
    pub(crate) name: String,
    pub(crate) spec: Value,
    pub(crate) policy: P,
    pub(crate) bindings: Vec<Binding>,
}

/// Where a policy holds, and with what parameters.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    pub(crate) spec: Value,
}

/// Whom to ask about a write.
#[derive(Debug)]
pub(crate) struct Webhook {
    /// The name of the configuration that defines the webhook.
    pub(crate) configuration: String,
    pub(crate) name: String,
    pub(crate) spec: Value,
    /// Which writes it is about, in the form that policies have it in.
    pub(crate) constraints: Value,
    pub(crate) conditions: MatchConditions,
}

/// All policies that are bound and all webhooks, in the order of the names of what defines them.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    pub(crate) validating: Vec<Hook<Policy>>,
    pub(crate) mutating: Vec<Hook<MutatingPolicy>>,
    pub(crate) validating_webhooks: Vec<Webhook>,
    pub(crate) mutating_webhooks: Vec<Webhook>,
    /// Why the policies and webhooks are not known: a policy, binding or webhook configuration cannot be read.
    pub(crate) unreadable: Option<String>,
}

/// Where policies, bindings and webhook configurations are stored.
static FOLDER: LazyLock<String> = LazyLock::new(|| storage_folder(GROUP));

/// All policies that are bound and all webhooks, compiled when one of them has changed.
///
/// They follow the store: whoever asks sees every write that the store has, so that a policy holds for the very next
/// request, and whoever writes one has nobody to tell.
#[derive(Debug, Default)]
pub(crate) struct AdmissionRegistrations {
    followed: RwLock<Followed>,
}

#[derive(Debug, Default)]
struct Followed {
    registered: Arc<Registered>,
    /// What `registered` was compiled from.
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

impl AdmissionRegistrations {
    /// The policies that are bound, and the webhooks. They are listed only where one of them may have changed.
    pub(crate) fn current(&self, store: &Store<Header>) -> Arc<Registered> {
        let known = self.followed.read();
        if known.revision > 0 && store.unchanged_since(&FOLDER, known.revision).is_some() {
            return known.registered.clone();
        }
        drop(known);
        let range = Range { prefix: FOLDER.clone(), ..Range::default() };
        // A range of the newest revision is never refused.
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
    /// Whether a policy or a webhook may look at objects that are deleted.
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

/// The webhooks of all configurations. One without rules is about nothing.
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

/// The policies that are bound. A policy that cannot be read counts as `damaged` where a binding names it; a binding that
/// cannot be read may name any.
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

/// All objects of a resource, by their names.
#[derive(Default)]
struct Objects {
    /// The names with one field of each object.
    readable: Vec<(String, Value)>,
    /// The names of objects that cannot be read, with the reason.
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
