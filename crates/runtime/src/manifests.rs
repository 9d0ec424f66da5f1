//! What a real cluster needs to run an operator: CRDs, an account, the least rules, a Deployment.
//!
//! A controller knows what it watches, so that reading rules are exact. What it writes shows in its requests: those
//! that a test recorded give exact writing rules; without any, primary and owned kinds get the usual ones.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::BoxError;

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
}

/// The manifests of an operator.
///
/// ```no_run
/// # fn example(manager: evenkeel_runtime::Manager) -> Result<(), evenkeel_runtime::BoxError> {
/// let manifests = manager.manifests("my-operator", "operators").image("registry.example.com/my-operator:1");
/// println!("{}", manifests.yaml()?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Manifests {
    name: String,
    namespace: String,
    image: Option<String>,
    replicas: u32,
    crds: Vec<Value>,
    declared: Vec<Declared>,
    elects: bool,
    /// From (group, resource) to verbs, as recorded.
    observed: BTreeMap<(String, String), BTreeSet<&'static str>>,
}

impl Manifests {
    pub(crate) fn new(name: &str, namespace: &str, declared: Vec<Declared>, elects: bool) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            image: None,
            replicas: if elects { 2 } else { 1 },
            crds: Vec::new(),
            declared,
            elects,
            observed: BTreeMap::new(),
        }
    }

    /// Adds a Deployment of this image.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = Some(image.into());
        self
    }

    /// Adds a custom resource definition, as `T::crd()` gives it.
    pub fn crd(mut self, crd: &CustomResourceDefinition) -> Self {
        self.crds.extend(serde_json::to_value(crd).ok());
        self
    }

    /// Adds what a recorded request needs. Requests that no rule is about are left out.
    pub fn observed(mut self, method: &http::Method, path_and_query: &str) -> Self {
        if let Some((group, resource, verb)) = parse(method, path_and_query) {
            self.observed.entry((group, resource)).or_default().insert(verb);
        }
        self
    }

    /// All of it as YAML documents, for `kubectl apply`.
    pub fn yaml(&self) -> Result<String, BoxError> {
        let documents: Result<Vec<String>, _> = self.objects().iter().map(serde_saphyr::to_string).collect();
        Ok(documents?.join("---\n"))
    }

    /// All of it as objects, in the order in which they are to be applied.
    pub fn objects(&self) -> Vec<Value> {
        let metadata = json!({ "name": self.name, "namespace": self.namespace });
        let mut objects = self.crds.clone();
        objects.push(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }));
        for (namespace, rules) in self.rules() {
            objects.extend(self.role(namespace.as_deref(), &rules));
        }
        objects.extend(self.image.as_ref().map(|image| self.deployment(image)));
        objects
    }

    /// The rules by the namespace they hold in; none for the whole cluster.
    fn rules(&self) -> BTreeMap<Option<String>, Vec<Rule>> {
        let mut grants: BTreeMap<Option<String>, Grants> = BTreeMap::new();
        for declared in &self.declared {
            let mut scopes: Vec<Option<String>> = declared.namespaces.iter().cloned().map(Some).collect();
            if scopes.is_empty() {
                scopes.push(None);
            }
            for scope in scopes {
                let grants = grants.entry(scope).or_default();
                self.grant(grants, declared);
            }
        }
        let scopes: Vec<Option<String>> = grants.keys().cloned().collect();
        for scope in &scopes {
            let grants = grants.entry(scope.clone()).or_default();
            for ((group, resource), verbs) in &self.observed {
                grants.entry((group.clone(), resource.clone())).or_default().extend(verbs);
            }
            let events = grants.entry(("events.k8s.io".into(), "events".into())).or_default();
            events.extend(["create", "patch"]);
        }
        if self.elects {
            let own = grants.entry(Some(self.namespace.clone())).or_default();
            let leases = own.entry(("coordination.k8s.io".into(), "leases".into())).or_default();
            leases.extend(["create", "get", "update"]);
        }
        grants.into_iter().map(|(scope, grants)| (scope, Rule::list(grants))).collect()
    }

    fn grant(&self, grants: &mut Grants, declared: &Declared) {
        let ApiResource { group, plural, .. } = &declared.resource;
        let key = |suffix: &str| (group.clone(), format!("{plural}{suffix}"));
        grants.entry(key("")).or_default().extend(["get", "list", "watch"]);
        if !self.observed.is_empty() {
            return;
        }
        match declared.purpose {
            Use::Read => {}
            Use::Owned => {
                grants.entry(key("")).or_default().extend(["create", "delete", "patch", "update"]);
            }
            Use::Primary => {
                grants.entry(key("")).or_default().extend(["patch", "update"]);
                grants.entry(key("/status")).or_default().extend(["patch", "update"]);
                // Blocking owner references need it where the admission plugin for them is on.
                grants.entry(key("/finalizers")).or_default().insert("update");
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
                        "containers": [{
                            "name": "operator",
                            "image": image,
                            "securityContext": {
                                "allowPrivilegeEscalation": false,
                                "readOnlyRootFilesystem": true,
                                "capabilities": { "drop": ["ALL"] },
                            },
                        }],
                    },
                },
            },
        })
    }
}

type Grants = BTreeMap<(String, String), BTreeSet<&'static str>>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
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
                None => rules.push(Self { api_groups: vec![group], resources: vec![resource], verbs }),
            }
        }
        rules
    }
}

/// Group, resource (with subresource) and verb of a request for objects.
fn parse(method: &http::Method, path_and_query: &str) -> Option<(String, String, &'static str)> {
    let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
    let mut parts = path.trim_matches('/').split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    parts.next()?;
    let mut rest: Vec<&str> = parts.collect();
    // A namespace itself is an object too: /api/v1/namespaces/a has nothing behind it.
    if rest.first() == Some(&"namespaces") && rest.len() > 2 && !["status", "finalize"].contains(&rest[2]) {
        rest.drain(..2);
    }
    let resource = match rest.get(2) {
        Some(subresource) => format!("{}/{subresource}", rest[0]),
        None => (*rest.first()?).to_owned(),
    };
    let named = rest.len() > 1;
    let watch = query.split('&').any(|pair| pair.starts_with("watch") && !pair.ends_with("=false"));
    let verb = match method.as_str() {
        "GET" if named => "get",
        "GET" if watch => "watch",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ => return None,
    };
    Some((group.to_owned(), resource, verb))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    fn declared<K: kube::Resource<DynamicType = ()>>(purpose: Use, namespaces: &[&str]) -> Declared {
        let namespaces = namespaces.iter().map(|namespace| (*namespace).to_owned()).collect();
        Declared { resource: ApiResource::erase::<K>(&()), namespaces, purpose }
    }

    fn rules_of(manifests: &Manifests, kind: &str) -> Value {
        let objects = manifests.objects();
        objects
            .iter()
            .find(|object| object["kind"] == kind)
            .map(|object| object["rules"].clone())
            .unwrap_or_default()
    }

    #[test]
    fn requests_become_verbs() {
        let check = |method: Method, path: &str, wanted: (&str, &str, &str)| {
            let (group, resource, verb) = parse(&method, path).unwrap();
            assert_eq!((group.as_str(), resource.as_str(), verb), wanted);
        };
        check(Method::GET, "/api/v1/namespaces/a/pods/x", ("", "pods", "get"));
        check(Method::GET, "/api/v1/pods?watch=true&x=y", ("", "pods", "watch"));
        check(Method::GET, "/api/v1/namespaces/a", ("", "namespaces", "get"));
        check(Method::PUT, "/api/v1/namespaces/a/finalize", ("", "namespaces/finalize", "update"));
        check(
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/x/status",
            ("apps", "deployments/status", "patch"),
        );
        check(
            Method::DELETE,
            "/apis/apps/v1/namespaces/a/deployments",
            ("apps", "deployments", "deletecollection"),
        );
        assert_eq!(parse(&Method::GET, "/version"), None);
    }

    #[test]
    fn recorded_requests_replace_the_usual_writes() {
        let declarations =
            vec![declared::<ConfigMap>(Use::Primary, &[]), declared::<Secret>(Use::Owned, &[])];
        let usual = Manifests::new("op", "ops", declarations, false);
        let rules = rules_of(&usual, "ClusterRole").to_string();
        assert!(rules.contains("\"secrets\"") && rules.contains("delete"), "{rules}");
        let least = usual.observed(&Method::PATCH, "/api/v1/namespaces/a/secrets/x?force=true");
        let wanted = json!([
            { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] },
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "patch", "watch"] },
            { "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"] },
        ]);
        assert_eq!(rules_of(&least, "ClusterRole"), wanted);
    }

    #[test]
    fn namespaced_sources_need_no_cluster_role() {
        let manifests = Manifests::new("op", "ops", vec![declared::<Secret>(Use::Read, &["a", "b"])], true)
            .image("registry.example.com/op:1");
        let kinds: Vec<String> =
            manifests.objects().iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect();
        let roles = ["Role", "RoleBinding"];
        let wanted: Vec<&str> = ["ServiceAccount"]
            .into_iter()
            .chain(roles)
            .chain(roles)
            .chain(roles)
            .chain(["Deployment"])
            .collect();
        assert_eq!(kinds, wanted, "two for the namespaces and one for the lease");
        let yaml = manifests.yaml().unwrap();
        assert_eq!(yaml.matches("---\n").count(), 7, "{yaml}");
    }
}
