//! What the API server is told about the webhooks of operators: their configurations, and how definitions are converted.
//!
//! On a real cluster, an operator's manifests contain these objects and are applied before anything else. Here the test
//! kit creates them when the operator is started. Requests of the test wait until that is done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_request_info::ResourcePath;
use http::Method;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The field manager of these objects. It is another one than that of applied manifests, whose fields would be removed by
/// an apply that contains only the conversion of a definition.
const FIELD_MANAGER: &str = "evenkeel-webhooks";
/// How often a request is tried, so that a fault that was meant for others does no harm.
const TRIES: usize = 5;
/// The time between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// What is registered for one deployment of an operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Registered {
    /// The `MutatingWebhookConfiguration` and the `ValidatingWebhookConfiguration`.
    pub(crate) configurations: Vec<Value>,
    /// The `spec.conversion` of definitions, by the name of the definition.
    pub(crate) conversions: BTreeMap<String, Value>,
}

/// The registrations of all operators of a cluster.
#[derive(Default)]
pub(crate) struct Registrations {
    state: Mutex<State>,
    /// Notified when a registration has ended.
    ended: Notify,
}

#[derive(Default)]
struct State {
    /// How many registrations have begun and not ended.
    pending: usize,
    deployments: BTreeMap<String, Registered>,
    /// The deployment that an operator belongs to, by the operator's name.
    operators: BTreeMap<String, String>,
}

/// A registration that has begun. Requests of the test wait until it is dropped.
pub(crate) struct Registration {
    registrations: Arc<Registrations>,
    before: Registered,
    wanted: Registered,
}

impl Registrations {
    /// The deployment for which `is_same` says that its operator is a replica of another one.
    pub(crate) fn replica_of(&self, is_same: impl Fn(&str, &Registered) -> bool) -> Option<String> {
        let state = self.state.lock();
        let same = |(name, registered): &(&String, &Registered)| is_same(name, registered);
        state.deployments.iter().find(same).map(|(name, _)| name.clone())
    }

    /// Begins to register an operator of a deployment, in place of what was registered for that deployment before. Returns
    /// `None` if nothing is to be changed.
    pub(crate) fn begin(
        self: &Arc<Self>,
        operator: &str,
        deployment: &str,
        wanted: Registered,
    ) -> Option<Registration> {
        let mut state = self.state.lock();
        state.operators.insert(operator.to_owned(), deployment.to_owned());
        let before = state.deployments.get(deployment).cloned().unwrap_or_default();
        if before == wanted {
            return None;
        }
        state.pending += 1;
        state.deployments.insert(deployment.to_owned(), wanted.clone());
        Some(Registration { registrations: self.clone(), before, wanted })
    }

    /// Begins to remove the registration of an operator that has no webhooks any more. Returns `None` if it had none.
    pub(crate) fn withdraw(self: &Arc<Self>, operator: &str) -> Option<Registration> {
        let deployment = self.state.lock().operators.remove(operator)?;
        self.begin(operator, &deployment, Registered::default())
    }

    /// Waits until no registration is pending.
    pub(crate) async fn done(&self) {
        loop {
            let ended = self.ended.notified();
            if self.state.lock().pending == 0 {
                return;
            }
            ended.await;
        }
    }

    /// The `spec.conversion` that was registered for a definition.
    fn conversion(&self, definition: &str) -> Option<Value> {
        let state = self.state.lock();
        state.deployments.values().find_map(|registered| registered.conversions.get(definition)).cloned()
    }

    /// After a definition was written: registers its conversion, which the writer need not know, as on a real cluster the
    /// manifests of the operator contain it.
    pub(crate) async fn definition_written(&self, client: &Client, definition: &str) {
        let Some(conversion) = self.conversion(definition) else { return };
        if let Err(error) = convert(client, definition, Some(&conversion)).await {
            tracing::error!(definition, %error, "the conversion of a definition cannot be registered");
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registrations.state.lock().pending -= 1;
        self.registrations.ended.notify_waiters();
    }
}

impl Registration {
    /// Creates and changes the objects, and deletes those that are no longer wanted.
    pub(crate) async fn carry_out(self, client: &Client) -> kube::Result<()> {
        let kinds: Vec<&Value> = self.wanted.configurations.iter().map(|object| &object["kind"]).collect();
        for gone in self.before.configurations.iter().filter(|object| !kinds.contains(&&object["kind"])) {
            again(|| delete(client, gone)).await?;
        }
        for definition in self.before.conversions.keys() {
            if !self.wanted.conversions.contains_key(definition) {
                convert(client, definition, None).await?;
            }
        }
        for configuration in &self.wanted.configurations {
            again(|| apply(client, configuration)).await?;
        }
        for (definition, conversion) in &self.wanted.conversions {
            convert(client, definition, Some(conversion)).await?;
        }
        Ok(())
    }
}

/// The name of the definition that a request writes.
pub(crate) fn written_definition(
    method: &Method,
    path: &str,
    name_in_body: impl FnOnce() -> Option<String>,
) -> Option<String> {
    let target = ResourcePath::parse(path)?;
    let definition = target.resource == "customresourcedefinitions" && target.subresource.is_empty();
    match *method {
        Method::POST if definition => name_in_body(),
        Method::PUT | Method::PATCH if definition => Some(target.name.into_owned()),
        _ => None,
    }
}

/// Sets or removes the conversion of a definition. Does nothing if the definition does not exist, or is as wanted.
async fn convert(client: &Client, definition: &str, conversion: Option<&Value>) -> kube::Result<()> {
    let mut object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": definition },
    });
    let api = api(client, &object);
    let Some(found) = again(|| api.get_opt(definition)).await? else { return Ok(()) };
    if conversion == Some(&found.data["spec"]["conversion"]) {
        return Ok(());
    }
    if let Some(conversion) = conversion {
        object["spec"] = json!({ "conversion": conversion });
    }
    again(|| apply(client, &object)).await
}

async fn apply(client: &Client, object: &Value) -> kube::Result<()> {
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api(client, object).patch(name(object), &parameters, &Patch::Apply(object)).await.map(drop)
}

async fn delete(client: &Client, object: &Value) -> kube::Result<()> {
    match api(client, object).delete(name(object), &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop),
    }
}

/// Tries a request some times.
async fn again<T, F: Future<Output = kube::Result<T>>>(request: impl Fn() -> F) -> kube::Result<T> {
    for _ in 1..TRIES {
        if let Ok(done) = request().await {
            return Ok(done);
        }
        tokio::time::sleep(PAUSE).await;
    }
    request().await
}

fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    Api::all_with(
        client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind"))),
    )
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
