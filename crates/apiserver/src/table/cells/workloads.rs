//! Rows of the kinds that create or manage pods: workloads, Jobs, autoscalers and disruption budgets.

use evenkeel_schema::json::Value;

use super::view::{NONE, UNSET, View};
use crate::table::age;

const TEMPLATE_CONTAINERS: &str = "/spec/template/spec/containers";
const CONDITIONS: &str = "/status/conditions";

pub(super) fn deployment(object: View<'_>) -> Vec<Value> {
    let ready = format!("{}/{}", object.int("/status/readyReplicas"), object.int("/spec/replicas"));
    let (names, images) = object.containers(TEMPLATE_CONTAINERS);
    vec![
        object.name().into(),
        ready.into(),
        object.int("/status/updatedReplicas").into(),
        object.int("/status/availableReplicas").into(),
        object.age().into(),
        names.into(),
        images.into(),
        object.selector_query("/spec/selector").into(),
    ]
}

pub(super) fn replica_set(object: View<'_>) -> Vec<Value> {
    replicas(object, object.selector("/spec/selector"))
}

pub(super) fn replication_controller(object: View<'_>) -> Vec<Value> {
    replicas(object, object.labels("/spec/selector"))
}

fn replicas(object: View<'_>, selector: String) -> Vec<Value> {
    let (names, images) = object.containers(TEMPLATE_CONTAINERS);
    vec![
        object.name().into(),
        object.int("/spec/replicas").into(),
        object.int("/status/replicas").into(),
        object.int("/status/readyReplicas").into(),
        object.age().into(),
        names.into(),
        images.into(),
        selector.into(),
    ]
}

pub(super) fn stateful_set(object: View<'_>) -> Vec<Value> {
    let ready = format!("{}/{}", object.int("/status/readyReplicas"), object.int("/spec/replicas"));
    let (names, images) = object.containers(TEMPLATE_CONTAINERS);
    vec![object.name().into(), ready.into(), object.age().into(), names.into(), images.into()]
}

pub(super) fn daemon_set(object: View<'_>) -> Vec<Value> {
    let (names, images) = object.containers(TEMPLATE_CONTAINERS);
    vec![
        object.name().into(),
        object.int("/status/desiredNumberScheduled").into(),
        object.int("/status/currentNumberScheduled").into(),
        object.int("/status/numberReady").into(),
        object.int("/status/updatedNumberScheduled").into(),
        object.int("/status/numberAvailable").into(),
        object.labels("/spec/template/spec/nodeSelector").into(),
        object.age().into(),
        names.into(),
        images.into(),
        object.selector("/spec/selector").into(),
    ]
}

pub(super) fn controller_revision(object: View<'_>) -> Vec<Value> {
    let owner = object.list("/metadata/ownerReferences").find(|owner| owner.flag("/controller"));
    let controller = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group = owner.text("/apiVersion").rsplit_once('/').map(|(group, _)| group);
            let kind = owner.text("/kind");
            let kind = group.map_or_else(|| kind.to_owned(), |group| format!("{kind}.{group}"));
            format!("{}/{}", kind.to_lowercase(), owner.text("/name"))
        },
    );
    vec![object.name().into(), controller.into(), object.int("/revision").into(), object.age().into()]
}

pub(super) fn job(object: View<'_>) -> Vec<Value> {
    let (names, images) = object.containers(TEMPLATE_CONTAINERS);
    vec![
        object.name().into(),
        job_status(object).into(),
        job_completions(object).into(),
        job_duration(object).into(),
        object.age().into(),
        names.into(),
        images.into(),
        object.selector("/spec/selector").into(),
    ]
}

fn job_status(job: View<'_>) -> &'static str {
    let is = |kind| job.condition_is_true(CONDITIONS, kind);
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if job.deleting() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn job_completions(job: View<'_>) -> String {
    let succeeded = job.int("/status/succeeded");
    match (job.maybe_int("/spec/completions"), job.int("/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: View<'_>) -> String {
    job.time("/status/startTime").map_or_else(String::new, |start| {
        let end = job.time("/status/completionTime").unwrap_or(job.now);
        age::human(age::between(start, end))
    })
}

pub(super) fn cron_job(object: View<'_>) -> Vec<Value> {
    let suspend = match object.maybe_flag("/spec/suspend") {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let last = match object.has("/status/lastScheduleTime") {
        true => object.since("/status/lastScheduleTime"),
        false => NONE.to_owned(),
    };
    let (names, images) = object.containers("/spec/jobTemplate/spec/template/spec/containers");
    vec![
        object.name().into(),
        object.text("/spec/schedule").into(),
        object.maybe_text("/spec/timeZone").unwrap_or(NONE).into(),
        suspend.into(),
        object.len("/status/active").into(),
        last.into(),
        object.age().into(),
        names.into(),
        images.into(),
        object.selector("/spec/jobTemplate/spec/selector").into(),
    ]
}

pub(super) fn pod_disruption_budget(object: View<'_>) -> Vec<Value> {
    let bound = |pointer| match object.has(pointer) {
        true => object.quantity(pointer),
        false => "N/A".to_owned(),
    };
    vec![
        object.name().into(),
        bound("/spec/minAvailable").into(),
        bound("/spec/maxUnavailable").into(),
        object.int("/status/disruptionsAllowed").into(),
        object.age().into(),
    ]
}

pub(super) fn horizontal_pod_autoscaler(object: View<'_>) -> Vec<Value> {
    let target = object.get("/spec/scaleTargetRef");
    let part = |pointer| target.map_or("", |target| target.text(pointer));
    let min = object.maybe_int("/spec/minReplicas").map_or_else(|| UNSET.to_owned(), |min| min.to_string());
    vec![
        object.name().into(),
        format!("{}/{}", part("/kind"), part("/name")).into(),
        hpa_metrics(object).into(),
        min.into(),
        object.int("/spec/maxReplicas").into(),
        object.int("/status/currentReplicas").into(),
        object.age().into(),
    ]
}

/// The number of an autoscaler's metrics that a cell spells out.
const METRICS_SHOWN: usize = 2;

fn hpa_metrics(hpa: View<'_>) -> String {
    if let Some(target) = hpa.maybe_int("/spec/targetCPUUtilizationPercentage") {
        // In autoscaling/v1 the only metric is in fields of its own.
        let current = hpa.maybe_int("/status/currentCPUUtilizationPercentage");
        return format!("cpu: {}/{target}%", percent(current, "<unknown>"));
    }
    let metrics: Vec<_> = hpa
        .list("/spec/metrics")
        .enumerate()
        .map(|(index, metric)| hpa_metric(metric, hpa.list("/status/currentMetrics").nth(index)))
        .collect();
    let shown = metrics[..metrics.len().min(METRICS_SHOWN)].join(", ");
    match metrics.len() {
        0 => NONE.to_owned(),
        count if count > METRICS_SHOWN => format!("{shown} + {} more...", count - METRICS_SHOWN),
        _ => shown,
    }
}

fn hpa_metric(metric: View<'_>, status: Option<View<'_>>) -> String {
    let source = match metric.text("/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |field: &str| format!("/{source}/target/{field}");
    let status = status.and_then(|status| status.get(&format!("/{source}")));
    let current = |field: &str| {
        let pointer = format!("/current/{field}");
        status.map_or_else(|| "<unknown>".to_owned(), |status| status.quantity(&pointer))
    };
    let is_average = metric.has(&target("averageValue"));
    match source {
        "pods" => format!("{}/{}", current("averageValue"), metric.quantity(&target("averageValue"))),
        "external" | "object" if is_average => {
            let known = status.filter(|status| status.has("/current/averageValue"));
            let now = known.map_or_else(|| "<unknown>".to_owned(), |s| s.quantity("/current/averageValue"));
            format!("{now}/{} (avg)", metric.quantity(&target("averageValue")))
        }
        "external" | "object" => format!("{}/{}", current("value"), metric.quantity(&target("value"))),
        _ => {
            let name = metric.text(&format!("/{source}/name"));
            if is_average {
                return format!(
                    "{name}: {}/{}",
                    current("averageValue"),
                    metric.quantity(&target("averageValue"))
                );
            }
            let now = status.and_then(|status| status.maybe_int("/current/averageUtilization"));
            let goal = metric.maybe_int(&target("averageUtilization"));
            format!("{name}: {}/{}", percent(now, "<unknown>"), percent(goal, "<auto>"))
        }
    }
}

fn percent(value: Option<i64>, otherwise: &str) -> String {
    value.map_or_else(|| otherwise.to_owned(), |value| format!("{value}%"))
}
