//! HorizontalPodAutoscalers without metrics: the controller keeps the target within its bounds and writes the conditions.
//! There is no metrics API, and the conditions say so in Kubernetes' words.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Result, ResultExt};
use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;
use kube::Api;
use kube::core::DynamicObject;
use kube::core::params::{Patch, PatchParams};
use serde_json::json;

use crate::MANAGER;
use crate::clock::{self, Reminders};
use crate::kinds::{HORIZONTAL_POD_AUTOSCALER, HorizontalPodAutoscaler};
use crate::metadata_informers::MetadataInformers;
use crate::object::{Fields, Object, OfKind, time, write_status};

/// How often a target is reconciled: Kubernetes' default.
const PERIOD: Duration = Duration::from_secs(15);

/// The state of the controller.
struct AutoscalerState {
    informers: Arc<MetadataInformers>,
    reminders: Reminders,
}

/// The controller of HorizontalPodAutoscalers.
pub(crate) fn controller(informers: Arc<MetadataInformers>) -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    Controller::new_with("horizontal-pod-autoscaler", HORIZONTAL_POD_AUTOSCALER.source(), reconcile)
        .stream("period", due)
        .field_manager(MANAGER)
        .event_source("horizontal-pod-autoscaler")
        .state(AutoscalerState { informers, reminders })
}

/// How the messages of conditions begin.
const NO_SCALE: &str = "the HPA controller was unable to get the target's current scale: ";
const NO_COUNT: &str = "the HPA was unable to compute the replica count: ";

/// The scale of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// The scale cannot be read, for this reason.
    Unknown(String),
    /// The replicas in the spec and in the status of the scale.
    Scale { wanted: i32, present: i32 },
}

async fn reconcile(autoscaler: Arc<HorizontalPodAutoscaler>, ctx: Ctx<AutoscalerState>) -> Result<Action> {
    // The period is upkeep: `settled()` does not wait for it.
    ctx.state().reminders.set(ctx.request(), Some(PERIOD));
    let target = get_scale(&ctx, &autoscaler).await?;
    let now = clock::seconds(ctx.now());
    let (mut status, rescale) = judge(&autoscaler, &target, now);
    if let Some(replicas) = rescale {
        let (api, name) = api(&ctx, &autoscaler).ok_or_else(|| {
            evenkeel_runtime::Error::message("the kind of the scale target is no longer served")
        })?;
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let written = api.patch_scale(&name, &params, &patch).await;
        let autoscalers = ctx.kind(&HORIZONTAL_POD_AUTOSCALER);
        let maximum = autoscaler.i32("spec/maxReplicas").unwrap_or(0);
        let why = match &target {
            Target::Scale { wanted, .. } if *wanted > maximum => "above Spec.MaxReplicas",
            _ => "below Spec.MinReplicas",
        };
        let note = format!("New size: {replicas}; reason: Current number of replicas {why}");
        if let Err(error) = written {
            let message = match &error {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            };
            autoscalers.warning(&autoscaler, "FailedRescale", format!("{note}; error: {message}"));
            let text = format!("the HPA controller was unable to update the target scale: {message}");
            put(&mut status, "AbleToScale", "False", "FailedUpdateScale", &text, now);
            status.set("desiredReplicas", autoscaler.i32("status/desiredReplicas").unwrap_or(0));
            status.set("lastScaleTime", autoscaler.at("status/lastScaleTime").clone());
            write_status(&ctx, &HORIZONTAL_POD_AUTOSCALER, &autoscaler, &status).await.ignore_not_found()?;
            return Err(error.into());
        }
        autoscalers.event(&autoscaler, "SuccessfulRescale", note);
    }
    tell_failures(&ctx, &autoscaler, &status);
    write_status(&ctx, &HORIZONTAL_POD_AUTOSCALER, &autoscaler, &status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

/// Records what does not work, once for each change of the conditions that say so.
fn tell_failures(ctx: &Ctx<AutoscalerState>, autoscaler: &HorizontalPodAutoscaler, status: &Tree) {
    for kind in ["AbleToScale", "ScalingActive"] {
        let Some(condition) = status.condition(kind).filter(|it| it.is("status", "False")) else { continue };
        let same = |old: &Tree| {
            ["status", "reason", "message"].iter().all(|part| old.get(part) == condition.get(part))
        };
        let reason = condition.str("reason").unwrap_or_default();
        if autoscaler.at("status").condition(kind).is_some_and(same) || reason == "ScalingDisabled" {
            continue;
        }
        let message = condition.str("message").unwrap_or_default();
        // An event tells the error alone, a condition also what failed.
        let error = [NO_SCALE, NO_COUNT].iter().find_map(|prefix| message.strip_prefix(prefix));
        let error = error.unwrap_or(message);
        let autoscalers = ctx.kind(&HORIZONTAL_POD_AUTOSCALER);
        autoscalers.warning(autoscaler, reason, error);
        if kind == "ScalingActive" && reason != "InvalidMetricSourceType" {
            let what = autoscaler.str("spec/metrics/0/resource/name");
            let what = what.map(|name| format!("failed to get {name} resource metric value: "));
            let what = what.unwrap_or_default();
            let note = format!("invalid metrics (1 invalid out of 1), first error is: {what}{error}");
            autoscalers.warning(autoscaler, "FailedComputeMetricsReplicas", note);
        }
    }
}

fn api(
    ctx: &Ctx<AutoscalerState>,
    autoscaler: &HorizontalPodAutoscaler,
) -> Option<(Api<DynamicObject>, String)> {
    let target = autoscaler.at("spec/scaleTargetRef");
    let api_version = target.str("apiVersion").unwrap_or("v1");
    let resource = ctx.state().informers.find(api_version, target.str("kind").unwrap_or_default())?;
    let api = Api::namespaced_with(ctx.client().clone(), autoscaler.in_namespace(), &resource.api);
    Some((api, target.str("name").unwrap_or_default().to_owned()))
}

async fn get_scale(ctx: &Ctx<AutoscalerState>, autoscaler: &HorizontalPodAutoscaler) -> Result<Target> {
    let Some((api, name)) = api(ctx, autoscaler) else {
        let target = autoscaler.at("spec/scaleTargetRef");
        let (kind, group) =
            (target.str("kind").unwrap_or_default(), target.str("apiVersion").unwrap_or_default());
        return Ok(Target::Unknown(format!("no matches for kind \"{kind}\" in group \"{group}\"")));
    };
    match api.get_scale(&name).await {
        Ok(scale) => Ok(Target::Scale {
            wanted: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
            present: scale.status.map_or(0, |status| status.replicas),
        }),
        Err(kube::Error::Api(status)) => Ok(Target::Unknown(status.message.clone())),
        Err(error) => Err(error.into()),
    }
}

/// Returns the status, and the new number of replicas if the target is out of bounds.
fn judge(autoscaler: &HorizontalPodAutoscaler, target: &Target, now: Timestamp) -> (Tree, Option<i32>) {
    let mut status = autoscaler.at("status").clone();
    status.set("currentMetrics", Tree::Null);
    // A status must have this field.
    status.set("desiredReplicas", status.i32("desiredReplicas").unwrap_or(0));
    let set = |status: &mut Tree, kind, state, reason, message: &str| {
        put(status, kind, state, reason, message, now);
    };
    let (wanted, present) = match target {
        Target::Unknown(why) => {
            let message = format!("{NO_SCALE}{why}");
            set(&mut status, "AbleToScale", "False", "FailedGetScale", &message);
            return (status, None);
        }
        Target::Scale { wanted, present } => (*wanted, *present),
    };
    status.set("currentReplicas", present);
    set(
        &mut status,
        "AbleToScale",
        "True",
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
    );
    let minimum = autoscaler.i32("spec/minReplicas").unwrap_or(1);
    let maximum = autoscaler.i32("spec/maxReplicas").unwrap_or(0);
    if wanted == 0 && minimum != 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        set(&mut status, "ScalingActive", "False", "ScalingDisabled", message);
        return (status, None);
    }
    if wanted > maximum || wanted < minimum {
        let size = wanted.clamp(minimum, maximum.max(minimum));
        let message = format!("the HPA controller was able to update the target scale to {size}");
        set(&mut status, "AbleToScale", "True", "SucceededRescale", &message);
        status.set("desiredReplicas", size);
        status.set("lastScaleTime", time(now));
        return (status, Some(size));
    }
    let (reason, message) = no_metrics(autoscaler.at("spec/metrics/0"));
    let message = format!("{NO_COUNT}{message}");
    set(&mut status, "ScalingActive", "False", reason, &message);
    (status, None)
}

/// Returns the reason and the message for a metric that cannot be read.
fn no_metrics(metric: &Tree) -> (&'static str, String) {
    const RESOURCE: &str = "the server could not find the requested resource";
    if metric.is_null() {
        return ("InvalidMetricSourceType", "no metrics are given".to_owned());
    }
    match (metric.str("type").unwrap_or_default(), metric.str("resource/name")) {
        ("Resource", Some(name)) => {
            let what = if metric.is("resource/target/type", "Utilization") { "utilization" } else { "usage" };
            let message = format!(
                "failed to get {name} {what}: unable to get metrics for resource {name}: unable to fetch metrics from \
                 resource metrics API: {RESOURCE} (get pods.metrics.k8s.io)"
            );
            ("FailedGetResourceMetric", message)
        }
        ("Pods", _) => {
            ("FailedGetPodsMetric", format!("unable to fetch metrics from custom metrics API: {RESOURCE}"))
        }
        ("Object", _) => {
            ("FailedGetObjectMetric", format!("unable to fetch metrics from custom metrics API: {RESOURCE}"))
        }
        _ => (
            "FailedGetExternalMetric",
            format!("unable to fetch metrics from external metrics API: {RESOURCE}"),
        ),
    }
}

/// Sets a condition. The transition time changes only with the status.
fn put(status: &mut Tree, kind: &str, state: &str, reason: &str, message: &str, now: Timestamp) {
    let mut conditions = status.list("conditions").to_vec();
    let at = conditions.iter().position(|condition| condition.is("type", kind));
    let since = at.map(|at| &conditions[at]).filter(|old| old.is("status", state));
    let since = since.map_or_else(|| time(now), |old| old.at("lastTransitionTime").clone());
    let condition = tree!({
        "type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    status.set("conditions", conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(target: Target) -> (Vec<(String, String)>, Option<i32>) {
        let autoscaler = crate::object::object(json!({"spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}));
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (status, rescale) = judge(&autoscaler, &target, now);
        let text = |condition: &Tree, field: &str| condition.str(field).unwrap().to_owned();
        let conditions = status.list("conditions").iter();
        (conditions.map(|it| (text(it, "type"), text(it, "reason"))).collect(), rescale)
    }

    #[test]
    fn conditions_say_what_is_known() {
        let pair = |kind: &str, reason: &str| (kind.to_owned(), reason.to_owned());
        assert_eq!(
            judged(Target::Unknown("gone".to_owned())),
            (vec![pair("AbleToScale", "FailedGetScale")], None)
        );
        let able = pair("AbleToScale", "SucceededGetScale");
        assert_eq!(
            judged(Target::Scale { wanted: 0, present: 0 }),
            (vec![able.clone(), pair("ScalingActive", "ScalingDisabled")], None)
        );
        assert_eq!(
            judged(Target::Scale { wanted: 1, present: 1 }),
            (vec![able, pair("ScalingActive", "FailedGetResourceMetric")], None)
        );
        assert_eq!(
            judged(Target::Scale { wanted: 9, present: 9 }),
            (vec![pair("AbleToScale", "SucceededRescale")], Some(3))
        );
    }
}
