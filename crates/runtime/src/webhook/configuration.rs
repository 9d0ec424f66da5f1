//! The objects that tell the API server which webhooks to call, and where.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
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
    /// objects of built-in kinds in that namespace: otherwise the operator could not be started while it is down.
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

    /// Whether a `clientConfig` leads to this endpoint.
    #[cfg(feature = "webhook-server")]
    pub(super) fn is_called_by(&self, config: &Value) -> bool {
        match &self.place {
            Place::Service { namespace, name } => {
                let service = &config["service"];
                service["namespace"] == **namespace && service["name"] == **name
            }
            Place::Url(base) => {
                let base = base.trim_end_matches('/');
                let rest = config["url"].as_str().and_then(|url| url.strip_prefix(base));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }

    /// The names that the API server knows the server by, which its certificate must have.
    #[cfg(feature = "webhook-server")]
    pub(super) fn server_names(&self) -> Vec<String> {
        match &self.place {
            Place::Service { namespace, name } => {
                let service = format!("{name}.{namespace}.svc");
                vec![format!("{service}.cluster.local"), service]
            }
            Place::Url(base) => {
                let uri: Option<http::Uri> = base.parse().ok();
                let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
                vec![host.trim_start_matches('[').trim_end_matches(']').to_owned()]
            }
        }
    }

    /// Whether the API server finds the replicas through a Service, whose endpoints follow their readiness.
    #[cfg(feature = "webhook-server")]
    pub(crate) fn is_service(&self) -> bool {
        matches!(self.place, Place::Service { .. })
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
        let entries: Vec<Entry> = self.hooks().map(Entry::of).collect();
        configurations(&entries, name, endpoint)
    }

    /// The names of the definitions whose objects the webhooks convert, and the `spec.conversion` of each.
    pub fn conversions(&self, endpoint: &Endpoint) -> Vec<(String, Value)> {
        let conversion = conversion(endpoint);
        self.converters().map(|converter| (converter.crd_name.clone(), conversion.clone())).collect()
    }
}

/// An admission webhook as the configurations describe it, without the place where it is called.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    action: Action,
    path: String,
    /// Whether the kind is one of Kubernetes' own.
    built_in: bool,
    namespaces: LabelSelector,
    /// The fields of the entry.
    fields: Value,
}

impl Entry {
    pub(crate) fn of<S>(hook: &Webhook<S>) -> Self {
        let (options, resource) = (&hook.options, &hook.resource);
        let parts = options.subresources.iter().map(|part| format!("{}/{part}", resource.plural));
        let resources: Vec<String> = std::iter::once(resource.plural.clone()).chain(parts).collect();
        let mut fields = json!({
            "name": hook.qualified_name(),
            "admissionReviewVersions": ["v1"],
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
            fields["reinvocationPolicy"] = options.reinvocation.word().into();
        }
        if let Some(selector) = &options.object_selector {
            fields["objectSelector"] = json!(selector);
        }
        if !options.match_conditions.is_empty() {
            let conditions = options.match_conditions.iter();
            let conditions =
                conditions.map(|(name, expression)| json!({ "name": name, "expression": expression }));
            fields["matchConditions"] = conditions.collect::<Vec<_>>().into();
        }
        Self {
            action: hook.action,
            path: hook.url_path(),
            built_in: is_built_in(&resource.group),
            namespaces: options.namespace_selector.clone().unwrap_or_default(),
            fields,
        }
    }

    /// The entry for this endpoint. A webhook of a built-in kind does not review the operator's own namespace: without its
    /// pods, Secrets and leases the operator could not start again while it is down. Custom resources cannot keep a pod from
    /// starting.
    fn at(&self, endpoint: &Endpoint) -> Value {
        let mut entry = self.fields.clone();
        entry["clientConfig"] = endpoint.client_config(&self.path);
        let mut namespaces = self.namespaces.clone();
        if let Some(spared) = endpoint.spared_namespace().filter(|_| self.built_in) {
            let own = json!({ "key": NAMESPACE_LABEL, "operator": "NotIn", "values": [spared] });
            namespaces.match_expressions.get_or_insert_default().extend(serde_json::from_value(own).ok());
        }
        entry["namespaceSelector"] = json!(namespaces);
        entry
    }
}

/// The name of the Service of an operator's webhooks.
pub(crate) fn service_name(operator: &str) -> String {
    format!("{operator}-webhook")
}

/// The name of the Secret with the certificates of an operator's webhooks.
pub(crate) fn secret_name(operator: &str) -> String {
    format!("{operator}-webhook-cert")
}

/// Whether a group is one of Kubernetes' own: theirs have no dot, or end with `.k8s.io`.
fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// The configurations of these webhooks; only those that are needed.
pub(crate) fn configurations(entries: &[Entry], name: &str, endpoint: &Endpoint) -> Vec<Value> {
    let kinds = [
        (Action::Mutate, "MutatingWebhookConfiguration"),
        (Action::Validate, "ValidatingWebhookConfiguration"),
    ];
    let object = |(action, kind): (Action, &str)| {
        let entries = entries.iter().filter(|entry| entry.action == action);
        let entries: Vec<Value> = entries.map(|entry| entry.at(endpoint)).collect();
        (!entries.is_empty()).then(|| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": { "name": name }, "webhooks": entries,
            })
        })
    };
    kinds.into_iter().filter_map(object).collect()
}

/// The `spec.conversion` of a definition whose objects are converted at this endpoint.
pub(crate) fn conversion(endpoint: &Endpoint) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": endpoint.client_config(CONVERT_PATH), "conversionReviewVersions": ["v1"],
        },
    })
}
