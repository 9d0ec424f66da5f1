//! The condition `DisruptionTarget`, which tells why a control plane component deletes a pod.

use evenkeel_runtime::{Ctx, Request, Result, ResultExt};
use kube::core::params::{DeleteParams, Patch, Preconditions};
use serde_json::{Value, json};

use crate::kinds::{POD, Pod};
use crate::object::{OfKind, time};
use crate::{clock, pod};

/// Writes the condition to a pod, then deletes the pod with its grace period. Returns whether the pod existed.
pub(crate) async fn mark_and_delete<S>(ctx: &Ctx<S>, pod: &Pod, reason: &str, message: &str) -> Result<bool> {
    if !mark(ctx, pod, None, Some((reason, message))).await? {
        return Ok(false);
    }
    delete(ctx, pod, DeleteParams::default()).await
}

/// Sets the phase of an unfinished pod to `Failed`, then deletes the pod with a grace period of zero, because no
/// kubelet is left to stop it. Returns whether the pod existed.
pub(crate) async fn fail_and_delete<S>(ctx: &Ctx<S>, pod: &Pod, why: Option<(&str, &str)>) -> Result<bool> {
    if !pod::is_finished(pod) && !mark(ctx, pod, Some("Failed"), why).await? {
        return Ok(false);
    }
    delete(ctx, pod, DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await
}

/// Writes the condition and the phase, as far as they are given. Returns whether the pod existed.
async fn mark<S>(ctx: &Ctx<S>, pod: &Pod, phase: Option<&str>, why: Option<(&str, &str)>) -> Result<bool> {
    let mut status = serde_json::Map::new();
    if let Some(phase) = phase {
        status.insert("phase".to_owned(), phase.into());
    }
    if let Some((reason, message)) = why {
        status.insert("conditions".to_owned(), json!([condition(ctx, pod, reason, message)]));
    }
    let patch = Patch::Strategic(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}));
    let written = ctx.kind(&POD).patch_subresource("status", &Request::of(pod), &patch).await;
    Ok(written.ignore_not_found()?.is_some())
}

fn condition<S>(ctx: &Ctx<S>, pod: &Pod, reason: &str, message: &str) -> Value {
    let told = pod::condition(pod, "DisruptionTarget").filter(|told| told.is("status", "True"));
    let since = told.map(|told| told.at("lastTransitionTime").clone());
    json!({
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": since.unwrap_or_else(|| time(clock::seconds(ctx.now()))),
        "observedGeneration": pod.metadata.generation,
    })
}

async fn delete<S>(ctx: &Ctx<S>, pod: &Pod, params: DeleteParams) -> Result<bool> {
    let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
    let deleted = ctx.kind(&POD).delete_with(&Request::of(pod), &params.preconditions(preconditions)).await?;
    Ok(deleted)
}
