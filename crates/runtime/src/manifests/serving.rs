//! The endpoints of an operator: probes, metrics, and the NetworkPolicy in front of them.

use serde_json::{Value, json};

use super::rules::Rule;
use super::{Manifests, mount_secret};

/// The port of the metrics Service with TLS and without, as in kubebuilder's scaffolds.
const SECURED_PORT: u16 = 8443;
const PLAIN_PORT: u16 = 8080;

/// The volume with the certificate for metrics.
const VOLUME: &str = "metrics-certificates";

/// The path of the flight recorder's record, which is served with the metrics; below it, `stream` follows the record.
const RECORD: &str = "/debug/evenkeel";

/// The name of the container's metrics port, if metrics have a port of their own.
const METRICS: &str = "metrics";
/// The name of the container's port if it serves both probes and metrics.
const HTTP: &str = "http";
/// The name of the container's probe port, if metrics have another port.
const PROBES: &str = "probes";

/// How metrics are served.
pub(super) struct Metrics {
    /// The name of the container's metrics port.
    port: &'static str,
    pub(super) secured: bool,
}

impl Manifests {
    /// Sets the port of the Deployment's probes `/healthz` and `/readyz`. The port also serves `/metrics`, unless
    /// metrics have a port of their own; see [`Manager::serve`](crate::Manager::serve).
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Adds a port named `metrics` to the Deployment, for metrics without TLS, and a Service for it; see
    /// [`Manager::serve_metrics`](crate::Manager::serve_metrics).
    pub fn metrics_port(mut self, port: u16) -> Self {
        self.metrics_port = Some(port);
        self.metrics_off = false;
        self.metrics_secured = false;
        self
    }

    /// Adds a port named `metrics` to the Deployment, for metrics over TLS, and a Service for it. Also adds the rules
    /// that let the operator ask the API server who may read metrics, and the ClusterRole `NAME-metrics-reader` for
    /// readers; see `Manager::serve_secured`.
    pub fn secured_metrics_port(mut self, port: u16) -> Self {
        self.metrics_port = Some(port);
        self.metrics_off = false;
        self.metrics_secured = true;
        self
    }

    /// Turns metrics off, also on the port of the probes.
    pub fn without_metrics(mut self) -> Self {
        self.metrics_port = None;
        self.metrics_off = true;
        self
    }

    /// Mounts the Secret `NAME-metrics-cert`, with `tls.crt` and `tls.key`, at this path; see
    /// `SecuredServer::certificates_in_folder`.
    pub fn metrics_certificates_in_folder(mut self, path: impl Into<String>) -> Self {
        self.metrics_folder = Some(path.into());
        self
    }

    /// Adds the metrics certificate to the Deployment's pod, if it comes from a mounted Secret.
    pub(super) fn deploy_metrics_certificate(&self, pod: &mut Value) {
        if let Some(path) = self.metrics_folder.as_ref().filter(|_| self.metrics_port.is_some()) {
            mount_secret(pod, VOLUME, format!("{}-metrics-cert", self.name), path);
        }
    }

    /// Returns how metrics are served, or `None` if they are not.
    pub(super) fn metrics(&self) -> Option<Metrics> {
        match (self.metrics_port, self.port) {
            _ if self.metrics_off => None,
            (Some(_), _) => Some(Metrics { port: METRICS, secured: self.metrics_secured }),
            (None, Some(_)) => Some(Metrics { port: HTTP, secured: false }),
            (None, None) => None,
        }
    }

    pub(super) fn metrics_service_name(&self) -> String {
        format!("{}-metrics", self.name)
    }

    /// Adds ports and probes to the Deployment's container.
    pub(super) fn deploy_endpoints(&self, container: &mut Value) {
        let probed = if self.metrics_port.is_some() { PROBES } else { HTTP };
        let ports = [(probed, self.port), (METRICS, self.metrics_port)];
        let ports: Vec<_> = ports
            .iter()
            .filter_map(|(name, port)| Some(json!({ "name": name, "containerPort": (*port)? })))
            .collect();
        if !ports.is_empty() {
            container["ports"] = json!(ports);
        }
        if let Some(port) = self.port {
            let probe = |path: &str| json!({ "httpGet": { "path": path, "port": port } });
            container["livenessProbe"] = probe("/healthz");
            container["readinessProbe"] = probe("/readyz");
        }
    }

    /// Returns the rules that let the operator ask the API server who may read metrics, and the role of the readers.
    pub(super) fn metrics_roles(&self) -> Vec<Value> {
        if !self.metrics().is_some_and(|metrics| metrics.secured) {
            return Vec::new();
        }
        let asks = [
            Rule::new("authentication.k8s.io", "tokenreviews", vec!["create"]),
            Rule::new("authorization.k8s.io", "subjectaccessreviews", vec!["create"]),
        ];
        let mut roles = self.role("-metrics-auth", None, &asks).to_vec();
        // Whoever may create a token for the operator's account may read its record.
        let own = json!({ "nonResourceURLs": [RECORD, format!("{RECORD}/*")], "verbs": ["get"] });
        if let Some(rules) = roles[0]["rules"].as_array_mut() {
            rules.push(own);
        }
        roles.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": format!("{}-metrics-reader", self.name) },
            "rules": [{ "nonResourceURLs": ["/metrics", RECORD, format!("{RECORD}/*")], "verbs": ["get"] }],
        }));
        roles
    }

    /// The Service of the metrics.
    pub(super) fn metrics_service(&self) -> Option<Value> {
        let metrics = self.metrics().filter(|_| self.image.is_some())?;
        let (name, port) = if metrics.secured { ("https", SECURED_PORT) } else { (HTTP, PLAIN_PORT) };
        Some(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": self.metrics_service_name(), "namespace": self.namespace, "labels": self.labels(),
            },
            "spec": {
                "selector": self.labels(),
                "ports": [{ "name": name, "port": port, "targetPort": metrics.port }],
            },
        }))
    }

    /// Returns a PodDisruptionBudget that lets the nodes of several replicas be drained one after another.
    pub(super) fn disruption_budget(&self) -> Option<Value> {
        (self.replicas > 1).then(|| {
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": { "name": self.name, "namespace": self.namespace, "labels": self.labels() },
                "spec": { "maxUnavailable": 1, "selector": { "matchLabels": self.labels() } },
            })
        })
    }

    /// Returns a NetworkPolicy that admits connections only to the ports of metrics and webhooks. Probes come from the
    /// node itself, which is always admitted.
    pub(super) fn network_policy(&self) -> Value {
        let metrics = self.metrics().map(|metrics| metrics.port);
        let ports: Vec<_> = metrics
            .into_iter()
            .chain(self.webhook_port_name())
            .map(|port| json!({ "port": port, "protocol": "TCP" }))
            .collect();
        let ingress = if ports.is_empty() { json!([]) } else { json!([{ "ports": ports }]) };
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": { "name": self.name, "namespace": self.namespace, "labels": self.labels() },
            "spec": {
                "podSelector": { "matchLabels": self.labels() },
                "policyTypes": ["Ingress"],
                "ingress": ingress,
            },
        })
    }
}
