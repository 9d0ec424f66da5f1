//! The conditions of a Deployment, with the reasons that `kubectl rollout status` and operators read.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::openapi_compat::{HasSpec as _, into_field, str_or_empty};

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// Returns a condition that begins now.
pub(super) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: into_field(kind.to_owned()),
        status: into_field(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// Returns the condition of a type.
pub(super) fn get<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|condition| str_or_empty(&condition.type_) == kind)
}

/// Sets a condition, unless it already has the same status and reason. The transition time changes only with the status.
pub(super) fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(current) =
        get(status, str_or_empty(&condition.type_)).filter(|current| current.status == condition.status)
    {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time = current.last_transition_time.clone();
    }
    remove(status, str_or_empty(&condition.type_));
    status.conditions.get_or_insert_default().push(condition);
}

/// Removes a condition.
pub(super) fn remove(status: &mut DeploymentStatus, kind: &str) {
    if let Some(conditions) = status.conditions.as_mut() {
        conditions.retain(|condition| str_or_empty(&condition.type_) != kind);
    }
    status.conditions.take_if(|conditions| conditions.is_empty());
}

/// Whether the Deployment has a progress deadline.
pub(super) fn has_deadline(deployment: &Deployment) -> bool {
    deadline_seconds(deployment).is_some()
}

pub(super) fn deadline_seconds(deployment: &Deployment) -> Option<i32> {
    deployment.spec()?.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)
}

/// Records a pause or its end in the condition `Progressing`, so that the pause does not count against the deadline.
/// Returns whether the condition changed.
pub(super) fn mark_pause(deployment: &Deployment, status: &mut DeploymentStatus, now: Timestamp) -> bool {
    let paused = deployment.spec().and_then(|spec| spec.paused) == Some(true);
    let reason = get(status, PROGRESSING).and_then(|current| current.reason.as_deref());
    let marked = reason == Some(PAUSED);
    if !has_deadline(deployment) || reason == Some(TIMED_OUT) || paused == marked {
        return false;
    }
    let (reason, message) =
        if paused { (PAUSED, "Deployment is paused") } else { (RESUMED, "Deployment is resumed") };
    set(status, condition(PROGRESSING, "Unknown", reason, message.to_owned(), now));
    true
}

/// Returns the condition `ReplicaFailure` of a ReplicaSet: of the new one, or else of the first that has it.
pub(super) fn replica_failure<'a>(
    new: Option<&ReplicaSet>,
    all: impl Iterator<Item = &'a ReplicaSet>,
) -> Option<DeploymentCondition> {
    let failure = |set: &ReplicaSet| {
        let conditions = set.status.as_ref()?.conditions.as_ref()?;
        let failure =
            conditions.iter().find(|condition| str_or_empty(&condition.type_) == REPLICA_FAILURE)?;
        Some(DeploymentCondition {
            type_: failure.type_.clone(),
            status: failure.status.clone(),
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            last_update_time: failure.last_transition_time.clone(),
            last_transition_time: failure.last_transition_time.clone(),
        })
    };
    new.and_then(failure).or_else(|| all.into_iter().find_map(failure))
}
