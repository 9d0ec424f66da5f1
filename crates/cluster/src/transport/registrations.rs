//! Registers the webhooks of operators with the API server: their configurations, and the conversions of CRDs.
//!
//! On a real cluster, an operator's manifests contain these objects and are applied before anything else. Here the test
//! kit creates them when the operator starts. Requests of the test wait until that is done. If the API server calls the
//! webhooks over TLS, they also wait until such a call succeeds.

mod trusted;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::time::Duration;

use evenkeel_request_info::ResourcePath;
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedMutexGuard};
use tower::BoxError;

pub(crate) use self::trusted::Probe;

/// The field manager of these objects. It must differ from that of applied manifests: an apply that contains only the
/// conversion of a CRD would remove the manifests' fields.
const FIELD_MANAGER: &str = "evenkeel-webhooks";
/// How often a request is attempted, so that a fault that was injected for other clients does no harm.
const TRIES: usize = 5;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// How the API server reaches the webhooks of operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In this process, in virtual time.
    #[default]
    InProcess,
    /// Over TLS on a port of this machine, from the API server in this process.
    OverTls,
    /// Over TLS on a port of this machine, from the API server of a remote cluster that other tests share.
    Remote,
}

/// One lock for each CRD of a remote cluster whose objects tests of this process convert. A CRD has only one
/// conversion, so the tests take turns.
static CONVERTING: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>> = Mutex::new(BTreeMap::new());

/// What is registered for one deployment of an operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Registered {
    /// The `MutatingWebhookConfiguration` and the `ValidatingWebhookConfiguration`.
    pub(crate) configurations: Vec<Value>,
    /// The `spec.conversion` of CRDs, by the name of the CRD.
    pub(crate) conversions: BTreeMap<String, Value>,
}

/// The registrations of all operators of a cluster.
pub(crate) struct Registrations {
    reach: Reach,
    state: Mutex<RegistrationState>,
    /// Notified when a registration is complete.
    ended: Notify,
}

#[derive(Default)]
struct RegistrationState {
    /// How many registrations are in progress.
    pending: usize,
    deployments: BTreeMap<String, Registered>,
    /// The deployment that an operator belongs to, by the operator's name.
    operators: BTreeMap<String, String>,
    /// Where the webhooks of a deployment are served over TLS, by the deployment's name. Its replicas share the
    /// listener, which is closed when no replica is left.
    ports: BTreeMap<String, (SocketAddr, Weak<TcpListener>)>,
    /// The probes of the operators that registered the webhooks of a deployment over TLS, by the deployment's name.
    probes: BTreeMap<String, Arc<Probe>>,
    /// The namespaces and names of the Secrets with the certificates of operators.
    secrets: BTreeSet<(String, String)>,
    /// The lock by which this test has its turn to convert the objects of a CRD, by the CRD's name.
    turns: BTreeMap<String, OwnedMutexGuard<()>>,
}

/// A registration in progress. Requests of the test wait until it is dropped.
pub(crate) struct Registration {
    registrations: Arc<Registrations>,
    before: Registered,
    wanted: Registered,
    /// Finds out whether the API server calls the webhooks.
    probe: Option<Arc<Probe>>,
}

impl Registrations {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { reach, state: Mutex::default(), ended: Notify::new() }
    }

    /// How the API server reaches the webhooks.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Returns the listener for the webhooks of a deployment: that of its other replicas, or a new one on the
    /// deployment's previous port.
    pub(crate) fn listener(&self, deployment: &str) -> io::Result<(SocketAddr, Arc<TcpListener>)> {
        let mut state = self.state.lock();
        let known = state.ports.get(deployment);
        if let Some((address, listener)) = known.and_then(|(address, it)| Some((*address, it.upgrade()?))) {
            return Ok((address, listener));
        }
        let address = known.map_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), |(address, _)| *address);
        let listener = Arc::new(TcpListener::bind(address)?);
        let address = listener.local_addr()?;
        state.ports.insert(deployment.to_owned(), (address, Arc::downgrade(&listener)));
        Ok((address, listener))
    }

    /// Returns the deployment that another replica of the same operator belongs to, if `is_same` finds one.
    pub(crate) fn replica_of(
        &self,
        is_same: impl Fn(&str, Option<SocketAddr>, &Registered) -> bool,
    ) -> Option<String> {
        let state = self.state.lock();
        let address = |name: &String| state.ports.get(name).map(|(address, _)| *address);
        let same = |(name, registered): &(&String, &Registered)| is_same(name, address(name), registered);
        state.deployments.iter().find(same).map(|(name, _)| name.clone())
    }

    /// Begins to register an operator of a deployment, replacing what was registered for the deployment before. Returns
    /// `None` if nothing changes.
    pub(crate) fn begin(
        self: &Arc<Self>,
        operator: &str,
        deployment: &str,
        wanted: Registered,
    ) -> Option<Registration> {
        let mut state = self.state.lock();
        state.operators.insert(operator.to_owned(), deployment.to_owned());
        let before = state.deployments.get(deployment).cloned().unwrap_or_default();
        if before == wanted && (self.reach == Reach::InProcess || wanted == Registered::default()) {
            return None;
        }
        state.pending += 1;
        state.deployments.insert(deployment.to_owned(), wanted.clone());
        Some(Registration { registrations: self.clone(), before, wanted, probe: None })
    }

    /// Begins to remove the registration of an operator that no longer has webhooks. Returns `None` if it had none.
    pub(crate) fn withdraw(self: &Arc<Self>, operator: &str) -> Option<Registration> {
        let deployment = self.state.lock().operators.remove(operator)?;
        self.begin(operator, &deployment, Registered::default())
    }

    /// Remembers the Secret with the certificates of an operator, which is deleted after the test.
    pub(crate) fn note_secret(&self, namespace: &str, name: &str) {
        self.state.lock().secrets.insert((namespace.to_owned(), name.to_owned()));
    }

    /// Deletes the Secrets with certificates from a remote cluster, at the end of a test.
    pub(crate) async fn delete_secrets(&self, client: &Client) -> kube::Result<()> {
        let secrets = std::mem::take(&mut self.state.lock().secrets);
        for (namespace, name) in secrets {
            let api: Api<Secret> = Api::namespaced(client.clone(), &namespace);
            api.delete(&name, &DeleteParams::default()).await.map(drop).or_else(accept_gone)?;
        }
        Ok(())
    }

    /// Removes everything that was registered on a remote cluster at the end of a test, because other tests use its
    /// CRDs.
    pub(crate) async fn withdraw_all(self: &Arc<Self>, client: &Client) -> Result<(), BoxError> {
        let operators: Vec<String> = self.state.lock().operators.keys().cloned().collect();
        for operator in operators {
            if let Some(registration) = self.withdraw(&operator) {
                registration.carry_out(client).await?;
            }
        }
        self.state.lock().turns.clear();
        Ok(())
    }

    /// Waits until this test may convert the objects of a CRD.
    async fn take_turn(&self, definition: &str) {
        if self.reach != Reach::Remote || self.state.lock().turns.contains_key(definition) {
            return;
        }
        let turn = CONVERTING.lock().entry(definition.to_owned()).or_default().clone();
        let turn = turn.lock_owned().await;
        self.state.lock().turns.insert(definition.to_owned(), turn);
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

    /// Returns the `spec.conversion` that was registered for a CRD.
    fn conversion(&self, definition: &str) -> Option<Value> {
        let state = self.state.lock();
        state.deployments.values().find_map(|registered| registered.conversions.get(definition)).cloned()
    }

    /// Registers the conversion of a CRD again after the CRD was written. The writer need not know the conversion: on a
    /// real cluster, it is part of the operator's manifests.
    pub(crate) async fn definition_written(&self, client: &Client, definition: &str) {
        let Some(conversion) = self.conversion(definition) else { return };
        if let Err(error) = self.register_conversion(client, definition, &conversion).await {
            tracing::error!(definition, %error, "cannot register the conversion of a CRD");
        }
    }

    async fn register_conversion(
        &self,
        client: &Client,
        definition: &str,
        conversion: &Value,
    ) -> Result<(), BoxError> {
        if !convert(client, definition, conversion).await? || self.reach == Reach::InProcess {
            return Ok(());
        }
        trusted::conversion(client, definition).await?;
        if self.reach == Reach::Remote {
            tokio::time::sleep(trusted::DEFINITION_SEEN).await;
        }
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registrations.state.lock().pending -= 1;
        self.registrations.ended.notify_waiters();
    }
}

impl Registration {
    /// Sets how to find out whether the API server calls the webhooks of this deployment.
    pub(crate) fn probe(mut self, deployment: &str, probe: Arc<Probe>) -> Self {
        let mut state = self.registrations.state.lock();
        match state.probes.get(deployment) {
            Some(first) if self.before == self.wanted => probe.follow(first.clone()),
            _ => drop(state.probes.insert(deployment.to_owned(), probe.clone())),
        }
        drop(state);
        self.probe = Some(probe);
        self
    }

    /// Creates and changes the objects, and deletes those that are no longer wanted.
    pub(crate) async fn carry_out(self, client: &Client) -> Result<(), BoxError> {
        let changed = self.before != self.wanted;
        if changed {
            self.change(client).await?;
        }
        if let Some(probe) = &self.probe {
            trusted::configurations(client, &self.wanted.configurations).await?;
            probe.await_calls(client, &self.wanted.configurations, changed).await?;
        }
        Ok(())
    }

    async fn change(&self, client: &Client) -> Result<(), BoxError> {
        let kinds: Vec<&Value> = self.wanted.configurations.iter().map(|object| &object["kind"]).collect();
        for gone in self.before.configurations.iter().filter(|object| !kinds.contains(&&object["kind"])) {
            again(|| delete(client, gone)).await?;
        }
        for definition in self.before.conversions.keys() {
            if !self.wanted.conversions.contains_key(definition) {
                take_back(client, definition, self.registrations.reach).await?;
            }
        }
        for (definition, conversion) in &self.wanted.conversions {
            self.registrations.take_turn(definition).await;
            self.registrations.register_conversion(client, definition, conversion).await?;
        }
        for configuration in &self.wanted.configurations {
            again(|| apply(client, configuration)).await?;
        }
        Ok(())
    }
}

/// Returns the name of the CRD that a request writes.
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

/// Returns a CRD with only its name.
fn bare_definition(definition: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": definition },
    })
}

/// Sets the conversion of a CRD. Returns `false` if the CRD does not exist, or already has this conversion.
async fn convert(client: &Client, definition: &str, conversion: &Value) -> kube::Result<bool> {
    let mut object = bare_definition(definition);
    let api = api(client, &object);
    let Some(found) = again(|| api.get_opt(definition)).await? else { return Ok(false) };
    if *conversion == without_bundle(&found.data["spec"]["conversion"]) {
        return Ok(false);
    }
    object["spec"] = json!({ "conversion": conversion });
    again(|| apply(client, &object)).await?;
    Ok(true)
}

/// A conversion without the CA certificates, which the operator sets itself.
fn without_bundle(conversion: &Value) -> Value {
    let mut conversion = conversion.clone();
    if let Some(config) = conversion.pointer_mut("/webhook/clientConfig").and_then(Value::as_object_mut) {
        config.remove("caBundle");
    }
    conversion
}

/// Removes the conversion of a CRD, if the CRD exists.
async fn take_back(client: &Client, definition: &str, reach: Reach) -> kube::Result<()> {
    let object = bare_definition(definition);
    let api = api(client, &object);
    if again(|| api.get_opt(definition)).await?.is_none() {
        return Ok(());
    }
    if reach == Reach::InProcess {
        return again(|| apply(client, &object)).await;
    }
    // The operator has applied a `caBundle`, which would remain if only our own fields were removed.
    let none = Patch::Merge(json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } }));
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    again(|| api.patch(definition, &parameters, &none)).await.map(drop)
}

async fn apply(client: &Client, object: &Value) -> kube::Result<()> {
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api(client, object).patch(name(object), &parameters, &Patch::Apply(object)).await.map(drop)
}

async fn delete(client: &Client, object: &Value) -> kube::Result<()> {
    api(client, object).delete(name(object), &DeleteParams::default()).await.map(drop).or_else(accept_gone)
}

fn accept_gone(error: kube::Error) -> kube::Result<()> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => Err(error),
    }
}

/// Attempts a request several times.
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
