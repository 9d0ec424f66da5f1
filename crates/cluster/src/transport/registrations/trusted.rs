//! Waits until the API server can call webhooks over TLS: it has seen their configurations, and trusts the certificates
//! that the operator has made.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_runtime::webhook::{Admission, Verdict, Webhook};
use evenkeel_runtime::{Manager, Result as HookResult};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tower::BoxError;

use super::{api, bare_definition, name};

/// How often the state is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How many checks are made at most. They take half a minute, much longer than an operator needs for its first
/// certificate.
const LOOKS_MAX: usize = 1500;
/// How long a remote API server may take to apply a changed conversion of a CRD. The API server does not report it; its
/// watch of CRDs takes milliseconds.
pub(super) const DEFINITION_SEEN: Duration = Duration::from_millis(500);

/// The label of objects that are sent to the API server only to find out whether it calls the webhooks.
const LABEL: &str = "evenkeel.dev/webhook-probe";
/// The name of the probe object, which is never stored.
const PROBED: &str = "webhook-probe";
/// The suffix of the names of probing webhooks.
const NAME_SUFFIX: &str = ".ready.evenkeel.dev";

/// Waits until every webhook of these configurations has a `caBundle`.
pub(super) async fn configurations(client: &Client, configurations: &[Value]) -> Result<(), BoxError> {
    for configuration in configurations {
        let has_bundles = |found: &Value| {
            let hooks = found["webhooks"].as_array().cloned().unwrap_or_default();
            hooks.iter().all(|hook| has_bundle(&hook["clientConfig"]))
        };
        look(client, configuration, has_bundles).await?;
    }
    Ok(())
}

/// Waits until the conversion webhook of a definition has a `caBundle`.
pub(super) async fn conversion(client: &Client, definition: &str) -> Result<(), BoxError> {
    let has_bundle = |found: &Value| has_bundle(&found["spec"]["conversion"]["webhook"]["clientConfig"]);
    look(client, &bare_definition(definition), has_bundle).await
}

fn has_bundle(config: &Value) -> bool {
    config["caBundle"].as_str().is_some_and(|bundle| !bundle.is_empty())
}

/// Reads an object until it is as wanted.
async fn look(client: &Client, object: &Value, is_wanted: impl Fn(&Value) -> bool) -> Result<(), BoxError> {
    for _ in 0..LOOKS_MAX {
        let found = api(client, object).get_opt(name(object)).await?;
        if found.is_some_and(|found| is_wanted(&found.data)) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(format!("{} {} has no caBundle", object["kind"], object["metadata"]["name"]).into())
}

/// Which probing webhooks of an operator have been called.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    mutating: AtomicBool,
    validating: AtomicBool,
    namespace: String,
    /// The probe of the operator that registered the webhooks, if this operator is another replica. The replicas share a
    /// port, and nobody knows which of them is called.
    first: OnceLock<Arc<Probe>>,
}

async fn see_mutation(lease: Lease, request: Admission<Lease, Probe>) -> HookResult<Lease> {
    request.state().note(|probe| &probe.mutating);
    Ok(lease)
}

async fn see_validation(_: Arc<Lease>, request: Admission<Lease, Probe>) -> HookResult<Verdict> {
    request.state().note(|probe| &probe.validating);
    Ok(Verdict::allow())
}

impl Probe {
    pub(crate) fn new(namespace: &str) -> Arc<Self> {
        Arc::new(Self { namespace: namespace.to_owned(), ..Self::default() })
    }

    /// Makes this the probe of another replica, whose calls count for the first one too.
    pub(super) fn follow(&self, first: Arc<Self>) {
        // A probe has one deployment, and that one first replica.
        let _ = self.first.set(first);
    }

    /// Notes that a webhook was called.
    fn note(&self, which: fn(&Self) -> &AtomicBool) {
        which(self).store(true, Ordering::SeqCst);
        if let Some(first) = self.first.get() {
            which(first).store(true, Ordering::SeqCst);
        }
    }

    /// Adds the probing webhooks to a manager. They review objects with a label that nobody else uses.
    pub(crate) fn add_to(self: &Arc<Self>, manager: Manager) -> Manager {
        let labels = || LabelSelector { match_labels: Some(self.labels()), ..LabelSelector::default() };
        let mutating = Webhook::mutate(see_mutation).state(self.clone());
        let validating = Webhook::validate(see_validation).state(self.clone());
        let mutating = mutating.name(format!("mutate{NAME_SUFFIX}")).path("/ready-mutate");
        let validating = validating.name(format!("validate{NAME_SUFFIX}")).path("/ready-validate");
        manager.webhook(mutating.object_selector(labels())).webhook(validating.object_selector(labels()))
    }

    fn labels(&self) -> BTreeMap<String, String> {
        [(LABEL.to_owned(), String::new())].into()
    }

    /// Whether a webhook is a probing one.
    pub(crate) fn is(hook: &Value) -> bool {
        hook["name"].as_str().is_some_and(|name| name.ends_with(NAME_SUFFIX))
    }

    /// Waits until the API server calls the webhooks of these configurations. If they are new, the call must reach this
    /// operator or one of its replicas, and not a previous one that is about to end.
    pub(super) async fn await_calls(
        &self,
        client: &Client,
        configurations: &[Value],
        are_new: bool,
    ) -> Result<(), BoxError> {
        let has = |kind: &str| configurations.iter().any(|object| object["kind"] == kind);
        let mutates = are_new && has("MutatingWebhookConfiguration");
        let validates = are_new && has("ValidatingWebhookConfiguration");
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": PROBED, "labels": self.labels() },
        });
        let leases: Api<Lease> = Api::namespaced(client.clone(), &self.namespace);
        let dry_run = PatchParams::apply(super::FIELD_MANAGER).dry_run();
        let mut last = "the API server does not call the webhooks".into();
        for _ in 0..LOOKS_MAX {
            let called = (!mutates || self.mutating.load(Ordering::SeqCst))
                && (!validates || self.validating.load(Ordering::SeqCst));
            match leases.patch(PROBED, &dry_run, &Patch::Apply(&lease)).await {
                Ok(_) if called => return Ok(()),
                Ok(_) => {}
                Err(error) => last = error.into(),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(last)
    }
}
