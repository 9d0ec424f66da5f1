//! The API group `batch`.

use super::{Object, child, is_absent, is_empty, set, set_text};
use crate::json::Value;
use crate::read::Read;

pub(super) fn rules(name: &str, object: &mut Object) {
    match name {
        "Job" => job(object),
        "CronJob" => cron_job(object),
        "PodFailurePolicyOnPodConditionsPattern" => set_text(object, "status", "True"),
        _ => {}
    }
}

fn job(object: &mut Object) {
    let spec = child(object, "spec");
    if is_absent(spec, "completions") && is_absent(spec, "parallelism") {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    let limit = if is_absent(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    set(spec, "backoffLimit", limit);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    let replacement = if is_absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    set(spec, "podReplacementPolicy", replacement);
    set(spec, "manualSelector", false);
    // The template's labels are complete only after the server has chosen the selector.
    let chosen = !is_absent(spec, "selector") || spec.get("manualSelector") == Some(&Value::Bool(true));
    if !chosen {
        return;
    }
    let labels = spec.get("template").at("metadata").at("labels").cloned();
    let Some(labels) = labels.filter(Value::is_object) else { return };
    let metadata = child(object, "metadata");
    if is_empty(metadata, "labels") {
        metadata.insert("labels".into(), labels);
    }
}

fn cron_job(object: &mut Object) {
    let spec = child(object, "spec");
    set_text(spec, "concurrencyPolicy", "Allow");
    set(spec, "suspend", false);
    set(spec, "successfulJobsHistoryLimit", 3);
    set(spec, "failedJobsHistoryLimit", 1);
}
