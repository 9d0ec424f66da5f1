//! Monitoring of an operator in production: a ServiceMonitor and alert rules for the Prometheus operator, and a Grafana
//! dashboard.

use serde_json::{Value, json};

use super::Manifests;
use super::dashboard::dashboard;

/// The group of the Prometheus operator's kinds.
const GROUP: &str = "monitoring.coreos.com/v1";

/// The label by which Grafana's sidecar finds dashboards in ConfigMaps.
const DASHBOARD_LABEL: &str = "grafana_dashboard";

/// How many days before the expiry of a certificate an alert fires. Webhooks renew theirs a month before, so that an
/// alert means a missed renewal.
const CERTIFICATE_DAYS: u32 = 14;

impl Manifests {
    /// Adds a ServiceMonitor, alert rules (PrometheusRule) and, in a ConfigMap, a dashboard for Grafana. The cluster
    /// must have the CRDs of the Prometheus operator.
    ///
    /// ```
    /// use evenkeel_runtime::Manifests;
    ///
    /// let manifests = Manifests::new("sites", "operators").image("sites:1").secured_metrics_port(8443).monitoring();
    /// let kinds: Vec<_> = manifests.objects().iter().map(|object| object["kind"].clone()).collect();
    /// assert!(kinds.contains(&"ServiceMonitor".into()) && kinds.contains(&"PrometheusRule".into()));
    /// ```
    pub fn monitoring(mut self) -> Self {
        self.monitored = true;
        self
    }

    /// Returns the monitoring objects, if they are wanted and the operator serves metrics.
    pub(super) fn monitoring_objects(&self) -> Vec<Value> {
        match self.monitored && self.metrics().is_some() {
            true => vec![self.service_monitor(), self.prometheus_rule(), self.dashboard_map()],
            false => Vec::new(),
        }
    }

    fn service_monitor(&self) -> Value {
        let secured = self.metrics().is_some_and(|metrics| metrics.secured);
        let mut endpoint = json!({ "port": if secured { "https" } else { "http" }, "path": "/metrics" });
        if secured {
            endpoint["scheme"] = "https".into();
            endpoint["bearerTokenFile"] = "/var/run/secrets/kubernetes.io/serviceaccount/token".into();
            // A self-signed certificate cannot be verified. With a certificate from a mounted Secret, users can replace
            // this by `ca` and `serverName`.
            endpoint["tlsConfig"] = json!({ "insecureSkipVerify": true });
        }
        json!({
            "apiVersion": GROUP, "kind": "ServiceMonitor",
            "metadata": { "name": self.name, "namespace": self.namespace, "labels": self.labels() },
            "spec": { "endpoints": [endpoint], "selector": { "matchLabels": self.labels() } },
        })
    }

    fn prometheus_rule(&self) -> Value {
        let rules: Vec<_> = self.alerts().into_iter().map(|alert| alert.rule()).collect();
        json!({
            "apiVersion": GROUP, "kind": "PrometheusRule",
            "metadata": { "name": self.name, "namespace": self.namespace, "labels": self.labels() },
            "spec": { "groups": [{ "name": self.name, "rules": rules }] },
        })
    }

    fn dashboard_map(&self) -> Value {
        let mut labels = self.labels();
        labels[DASHBOARD_LABEL] = "1".into();
        // People read the dashboard too, so it is indented.
        let text = format!("{:#}\n", dashboard(&self.name, &self.selector()));
        let file = format!("{}.json", self.name);
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("{}-dashboard", self.name), "namespace": self.namespace, "labels": labels },
            "data": { file: text },
        })
    }

    /// The label selector of the operator's own series; a ServiceMonitor sets these labels.
    fn selector(&self) -> String {
        format!("namespace=\"{}\",job=\"{}\"", self.namespace, self.metrics_service_name())
    }

    fn alerts(&self) -> Vec<Alert> {
        let own = self.selector();
        let mut alerts = vec![
            Alert {
                name: "OperatorDown",
                after: "5m",
                severity: "critical",
                expression: format!("absent(up{{{own}}} == 1)"),
                summary: format!("No replica of {} responds", self.name),
            },
            Alert {
                name: "OperatorQueueGrows",
                after: "15m",
                severity: "warning",
                expression: format!(
                    "min_over_time(workqueue_depth{{{own}}}[15m]) > 0 and delta(workqueue_depth{{{own}}}[15m]) > 0"
                ),
                summary: "The queue of {{ $labels.controller }} grows: it has {{ $value }} keys".to_owned(),
            },
            Alert {
                name: "OperatorReconcilesFail",
                after: "15m",
                severity: "warning",
                expression: format!(
                    "sum by (controller) (rate(controller_runtime_reconcile_errors_total{{{own}}}[5m])) / \
                     sum by (controller) (rate(controller_runtime_reconcile_total{{{own}}}[5m])) > 0.1"
                ),
                summary:
                    "{{ $value | humanizePercentage }} of the reconciles of {{ $labels.controller }} fail"
                        .to_owned(),
            },
            Alert {
                name: "OperatorReconcileStuck",
                after: "10m",
                severity: "warning",
                expression: format!("workqueue_longest_running_processor_seconds{{{own}}} > 600"),
                summary:
                    "A reconcile of {{ $labels.controller }} has run for {{ $value | humanizeDuration }}"
                        .to_owned(),
            },
        ];
        if self.lease.is_some() {
            alerts.push(Alert {
                name: "OperatorLeaderMissing",
                after: "5m",
                severity: "critical",
                expression: format!(
                    "sum by (name) (leader_election_master_status{{{own}}}) < 1 or absent(leader_election_master_status{{{own}}})"
                ),
                summary: format!("No replica of {} leads, so nothing is reconciled", self.name),
            });
        }
        alerts.push(Alert {
            name: "OperatorCertificateEnds",
            after: "1h",
            severity: "warning",
            expression: format!(
                "evenkeel_certificate_expiry_timestamp_seconds{{{own}}} - time() < {CERTIFICATE_DAYS} * 86400"
            ),
            summary: "The certificate of {{ $labels.server }} expires in {{ $value | humanizeDuration }} and was not renewed"
                .to_owned(),
        });
        alerts
    }
}

/// An alert rule.
struct Alert {
    name: &'static str,
    after: &'static str,
    severity: &'static str,
    expression: String,
    summary: String,
}

impl Alert {
    fn rule(self) -> Value {
        json!({
            "alert": self.name,
            "expr": self.expression,
            "for": self.after,
            "labels": { "severity": self.severity },
            "annotations": { "summary": self.summary },
        })
    }
}
