//! The objects that tell the API server which webhooks to call, and where.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use super::service::CONVERT_PATH;
use super::{Action, Webhook, Webhooks};

/// The label with the namespace's name, which every namespace has.
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
    /// Port 443 of a Service. The operator is expected to run in the Service's namespace, and its webhooks for built-in
    /// kinds do not review objects in that namespace: otherwise the operator could not be started again while it is
    /// down.
    pub fn service(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let place = Place::Service { namespace: namespace.into(), name: name.into() };
        Self { place, ca_bundle: None }
    }

    /// A URL with host and port. The path of each webhook is appended to it.
    pub fn url(base: impl Into<String>) -> Self {
        Self { place: Place::Url(base.into()), ca_bundle: None }
    }

    /// Sets the CA certificates, in PEM, that the API server trusts for the webhook server. The default is the CAs of
    /// the API server's system.
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

    /// Returns the host names that the API server uses, which the certificate must contain.
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

    /// The namespace that the webhooks do not review, if any.
    fn spared_namespace(&self) -> Option<&str> {
        match &self.place {
            Place::Service { namespace, .. } => Some(namespace),
            Place::Url(_) => None,
        }
    }
}

impl Webhooks {
    /// Returns the `MutatingWebhookConfiguration` and `ValidatingWebhookConfiguration` with this name, as far as there
    /// are webhooks for them.
    pub fn configurations(&self, name: &str, endpoint: &Endpoint) -> Vec<Value> {
        let entries: Vec<Entry> = self.hooks().map(Entry::of).collect();
        configurations(&entries, name, endpoint)
    }

    /// Returns the names of the CustomResourceDefinitions whose objects the webhooks convert, and the `spec.conversion`
    /// of each.
    pub fn conversions(&self, endpoint: &Endpoint) -> Vec<(String, Value)> {
        let conversion = conversion(endpoint);
        self.converters().map(|converter| (converter.crd_name.clone(), conversion.clone())).collect()
    }
}

/// The configuration entry of an admission webhook, without its endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    action: Action,
    path: String,
    /// Whether the kind is built into Kubernetes.
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

    /// Returns the entry for this endpoint. A webhook for a built-in kind does not review the operator's own namespace:
    /// the operator could not start again while it is down, because its pods, Secrets and leases could not be written.
    /// Webhooks for custom resources need no exception, because these cannot keep a pod from starting.
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

/// Returns the name of the Service for an operator's webhooks.
pub(crate) fn service_name(operator: &str) -> String {
    format!("{operator}-webhook")
}

/// Returns the name of the Secret with the certificates for an operator's webhooks.
pub(crate) fn secret_name(operator: &str) -> String {
    format!("{operator}-webhook-cert")
}

/// Whether a group is one of Kubernetes' own, which have no dot or end with `.k8s.io`.
fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Returns the configurations for these webhooks, as far as there are entries for them.
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

/// Returns the `spec.conversion` of a CustomResourceDefinition whose objects are converted at this endpoint.
pub(crate) fn conversion(endpoint: &Endpoint) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": endpoint.client_config(CONVERT_PATH), "conversionReviewVersions": ["v1"],
        },
    })
}
