//! What watches an operator in production: a ServiceMonitor and alert rules for the Prometheus operator, and a dashboard
//! for Grafana.

use serde_json::{Value, json};

use super::Manifests;
use super::dashboard::dashboard;

/// The group of the Prometheus operator's kinds.
const GROUP: &str = "monitoring.coreos.com/v1";

/// The label by which Grafana's sidecar finds dashboards in ConfigMaps.
const DASHBOARD_LABEL: &str = "grafana_dashboard";

/// How long before its end a certificate is worth an alert: webhooks renew theirs a month before, so that this one was
/// missed.
const CERTIFICATE_DAYS: u32 = 14;

impl Manifests {
    /// Adds a ServiceMonitor, alert rules (PrometheusRule) and a dashboard for Grafana in a ConfigMap. The cluster must have
    /// the definitions of the Prometheus operator.
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

    /// The objects that watch the operator, if they are wanted and there are metrics.
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
            // The operator makes its own certificate, unless somebody else does: then set `ca` and `serverName` here.
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
        // A dashboard is read by people, too.
        let text = format!("{:#}\n", dashboard(&self.name, &self.selector()));
        let file = format!("{}.json", self.name);
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("{}-dashboard", self.name), "namespace": self.namespace, "labels": labels },
            "data": { file: text },
        })
    }

    /// The labels of the operator's own series: those that a ServiceMonitor gives them.
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
                summary: format!("No replica of {} answers", self.name),
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
                summary: format!("No replica of {} leads, so that nothing is reconciled", self.name),
            });
        }
        alerts.push(Alert {
            name: "OperatorCertificateEnds",
            after: "1h",
            severity: "warning",
            expression: format!(
                "evenkeel_certificate_expiry_timestamp_seconds{{{own}}} - time() < {CERTIFICATE_DAYS} * 86400"
            ),
            summary: "The certificate of {{ $labels.server }} ends in {{ $value | humanizeDuration }} and was not renewed"
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
