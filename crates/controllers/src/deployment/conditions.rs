//! The conditions of a Deployment, with the reasons that `kubectl rollout status` and operators read.

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use crate::kinds::{Deployment, ReplicaSet};
use crate::object::{Fields, time};

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// Returns a condition that begins now.
pub(super) fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Tree {
    tree!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastUpdateTime": time(now), "lastTransitionTime": time(now),
    })
}

/// Sets a condition, unless it already has the same status and reason. The transition time changes only with the status.
pub(super) fn set(status: &mut Tree, mut condition: Tree) {
    let kind = condition.str("type").unwrap_or_default().to_owned();
    let current = status.condition(&kind).filter(|current| current.at("status") == condition.at("status"));
    if let Some(current) = current {
        if current.at("reason") == condition.at("reason") {
            return;
        }
        condition.set("lastTransitionTime", current.at("lastTransitionTime"));
    }
    remove(status, &kind);
    status.push("conditions", condition);
}

/// Removes a condition.
pub(super) fn remove(status: &mut Tree, kind: &str) {
    let kept = status.list("conditions").iter().filter(|condition| !condition.is("type", kind));
    let kept: Vec<_> = kept.cloned().collect();
    status.set("conditions", (!kept.is_empty()).then_some(kept));
}

/// Whether the Deployment has a progress deadline.
pub(super) fn has_deadline(deployment: &Deployment) -> bool {
    deadline_seconds(deployment).is_some()
}

pub(super) fn deadline_seconds(deployment: &Deployment) -> Option<i32> {
    deployment.i32("spec/progressDeadlineSeconds").filter(|seconds| *seconds != i32::MAX)
}

/// Records a pause or its end in the condition `Progressing`, so that the pause does not count against the deadline.
/// Returns whether the condition changed.
pub(super) fn mark_pause(deployment: &Deployment, status: &mut Tree, now: Timestamp) -> bool {
    let paused = deployment.is_true("spec/paused");
    let reason = status.condition(PROGRESSING).and_then(|current| current.str("reason"));
    let marked = reason == Some(PAUSED);
    if !has_deadline(deployment) || reason == Some(TIMED_OUT) || paused == marked {
        return false;
    }
    let (reason, message) =
        if paused { (PAUSED, "Deployment is paused") } else { (RESUMED, "Deployment is resumed") };
    set(status, condition(PROGRESSING, "Unknown", reason, message, now));
    true
}

/// Returns the condition `ReplicaFailure` of a ReplicaSet: of the new one, or else of the first that has it.
pub(super) fn replica_failure<'a>(
    new: Option<&ReplicaSet>,
    mut all: impl Iterator<Item = &'a ReplicaSet>,
) -> Option<Tree> {
    let failure = |set: &ReplicaSet| {
        let mut failure = set.at("status").condition(REPLICA_FAILURE)?.clone();
        failure.set("lastUpdateTime", failure.at("lastTransitionTime").clone());
        Some(failure)
    };
    new.and_then(failure).or_else(|| all.find_map(failure))
}
