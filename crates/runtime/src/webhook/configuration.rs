//! The objects that tell the API server which webhooks to call, and where.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::service::CONVERT_PATH;
use super::{Action, Webhook, Webhooks};

/// The label that every namespace has, with its name.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// Where the API server reaches the webhooks: a Service of the cluster, or a URL.
///
/// ```
/// use evenkeel_runtime::webhook::Endpoint;
///
/// let in_cluster = Endpoint::service("operators", "sites-webhook");
/// let elsewhere = Endpoint::url("https://192.0.2.1:9443").ca_bundle("-----BEGIN CERTIFICATE-----…");
/// # drop((in_cluster, elsewhere));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Endpoint {
    place: Place,
    ca_bundle: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Service { namespace: String, name: String },
    Url(String),
}

impl Endpoint {
    /// The port 443 of a Service. The operator runs in the namespace of the Service, and its webhooks do not review
    /// objects in that namespace: otherwise the operator could not be started while it is down.
    pub fn service(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let place = Place::Service { namespace: namespace.into(), name: name.into() };
        Self { place, ca_bundle: None }
    }

    /// A URL with host and port, to which the path of a webhook is added.
    pub fn url(base: impl Into<String>) -> Self {
        Self { place: Place::Url(base.into()), ca_bundle: None }
    }

    /// Sets the CA certificates in PEM that the API server trusts for the server of the webhooks; those of its system by
    /// default.
    pub fn ca_bundle(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_bundle = Some(pem.into());
        self
    }

    /// The `clientConfig` of the webhook at this path.
    fn client_config(&self, path: &str) -> Value {
        let mut config = match &self.place {
            Place::Service { namespace, name } => {
                json!({ "service": { "namespace": namespace, "name": name, "path": path, "port": 443 } })
            }
            Place::Url(base) => json!({ "url": format!("{}{path}", base.trim_end_matches('/')) }),
        };
        if let Some(bundle) = &self.ca_bundle {
            config["caBundle"] = STANDARD.encode(bundle).into();
        }
        config
    }

    /// The namespace that the webhooks do not review.
    fn spared_namespace(&self) -> Option<&str> {
        match &self.place {
            Place::Service { namespace, .. } => Some(namespace),
            Place::Url(_) => None,
        }
    }
}

impl Webhooks {
    /// The `MutatingWebhookConfiguration` and the `ValidatingWebhookConfiguration` of this name; only those that are
    /// needed.
    pub fn configurations(&self, name: &str, endpoint: &Endpoint) -> Vec<Value> {
        let kinds = [
            (Action::Mutate, "MutatingWebhookConfiguration"),
            (Action::Validate, "ValidatingWebhookConfiguration"),
        ];
        let object = |(action, kind): (Action, &str)| {
            let hooks = self.hooks().filter(|hook| hook.action == action);
            let hooks: Vec<Value> = hooks.map(|hook| webhook(hook, endpoint)).collect();
            (!hooks.is_empty()).then(|| {
                json!({
                    "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                    "metadata": { "name": name }, "webhooks": hooks,
                })
            })
        };
        kinds.into_iter().filter_map(object).collect()
    }

    /// The names of the definitions whose objects the webhooks convert, and the `spec.conversion` of each.
    pub fn conversions(&self, endpoint: &Endpoint) -> Vec<(String, Value)> {
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": endpoint.client_config(CONVERT_PATH), "conversionReviewVersions": ["v1"],
            },
        });
        self.converters().map(|converter| (converter.crd_name.clone(), conversion.clone())).collect()
    }
}

/// One entry of a configuration.
fn webhook(hook: &Webhook, endpoint: &Endpoint) -> Value {
    let (options, resource) = (&hook.options, &hook.resource);
    let parts = options.subresources.iter().map(|part| format!("{}/{part}", resource.plural));
    let resources: Vec<String> = std::iter::once(resource.plural.clone()).chain(parts).collect();
    let mut entry = json!({
        "name": hook.qualified_name(),
        "admissionReviewVersions": ["v1"],
        "clientConfig": endpoint.client_config(&hook.url_path()),
        "failurePolicy": options.failure_policy.word(),
        "matchPolicy": options.match_policy.word(),
        "sideEffects": options.side_effects.word(),
        "timeoutSeconds": options.timeout.as_secs(),
        "rules": [{
            "apiGroups": [resource.group], "apiVersions": [resource.version], "resources": resources,
            "operations": options.operations, "scope": options.scope.word(),
        }],
    });
    if hook.action == Action::Mutate {
        entry["reinvocationPolicy"] = options.reinvocation.word().into();
    }
    let mut namespaces = options.namespace_selector.clone().unwrap_or_default();
    if let Some(spared) = endpoint.spared_namespace() {
        let own = json!({ "key": NAMESPACE_LABEL, "operator": "NotIn", "values": [spared] });
        namespaces.match_expressions.get_or_insert_default().extend(serde_json::from_value(own).ok());
    }
    entry["namespaceSelector"] = json!(namespaces);
    if let Some(selector) = &options.object_selector {
        entry["objectSelector"] = json!(selector);
    }
    if !options.match_conditions.is_empty() {
        let conditions = options.match_conditions.iter();
        let conditions =
            conditions.map(|(name, expression)| json!({ "name": name, "expression": expression }));
        entry["matchConditions"] = conditions.collect::<Vec<_>>().into();
    }
    entry
}
