//! A Grafana dashboard for the metrics that every operator exports.

use serde_json::{Value, json};

/// The version of Grafana's dashboard schema.
const SCHEMA_VERSION: u32 = 39;

/// The width of a panel: two panels fit side by side on Grafana's grid of 24 columns.
const WIDTH: usize = 12;
const HEIGHT: usize = 8;

/// A panel: its title, its unit, and a line for each expression with its legend.
type Panel = (&'static str, &'static str, Vec<(String, &'static str)>);

/// Returns the dashboard of an operator. `own` is the label selector of its series.
pub(super) fn dashboard(name: &str, own: &str) -> Value {
    let panels: Vec<_> = panels(own).into_iter().enumerate().map(|(at, shown)| panel(at, shown)).collect();
    json!({
        "title": format!("Operator {name}"),
        "uid": uid(name),
        "tags": ["operator", "evenkeel"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [{
            "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
        }] },
        "panels": panels,
    })
}

/// Returns a stable id for the dashboard, within Grafana's limit of 40 characters.
fn uid(name: &str) -> String {
    format!("operator-{name}").chars().take(40).collect()
}

fn panel(at: usize, (title, unit, lines): Panel) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let targets: Vec<_> = lines
        .into_iter()
        .zip('A'..)
        .map(|((expression, legend), id)| {
            json!({ "refId": id, "expr": expression, "legendFormat": legend, "datasource": source })
        })
        .collect();
    json!({
        "id": at + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "fieldConfig": { "defaults": { "unit": unit, "min": 0 }, "overrides": [] },
        "gridPos": { "x": at % 2 * WIDTH, "y": at / 2 * HEIGHT, "w": WIDTH, "h": HEIGHT },
        "targets": targets,
    })
}

/// Writes PromQL expressions over the operator's own series.
struct Series<'a> {
    /// The label selector of the series.
    own: &'a str,
}

impl Series<'_> {
    fn rate(&self, metric: &str, by: &str) -> String {
        format!("sum by ({by}) (rate({metric}{{{}}}[5m]))", self.own)
    }

    fn gauge(&self, metric: &str, by: &str) -> String {
        format!("sum by ({by}) ({metric}{{{}}})", self.own)
    }

    /// Returns the 99th percentile and the median of a histogram.
    fn quantiles(&self, metric: &str, by: &str) -> [String; 2] {
        ["0.99", "0.5"].map(|q| {
            format!("histogram_quantile({q}, sum by (le, {by}) (rate({metric}_bucket{{{}}}[5m])))", self.own)
        })
    }
}

fn panels(own: &str) -> Vec<Panel> {
    let series = Series { own };
    let mut panels = reconcile_panels(&series);
    panels.extend(request_panels(&series));
    panels
}

/// Returns the panels about reconciles and the queue.
fn reconcile_panels(series: &Series<'_>) -> Vec<Panel> {
    let (rate, gauge) = (|m: &str, by: &str| series.rate(m, by), |m: &str, by: &str| series.gauge(m, by));
    let [slow, usual] = series.quantiles("controller_runtime_reconcile_time_seconds", "controller");
    let [slow_event, usual_event] = series.quantiles("evenkeel_event_to_reconcile_seconds", "controller");
    vec![
        (
            "Reconciles",
            "ops",
            vec![(
                rate("controller_runtime_reconcile_total", "controller, result"),
                "{{controller}} {{result}}",
            )],
        ),
        (
            "Reconciles that failed",
            "ops",
            vec![
                (rate("controller_runtime_reconcile_errors_total", "controller"), "{{controller}} failed"),
                (
                    rate("controller_runtime_terminal_reconcile_errors_total", "controller"),
                    "{{controller}} given up",
                ),
                (rate("controller_runtime_reconcile_panics_total", "controller"), "{{controller}} panicked"),
                (
                    rate("controller_runtime_reconcile_timeouts_total", "controller"),
                    "{{controller}} timed out",
                ),
            ],
        ),
        ("Keys in the queue", "short", vec![(gauge("workqueue_depth", "controller"), "{{controller}}")]),
        (
            "Workers with work",
            "short",
            vec![
                (gauge("controller_runtime_active_workers", "controller"), "{{controller}} active"),
                (gauge("controller_runtime_max_concurrent_reconciles", "controller"), "{{controller}} of"),
            ],
        ),
        ("Time of a reconcile", "s", vec![(slow, "{{controller}} p99"), (usual, "{{controller}} p50")]),
        (
            "From a change to its reconcile",
            "s",
            vec![(slow_event, "{{controller}} p99"), (usual_event, "{{controller}} p50")],
        ),
    ]
}

/// Returns the panels about the API server, caches, leadership and webhooks.
fn request_panels(series: &Series<'_>) -> Vec<Panel> {
    let (rate, gauge) = (|m: &str, by: &str| series.rate(m, by), |m: &str, by: &str| series.gauge(m, by));
    let [slow, usual] = series.quantiles("rest_client_request_duration_seconds", "verb");
    vec![
        (
            "Requests to the API server",
            "reqps",
            vec![(rate("rest_client_requests_total", "code, method"), "{{method}} {{code}}")],
        ),
        ("Time of a request to the API server", "s", vec![(slow, "{{verb}} p99"), (usual, "{{verb}} p50")]),
        ("Objects in caches", "short", vec![(gauge("evenkeel_cache_objects", "source"), "{{source}}")]),
        ("Size of caches", "bytes", vec![(gauge("evenkeel_cache_bytes", "source"), "{{source}}")]),
        (
            "Watches that were opened again",
            "ops",
            vec![(rate("evenkeel_watch_restarts_total", "source"), "{{source}}")],
        ),
        (
            "Reconciles that met an old cache",
            "ops",
            vec![
                (rate("evenkeel_stale_read_waits_total", "controller"), "{{controller}} waited"),
                (rate("evenkeel_stale_reads_total", "controller"), "{{controller}} read from the server"),
            ],
        ),
        ("Leader", "short", vec![(format!("leader_election_master_status{{{}}}", series.own), "{{pod}}")]),
        (
            "Requests to webhooks",
            "reqps",
            vec![(
                rate("controller_runtime_webhook_requests_total", "webhook, code"),
                "{{webhook}} {{code}}",
            )],
        ),
    ]
}
