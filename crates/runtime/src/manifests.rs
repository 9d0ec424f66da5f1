//! What a real cluster needs to run an operator: CRDs, an account, the least rules, a Deployment.
//!
//! A controller knows what it watches, so that reading rules are exact. What it writes shows in its requests: those
//! that its tests recorded ([`Verbs`]) give exact writing rules; without any, primary and owned kinds get the usual
//! ones. The way of it, with the test kit:
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
//! testing::kept("verbs.txt", &cluster.verbs("my-operator"));          // EVENKEEL_UPDATE=1 writes the file
//! ```
//!
//! A new operator begins without `verbs.txt`: its tests run under the usual rules, and write the file.

mod verbs;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Object;
use crate::controller::Controller;
use crate::error::BoxError;
use crate::leader::LeaderElection;
use verbs::Target;

pub use verbs::{Verbs, VerbsError};

/// The namespaces that every cluster has.
const GIVEN_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// What an operator was declared to do with a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// It reconciles objects of this kind.
    Primary,
    /// It makes objects of this kind.
    Owned,
    /// It reads objects of this kind.
    Read,
}

/// A declared use of a kind, in these namespaces; in all where there are none.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) resource: ApiResource,
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) purpose: Use,
    /// Whether its objects are known to live in namespaces.
    pub(crate) namespaced: bool,
}

impl Declared {
    /// The same in these namespaces, where it named none and its kind has some.
    pub(crate) fn within(mut self, namespaces: &BTreeSet<String>) -> Self {
        if self.namespaced && self.namespaces.is_empty() {
            self.namespaces.clone_from(namespaces);
        }
        self
    }
}

/// The manifests of an operator.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_runtime::manifests::Manifests;
/// use evenkeel_runtime::{Action, Context, Controller, Result};
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> Result<Action> { Ok(Action::done()) }
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
pub struct Manifests {
    name: String,
    namespace: String,
    image: Option<String>,
    args: Vec<String>,
    replicas: u32,
    /// Where health and readiness are served.
    port: Option<u16>,
    crds: Vec<Value>,
    declared: Vec<Declared>,
    /// Namespace and name of the lease, where a leader is elected.
    lease: Option<(String, String)>,
    recorded: Option<Verbs>,
}

impl Manifests {
    /// The manifests of an operator of this name, which will run in this namespace.
    pub fn new(name: &str, namespace: &str) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            image: None,
            args: Vec::new(),
            replicas: 1,
            port: None,
            crds: Vec::new(),
            declared: Vec::new(),
            lease: None,
            recorded: None,
        }
    }

    /// Allows what this controller declares.
    pub fn controller<K: Object, S>(self, controller: &Controller<K, S>) -> Self {
        self.declared(controller.declarations())
    }

    pub(crate) fn declared(mut self, declared: impl IntoIterator<Item = Declared>) -> Self {
        self.declared.extend(declared);
        self
    }

    /// Allows this election, and runs two replicas.
    pub fn leader_election(mut self, election: &LeaderElection) -> Self {
        self.lease = Some(election.key());
        self.replicas = 2;
        self
    }

    /// Adds a Deployment of this image.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = Some(image.into());
        self
    }

    /// Gives the Deployment's container these arguments.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Has the Deployment ask `/healthz` and `/readyz` at this port: see [`Manager::serve`](crate::Manager::serve).
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Adds a custom resource definition, as `T::crd()` gives it.
    pub fn crd(mut self, crd: &CustomResourceDefinition) -> Self {
        self.crds.extend(serde_json::to_value(crd).ok());
        self
    }

    /// Allows these recorded requests, and no other writes.
    pub fn verbs(mut self, verbs: Verbs) -> Self {
        self.recorded.get_or_insert_default().extend(verbs);
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

    /// All of it as YAML documents, for `kubectl apply`.
    pub fn yaml(&self) -> Result<String, BoxError> {
        let documents: Result<Vec<String>, _> = self.objects().iter().map(serde_saphyr::to_string).collect();
        Ok(documents?.join("---\n"))
    }

    /// All of it as objects, in the order in which they are to be applied.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = self.crds.clone();
        if !GIVEN_NAMESPACES.contains(&self.namespace.as_str()) {
            let metadata = json!({ "name": self.namespace });
            objects.push(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }));
        }
        let metadata = json!({ "name": self.name, "namespace": self.namespace });
        objects.push(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }));
        for (namespace, rules) in self.rules() {
            objects.extend(self.role(namespace.as_deref(), &rules));
        }
        objects.extend(self.image.as_ref().map(|image| self.deployment(image)));
        objects
    }

    /// The rules by the namespace they hold in; none for the whole cluster.
    fn rules(&self) -> BTreeMap<Option<String>, Vec<Rule>> {
        let mut grants = Scopes::default();
        for declared in &self.declared {
            for scope in scopes_of(declared) {
                self.grant(grants.entry(scope).or_default(), declared);
            }
        }
        if let Some(recorded) = &self.recorded {
            self.grant_recorded(&mut grants, recorded);
        }
        without_repeats(&mut grants);
        let mut rules: BTreeMap<Option<String>, Vec<Rule>> =
            grants.into_iter().map(|(scope, grants)| (scope, Rule::list(grants))).collect();
        if let Some((namespace, name)) = &self.lease {
            rules.entry(Some(namespace.clone())).or_default().extend(Rule::lease(name));
        }
        rules.retain(|_, rules| !rules.is_empty());
        rules
    }

    /// What a declaration needs by itself: its watch, and as long as nothing was recorded the usual writes.
    fn grant(&self, grants: &mut Grants, declared: &Declared) {
        let ApiResource { group, plural, .. } = &declared.resource;
        let key = |suffix: &str| (group.clone(), format!("{plural}{suffix}"));
        grants.entry(key("")).or_default().extend(["list", "watch"]);
        if declared.purpose == Use::Primary {
            // A reconcile whose cache is behind its own last write reads its object live.
            grants.entry(key("")).or_default().insert("get");
            if self.declared.iter().any(|other| other.purpose == Use::Owned) {
                // Owner references that block need it where the admission plugin for them is on, as on OpenShift.
                grants.entry(key("/finalizers")).or_default().insert("update");
            }
        }
        if self.recorded.is_some() {
            return;
        }
        grants.entry(key("")).or_default().insert("get");
        match declared.purpose {
            Use::Read => {}
            Use::Owned => {
                grants.entry(key("")).or_default().extend(["create", "delete", "patch", "update"]);
            }
            Use::Primary => {
                grants.entry(key("")).or_default().extend(["patch", "update"]);
                grants.entry(key("/status")).or_default().extend(["patch", "update"]);
            }
        }
        grants.entry(events()).or_default().extend(["create", "patch"]);
    }

    /// A recorded request is allowed where its kind was declared, else wherever the operator works.
    fn grant_recorded(&self, grants: &mut Scopes, recorded: &Verbs) {
        let everywhere: BTreeSet<Option<String>> = match grants.is_empty() {
            true => [None].into(),
            false => grants.keys().cloned().collect(),
        };
        for (Target { group, resource, wide }, verbs) in recorded.iter() {
            let lease = group == "coordination.k8s.io" && resource == "leases";
            if lease && self.lease.is_some() {
                continue;
            }
            let plural = resource.split('/').next().unwrap_or_default();
            let same = |declared: &&Declared| {
                declared.resource.group == *group && declared.resource.plural == plural
            };
            let declared: BTreeSet<Option<String>> =
                self.declared.iter().filter(same).flat_map(scopes_of).collect();
            let scopes = match (wide, declared.is_empty()) {
                (true, true) => [None].into(),
                (false, true) => everywhere.clone(),
                (_, false) => declared,
            };
            let key = (group.clone(), resource.clone());
            for scope in scopes {
                let granted = grants.entry(scope).or_default().entry(key.clone()).or_default();
                granted.extend(verbs);
                if key == events() {
                    // An event that comes again continues its series, which a test may not have waited for.
                    granted.extend(["create", "patch"]);
                }
            }
        }
    }

    fn role(&self, namespace: Option<&str>, rules: &[Rule]) -> [Value; 2] {
        let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
        let group = "rbac.authorization.k8s.io";
        let mut metadata = json!({ "name": self.name });
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
            "roleRef": { "apiGroup": group, "kind": kind, "name": self.name },
            "subjects": [{ "kind": "ServiceAccount", "name": self.name, "namespace": self.namespace }],
        });
        [role, binding]
    }

    fn deployment(&self, image: &str) -> Value {
        let labels = json!({ "app.kubernetes.io/name": self.name });
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
        if let Some(port) = self.port {
            let probe = |path: &str| json!({ "httpGet": { "path": path, "port": port } });
            container["ports"] = json!([{ "name": "http", "containerPort": port }]);
            container["livenessProbe"] = probe("/healthz");
            container["readinessProbe"] = probe("/readyz");
        }
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": self.name, "namespace": self.namespace, "labels": labels },
            "spec": {
                "replicas": self.replicas,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "serviceAccountName": self.name,
                        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                        "containers": [container],
                    },
                },
            },
        })
    }
}

/// From (group, resource) to verbs.
type Grants = BTreeMap<(String, String), BTreeSet<&'static str>>;

/// Grants by the namespace they hold in; none for the whole cluster.
type Scopes = BTreeMap<Option<String>, Grants>;

fn events() -> (String, String) {
    ("events.k8s.io".into(), "events".into())
}

fn scopes_of(declared: &Declared) -> Vec<Option<String>> {
    match declared.namespaces.is_empty() {
        true => vec![None],
        false => declared.namespaces.iter().cloned().map(Some).collect(),
    }
}

/// Takes out of the namespaces what holds in the whole cluster.
fn without_repeats(grants: &mut Scopes) {
    let Some(wide) = grants.get(&None).cloned() else { return };
    for (_, narrow) in grants.iter_mut().filter(|(scope, _)| scope.is_some()) {
        for (key, verbs) in &wide {
            if let Some(narrow) = narrow.get_mut(key) {
                narrow.retain(|verb| !verbs.contains(verb));
            }
        }
        narrow.retain(|_, verbs| !verbs.is_empty());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    verbs: Vec<&'static str>,
}

impl Rule {
    /// One rule for each set of verbs in a group.
    fn list(grants: Grants) -> Vec<Self> {
        let mut rules: Vec<Self> = Vec::new();
        for ((group, resource), verbs) in grants {
            let verbs: Vec<&'static str> = verbs.into_iter().collect();
            match rules.iter_mut().find(|rule| rule.api_groups[0] == group && rule.verbs == verbs) {
                Some(rule) => rule.resources.push(resource),
                None => rules.push(Self::new(&group, &resource, verbs)),
            }
        }
        rules
    }

    /// What an election asks for: a rule cannot name what is yet to be created.
    fn lease(name: &str) -> [Self; 2] {
        let rule = |verbs| Self::new("coordination.k8s.io", "leases", verbs);
        let held = Self { resource_names: vec![name.into()], ..rule(vec!["get", "update"]) };
        [rule(vec!["create"]), held]
    }

    fn new(group: &str, resource: &str, verbs: Vec<&'static str>) -> Self {
        let (api_groups, resources) = (vec![group.into()], vec![resource.into()]);
        Self { api_groups, resources, resource_names: Vec::new(), verbs }
    }
}

#[cfg(test)]
mod tests;
