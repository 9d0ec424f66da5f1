//! What an operator's webhooks need in a cluster: a Service, the Secret for certificates, configurations, conversions
//! and RBAC rules.

mod converted;

use kube::core::{ApiResource, CustomResourceExt};
use serde_json::{Value, json};

use super::rules::Rule;
use super::{Manifests, mount_secret};
use crate::Object;
use crate::webhook::{
    Conversion, Endpoint, Entry, Webhook, configurations, conversion_at, secret_name, service_name,
};
pub(crate) use converted::Converted;

/// The default webhook port of controller-runtime and kubebuilder.
const PORT: u16 = 9443;
/// The name of the webhook port in the Deployment, which the Service refers to.
const PORT_NAME: &str = "webhooks";
/// The volume with certificates of cert-manager.
const VOLUME: &str = "webhook-certificates";

/// The webhooks of an operator.
#[derive(Clone, Debug, Default)]
pub(super) struct Hooked {
    entries: Vec<Entry>,
    converted: Vec<Converted>,
    port: Option<u16>,
    endpoint: Option<Endpoint>,
    /// The mount path of certificates that the operator does not make itself.
    certificate_folder: Option<String>,
}

impl Manifests {
    /// Adds an admission webhook: its configuration, a Service, and the rules to manage its certificates.
    /// [`Manager::manifests`](crate::Manager::manifests) calls this for the manager's webhooks.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use evenkeel_runtime::webhook::{Admission, Verdict, Webhook};
    /// use evenkeel_runtime::{Manifests, Result};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// async fn check(map: Arc<ConfigMap>, _: Admission<ConfigMap>) -> Result<Verdict> { Ok(Verdict::allow()) }
    ///
    /// let yaml = Manifests::new("mirror", "operators").webhook(&Webhook::validate(check)).yaml()?;
    /// assert!(yaml.contains("kind: ValidatingWebhookConfiguration") && yaml.contains("kind: Service\n"));
    /// # Ok::<_, evenkeel_runtime::BoxError>(())
    /// ```
    pub fn webhook<S>(mut self, webhook: &Webhook<S>) -> Self {
        self.hooked.entries.push(Entry::of(webhook));
        self
    }

    /// Adds the conversion between the versions of a kind, and the kind's CustomResourceDefinition.
    pub fn conversion<H>(self, conversion: &Conversion<H>) -> Self
    where
        H: Object<DynamicType = ()> + CustomResourceExt,
    {
        self.hooked(Vec::new(), vec![Converted::of(conversion)])
    }

    pub(crate) fn hooked(mut self, entries: Vec<Entry>, converted: Vec<Converted>) -> Self {
        self.hooked.entries.extend(entries);
        self.hooked.converted.extend(converted);
        self
    }

    /// Sets the port on which the webhooks are served in the pod; 9443 by default.
    pub fn webhook_port(mut self, port: u16) -> Self {
        self.hooked.port = Some(port);
        self
    }

    /// Sets where the API server reaches the webhooks. The default is the Service `NAME-webhook`, which the manifests
    /// contain.
    pub fn webhook_endpoint(mut self, endpoint: Endpoint) -> Self {
        self.hooked.endpoint = Some(endpoint);
        self
    }

    /// Mounts the Secret `NAME-webhook-cert`, with certificates of cert-manager, at this path. cert-manager then also
    /// maintains the `caBundle` of the configurations, and the operator needs no rules for that.
    pub fn webhook_certificates_in_folder(mut self, path: impl Into<String>) -> Self {
        self.hooked.certificate_folder = Some(path.into());
        self
    }

    fn has_webhooks(&self) -> bool {
        !self.hooked.entries.is_empty() || !self.hooked.converted.is_empty()
    }

    /// The name of the container's webhook port, if the operator has webhooks.
    pub(super) fn webhook_port_name(&self) -> Option<&'static str> {
        self.has_webhooks().then_some(PORT_NAME)
    }

    fn endpoint(&self) -> Endpoint {
        let usual = || Endpoint::service(&self.namespace, service_name(&self.name));
        self.hooked.endpoint.clone().unwrap_or_else(usual)
    }

    /// Adds the annotation by which cert-manager finds the objects whose `caBundle` it maintains.
    fn annotate(&self, object: &mut Value) {
        if self.hooked.certificate_folder.is_some() {
            let certificate = format!("{}/{}", self.namespace, secret_name(&self.name));
            object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] = certificate.into();
        }
    }

    /// Returns the CustomResourceDefinitions, with the conversions of those that have one.
    pub(super) fn definitions(&self) -> Vec<Value> {
        let mut definitions = self.crds.clone();
        for converted in &self.hooked.converted {
            let given = definitions.iter().position(|crd| crd["metadata"]["name"] == *converted.name);
            let at = given.unwrap_or_else(|| {
                definitions.push(converted.definition.clone());
                definitions.len() - 1
            });
            definitions[at]["spec"]["conversion"] = conversion_at(&self.endpoint());
            self.annotate(&mut definitions[at]);
        }
        definitions
    }

    /// Returns the Service, and the empty Secret for the certificates of the replicas. Because the Secret exists, the
    /// replicas need no permission to create Secrets, which RBAC cannot limit to a name.
    pub(super) fn webhook_objects(&self) -> Vec<Value> {
        if !self.has_webhooks() {
            return Vec::new();
        }
        let labels = self.labels();
        let mut objects = Vec::new();
        if self.hooked.endpoint.is_none() {
            objects.push(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "name": service_name(&self.name), "namespace": self.namespace, "labels": labels },
                "spec": {
                    "selector": labels,
                    "ports": [{ "name": "https", "port": 443, "targetPort": PORT_NAME }],
                },
            }));
        }
        if self.hooked.certificate_folder.is_none() {
            let metadata =
                json!({ "name": secret_name(&self.name), "namespace": self.namespace, "labels": labels });
            objects.push(
                json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque" }),
            );
        }
        objects
    }

    /// Returns the configurations. They must come last: while the operator does not run yet, the requests that they
    /// select fail.
    pub(super) fn webhook_configurations(&self) -> Vec<Value> {
        let mut objects = configurations(&self.hooked.entries, &self.name, &self.endpoint());
        objects.iter_mut().for_each(|object| self.annotate(object));
        objects
    }

    /// Adds the port and the certificates to the Deployment's pod.
    pub(super) fn deploy_webhooks(&self, pod: &mut Value) {
        if !self.has_webhooks() {
            return;
        }
        let port = json!({ "name": PORT_NAME, "containerPort": self.hooked.port.unwrap_or(PORT) });
        let container = &mut pod["containers"][0];
        match container["ports"].as_array_mut() {
            Some(ports) => ports.push(port),
            None => container["ports"] = json!([port]),
        }
        if let Some(path) = &self.hooked.certificate_folder {
            mount_secret(pod, VOLUME, secret_name(&self.name), path);
        }
    }

    /// Returns the rules for certificates and migrations, by namespace. All rules are limited to names, except where
    /// RBAC cannot do that.
    pub(super) fn webhook_rules(&self) -> Vec<(Option<String>, Rule)> {
        let mut rules = Vec::new();
        let converted = || self.hooked.converted.iter();
        if self.has_webhooks() && self.hooked.certificate_folder.is_none() {
            let secret = Rule::new("", "secrets", vec!["get", "list", "update", "watch"]);
            rules.push((Some(self.namespace.clone()), secret.named([secret_name(&self.name)])));
            for object in self.webhook_configurations() {
                let resource = format!("{}s", object["kind"].as_str().unwrap_or_default().to_lowercase());
                let rule = Rule::new("admissionregistration.k8s.io", &resource, BUNDLE_VERBS.to_vec());
                rules.push((None, rule.named([self.name.clone()])));
            }
        }
        let definition = |part: &str, verbs: &[&'static str], name: &str| {
            let rule = Rule::new(
                "apiextensions.k8s.io",
                &format!("customresourcedefinitions{part}"),
                verbs.to_vec(),
            );
            (None, rule.named([name.to_owned()]))
        };
        let certified = self.hooked.certificate_folder.is_none();
        rules.extend(
            converted()
                .filter(|it| certified || it.migrates)
                .map(|it| definition("", &BUNDLE_VERBS, &it.name)),
        );
        for one in converted().filter(|it| it.migrates) {
            rules.push(definition("/status", &["patch"], &one.name));
            let ApiResource { group, plural, .. } = &one.resource;
            rules.push((None, Rule::new(group, plural, vec!["get", "list", "update"])));
        }
        rules
    }
}

/// The verbs needed to maintain a `caBundle`, or the progress of a migration.
const BUNDLE_VERBS: [&str; 4] = ["get", "list", "patch", "watch"];
