//! The manifests that a real cluster needs to run an operator: CRDs, a ServiceAccount, least-privilege RBAC rules, a
//! Deployment with a NetworkPolicy and, for several replicas, a PodDisruptionBudget. Webhooks add a Service, a Secret
//! and their configurations; metrics add a Service and monitoring objects.
//!
//! The rules for reads follow from what the controllers declare to watch. The rules for writes follow from the requests
//! that the tests recorded ([`Verbs`]); without a record, primary and owned kinds get the usual verbs. Together with
//! the test kit:
//!
//! ```text
//! // src/lib.rs: the operator says what it is, without a cluster
//! pub fn manifests() -> Result<Manifests, VerbsError> {
//!     let verbs = include_str!("../verbs.txt").parse()?;
//!     Ok(Manifests::new("my-operator", "operators").controller(&controller()).crd(&Mine::crd()).verbs(verbs))
//! }
//!
//! // src/main.rs: `my-operator manifests | kubectl apply -f -`
//! println!("{}", my_operator::manifests()?.image("registry.example.com/my-operator:1").yaml()?);
//!
//! // tests: run it as the account that the manifests make; what the rules do not allow is refused
//! let operator = cluster.install(&my_operator::manifests()?).await?;   // CRDs, account, rules
//! operator.run(my_operator::controller);                              // as the ServiceAccount
//! // … the scenario …
//! assert!(cluster.forbidden().is_empty());
//! testing::assert_file("verbs.txt", &cluster.verbs("my-operator"));          // EVENKEEL_UPDATE=1 writes the file
//! ```
//!
//! A new operator starts without `verbs.txt`: its tests run with the usual rules, and write the file.

mod dashboard;
mod monitoring;
mod rules;
mod serving;
mod verbs;
#[cfg(feature = "webhooks")]
mod webhooks;
#[cfg(not(feature = "webhooks"))]
#[path = "manifests/webhooks/off.rs"]
mod webhooks;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::Object;
use crate::controller::Controller;
use crate::declaration::Declaration;
use crate::error::BoxError;
#[cfg(feature = "leader-election")]
use crate::leader::LeaderElection;
use rules::Rule;
use webhooks::Hooked;

pub use verbs::{Verbs, VerbsError};
#[cfg(feature = "webhooks")]
pub(crate) use webhooks::Converted;

/// The namespaces that every cluster has, which the manifests do not create.
const GIVEN_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The manifests of an operator.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::manifests::Manifests;
/// use evenkeel_runtime::{Action, Ctx, Controller, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> { Ok(Action::await_change()) }
///
/// let controller = Controller::new("mirror", reconcile).owns::<Secret>();
/// let manifests = Manifests::new("mirror", "operators")
///     .controller(&controller)
///     .verbs("secrets: patch".parse()?)
///     .image("registry.example.com/mirror:1");
/// let yaml = manifests.yaml()?;
/// assert!(yaml.contains("kind: ClusterRole") && yaml.contains("kind: Deployment"));
/// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Manifests {
    name: String,
    namespace: String,
    image: Option<String>,
    args: Vec<String>,
    replicas: u32,
    /// Where health and readiness are served.
    port: Option<u16>,
    /// The port of metrics, if they have one of their own.
    metrics_port: Option<u16>,
    /// Whether metrics are served over TLS, to authorized readers.
    metrics_secured: bool,
    /// Whether metrics are not served at all, not even on the port of the probes.
    metrics_off: bool,
    /// The mount path of a metrics certificate that the operator does not make itself.
    metrics_folder: Option<String>,
    /// Whether the manifests contain a ServiceMonitor, alerts and a dashboard.
    monitored: bool,
    crds: Vec<Value>,
    declared: Vec<Declaration>,
    /// The namespace and name of the lease, if there is a leader election.
    lease: Option<(String, String)>,
    recorded: Option<Verbs>,
    #[cfg_attr(not(feature = "webhooks"), expect(dead_code, reason = "there are none"))]
    hooked: Hooked,
}

impl Manifests {
    /// The manifests of an operator with this name, which runs in this namespace.
    pub fn new(name: &str, namespace: &str) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            image: None,
            args: Vec::new(),
            replicas: 1,
            port: None,
            metrics_port: None,
            metrics_secured: false,
            metrics_off: false,
            metrics_folder: None,
            monitored: false,
            crds: Vec::new(),
            declared: Vec::new(),
            lease: None,
            recorded: None,
            hooked: Hooked::default(),
        }
    }

    /// Adds the rules for what this controller declares.
    pub fn controller<K: Object, S>(self, controller: &Controller<K, S>) -> Self {
        self.declared(controller.declarations())
    }

    pub(crate) fn declared(mut self, declared: impl IntoIterator<Item = Declaration>) -> Self {
        self.declared.extend(declared);
        self
    }

    /// Adds the rules for this leader election, and sets two replicas.
    #[cfg(feature = "leader-election")]
    pub fn leader_election(mut self, election: &LeaderElection) -> Self {
        self.lease = Some(election.key());
        self.replicas = 2;
        self
    }

    /// Adds a Deployment that runs this image.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = Some(image.into());
        self
    }

    /// Sets the number of replicas. The default is one, or two with a leader election.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Adds arguments for the Deployment's container.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a custom resource definition, such as `T::crd()`.
    pub fn crd(mut self, crd: &CustomResourceDefinition) -> Self {
        self.crds.extend(serde_json::to_value(crd).ok());
        self
    }

    /// Allows the writes among these recorded requests, and no other writes.
    pub fn verbs(mut self, verbs: Verbs) -> Self {
        self.recorded.get_or_insert_default().extend(verbs);
        self
    }

    /// Moves the operator to another namespace. Its lease moves along if it was in the operator's namespace.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        if let Some((lease_namespace, _)) = &mut self.lease
            && *lease_namespace == self.namespace
        {
            *lease_namespace = namespace.into();
        }
        self.namespace = namespace.into();
        self
    }

    /// The name of the operator and of its ServiceAccount.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace that the operator runs in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// All manifests as YAML documents, for `kubectl apply`.
    pub fn yaml(&self) -> Result<String, BoxError> {
        let documents: Result<Vec<String>, _> = self.objects().iter().map(serde_saphyr::to_string).collect();
        Ok(documents?.join("---\n"))
    }

    /// All manifests as objects, in the order in which they must be applied.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = self.definitions();
        if !GIVEN_NAMESPACES.contains(&self.namespace.as_str()) {
            let metadata = json!({ "name": self.namespace });
            objects.push(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }));
        }
        let metadata = json!({ "name": self.name, "namespace": self.namespace });
        objects.push(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }));
        for (suffix, rules) in self.rules() {
            for (namespace, rules) in rules {
                objects.extend(self.role(suffix, namespace.as_deref(), &rules));
            }
        }
        objects.extend(self.metrics_roles());
        objects.extend(self.webhook_objects());
        objects.extend(self.metrics_service());
        if let Some(image) = &self.image {
            objects.push(self.deployment(image));
            objects.extend(self.disruption_budget());
            objects.push(self.network_policy());
        }
        objects.extend(self.monitoring_objects());
        objects.extend(self.webhook_configurations());
        objects
    }

    /// The labels of the operator's pods and of the objects around them.
    fn labels(&self) -> Value {
        json!({ "app.kubernetes.io/name": self.name })
    }

    /// A role with the operator's name and this suffix, and its binding to the operator's account.
    fn role(&self, suffix: &str, namespace: Option<&str>, rules: &[Rule]) -> [Value; 2] {
        let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
        let group = "rbac.authorization.k8s.io";
        let name = format!("{}{suffix}", self.name);
        let mut metadata = json!({ "name": name });
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        let role = json!({
            "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": metadata, "rules": rules,
        });
        let binding = json!({
            "apiVersion": format!("{group}/v1"),
            "kind": format!("{kind}Binding"),
            "metadata": metadata,
            "roleRef": { "apiGroup": group, "kind": kind, "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": self.name, "namespace": self.namespace }],
        });
        [role, binding]
    }

    fn deployment(&self, image: &str) -> Value {
        let labels = self.labels();
        let mut container = json!({
            "name": "operator",
            "image": image,
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
        });
        if !self.args.is_empty() {
            container["args"] = json!(self.args);
        }
        self.deploy_endpoints(&mut container);
        let mut pod = json!({
            "serviceAccountName": self.name,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [container],
        });
        self.deploy_webhooks(&mut pod);
        self.deploy_metrics_certificate(&mut pod);
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": self.name, "namespace": self.namespace, "labels": labels },
            "spec": {
                "replicas": self.replicas,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": pod,
                },
            },
        })
    }
}

/// Mounts a Secret in the first container of a pod.
fn mount_secret(pod: &mut Value, volume: &str, secret: String, path: &str) {
    let push = |list: &mut Value, item: Value| match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    };
    let mount = json!({ "name": volume, "mountPath": path, "readOnly": true });
    push(&mut pod["containers"][0]["volumeMounts"], mount);
    push(&mut pod["volumes"], json!({ "name": volume, "secret": { "secretName": secret } }));
}

#[cfg(test)]
mod tests;
