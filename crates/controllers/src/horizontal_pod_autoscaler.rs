//! HorizontalPodAutoscalers without metrics: the controller keeps the target within its bounds and writes the conditions.
//! There is no metrics API, and the conditions say so in Kubernetes' words.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Result, ResultExt};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus, MetricSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::DynamicObject;
use kube::core::params::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::MANAGER;
use crate::clock::{self, Reminders};
use crate::metadata_informers::MetadataInformers;
use crate::openapi_compat::HasSpec as _;

/// How often a target is reconciled: Kubernetes' default.
const PERIOD: Duration = Duration::from_secs(15);

/// The state of the controller.
struct AutoscalerState {
    informers: Arc<MetadataInformers>,
    reminders: Reminders,
}

/// The controller of HorizontalPodAutoscalers.
pub(crate) fn controller(informers: Arc<MetadataInformers>) -> Controller<HorizontalPodAutoscaler> {
    let (reminders, due) = Reminders::channel();
    Controller::new("horizontal-pod-autoscaler", reconcile)
        .stream("period", due)
        .field_manager(MANAGER)
        .state(AutoscalerState { informers, reminders })
}

/// The scale of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// The scale cannot be read, for this reason.
    Unknown(String),
    /// The replicas in the spec and in the status of the scale.
    Scale { wanted: i32, present: i32 },
}

async fn reconcile(autoscaler: Arc<HorizontalPodAutoscaler>, ctx: Ctx<AutoscalerState>) -> Result<Action> {
    let Some(spec) = autoscaler.spec() else { return Ok(Action::await_change()) };
    // The period is upkeep: `settled()` does not wait for it.
    ctx.state().reminders.set(ctx.request(), Some(PERIOD));
    let target = get_scale(&ctx, &autoscaler, spec).await?;
    let (status, rescale) = judge(&autoscaler, spec, &target, clock::seconds(ctx.now()));
    if let Some(replicas) = rescale {
        let (api, name) = api(&ctx, &autoscaler, spec).ok_or_else(|| {
            evenkeel_runtime::Error::message("the kind of the scale target is no longer served")
        })?;
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        api.patch_scale(
            &name,
            &PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() },
            &patch,
        )
        .await?;
        ctx.event(&autoscaler, "SuccessfulRescale", format!("New size: {replicas}"));
    }
    ctx.status(&autoscaler, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

fn api(
    ctx: &Ctx<AutoscalerState>,
    autoscaler: &HorizontalPodAutoscaler,
    spec: &HorizontalPodAutoscalerSpec,
) -> Option<(Api<DynamicObject>, String)> {
    let target = &spec.scale_target_ref;
    let resource = ctx.state().informers.find(target.api_version.as_deref().unwrap_or("v1"), &target.kind)?;
    let namespace = autoscaler.namespace().unwrap_or_default();
    Some((Api::namespaced_with(ctx.client().clone(), &namespace, &resource.api), target.name.clone()))
}

async fn get_scale(
    ctx: &Ctx<AutoscalerState>,
    autoscaler: &HorizontalPodAutoscaler,
    spec: &HorizontalPodAutoscalerSpec,
) -> Result<Target> {
    let target = &spec.scale_target_ref;
    let Some((api, name)) = api(ctx, autoscaler, spec) else {
        let group = target.api_version.clone().unwrap_or_default();
        return Ok(Target::Unknown(format!("no matches for kind \"{}\" in group \"{group}\"", target.kind)));
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
fn judge(
    autoscaler: &HorizontalPodAutoscaler,
    spec: &HorizontalPodAutoscalerSpec,
    target: &Target,
    now: Timestamp,
) -> (HorizontalPodAutoscalerStatus, Option<i32>) {
    let mut status = autoscaler.status.clone().unwrap_or_default();
    status.current_metrics = None;
    let set = |status: &mut HorizontalPodAutoscalerStatus, kind, state, reason, message: &str| {
        put(status, kind, state, reason, message, now);
    };
    let (wanted, present) = match target {
        Target::Unknown(why) => {
            let message = format!("the HPA controller was unable to get the target's current scale: {why}");
            set(&mut status, "AbleToScale", "False", "FailedGetScale", &message);
            return (status, None);
        }
        Target::Scale { wanted, present } => (*wanted, *present),
    };
    status.current_replicas = Some(present);
    set(
        &mut status,
        "AbleToScale",
        "True",
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
    );
    let minimum = spec.min_replicas.unwrap_or(1);
    if wanted == 0 && minimum != 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        set(&mut status, "ScalingActive", "False", "ScalingDisabled", message);
        return (status, None);
    }
    if wanted > spec.max_replicas || wanted < minimum {
        let size = wanted.clamp(minimum, spec.max_replicas.max(minimum));
        let message = format!("the HPA controller was able to update the target scale to {size}");
        set(&mut status, "AbleToScale", "True", "SucceededRescale", &message);
        status.desired_replicas = size;
        status.last_scale_time = Some(Time(now));
        return (status, Some(size));
    }
    let (reason, message) = no_metrics(spec.metrics.iter().flatten().next());
    let message = format!("the HPA was unable to compute the replica count: {message}");
    set(&mut status, "ScalingActive", "False", reason, &message);
    (status, None)
}

/// Returns the reason and the message for a metric that cannot be read.
fn no_metrics(metric: Option<&MetricSpec>) -> (&'static str, String) {
    const RESOURCE: &str = "the server could not find the requested resource";
    let Some(metric) = metric else { return ("InvalidMetricSourceType", "no metrics are given".to_owned()) };
    let resource = metric.resource.as_ref().map(|resource| (&resource.name, resource.target.type_.as_str()));
    match (metric.type_.as_str(), resource) {
        ("Resource", Some((name, target))) => {
            let what = if target == "Utilization" { "utilization" } else { "usage" };
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
#[allow(clippy::needless_update, reason = "conditions have one more field from Kubernetes 1.37 on")]
fn put(
    status: &mut HorizontalPodAutoscalerStatus,
    kind: &str,
    state: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let conditions = status.conditions.get_or_insert_default();
    let at = conditions.iter().position(|condition| condition.type_ == kind);
    let since = at.map(|at| &conditions[at]).filter(|old| old.status == state);
    let since = since.and_then(|old| old.last_transition_time.clone()).unwrap_or(Time(now));
    let condition = HorizontalPodAutoscalerCondition {
        type_: kind.to_owned(),
        status: state.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(since),
        ..HorizontalPodAutoscalerCondition::default()
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(target: Target) -> (Vec<(String, String)>, Option<i32>) {
        let autoscaler: HorizontalPodAutoscaler = serde_json::from_value(json!({"spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}))
        .unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (status, rescale) = judge(&autoscaler, autoscaler.spec().unwrap(), &target, now);
        let conditions = status.conditions.unwrap().into_iter();
        (conditions.map(|condition| (condition.type_, condition.reason.unwrap())).collect(), rescale)
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
