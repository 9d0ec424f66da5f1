//! The status of a Deployment: counts, availability, progress.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DeploymentStatus, ReplicaSetStatus};

use super::conditions::{self, AVAILABLE, NEW_AVAILABLE, PROGRESSING, REPLICA_FAILURE, TIMED_OUT, condition};
use super::rollout::{Draft, Rollout};
use crate::openapi_compat::str_or_empty;
use crate::{clock, counts};

/// Computes the status from the ReplicaSets.
pub(super) fn calculate(rollout: &Rollout, judge_progress: bool, now: Timestamp) -> DeploymentStatus {
    let existing = || rollout.drafts.iter().filter(|draft| draft.after.metadata.uid.is_some());
    let sum = |number: &dyn Fn(&ReplicaSetStatus) -> i32| -> i32 {
        counts::sum(existing().filter_map(|draft| draft.after.status.as_ref()).map(number))
    };
    let available = sum(&|status| status.available_replicas.unwrap_or(0));
    let wanted = counts::sum(rollout.drafts.iter().map(Draft::replicas));
    let updated = rollout.new_index().and_then(|index| rollout.drafts[index].after.status.as_ref());
    let mut status = DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: counts::nonzero(sum(&|status| status.replicas)),
        updated_replicas: counts::nonzero(updated.map_or(0, |status| status.replicas)),
        ready_replicas: counts::nonzero(sum(&|status| status.ready_replicas.unwrap_or(0))),
        available_replicas: counts::nonzero(available),
        unavailable_replicas: counts::nonzero(wanted.saturating_sub(available).max(0)),
        terminating_replicas: terminating(existing()),
        collision_count: rollout.status.collision_count,
        conditions: rollout.status.conditions.clone(),
    };
    let minimum = rollout.replicas().saturating_sub(rollout.max_unavailable());
    let (state, reason, message) = if available >= minimum {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions::set(&mut status, condition(AVAILABLE, state, reason, message.to_owned(), now));
    if judge_progress {
        judge(rollout, &mut status, now);
        fail(rollout, &mut status);
    }
    status
}

fn judge(rollout: &Rollout, status: &mut DeploymentStatus, now: Timestamp) {
    if !conditions::has_deadline(&rollout.deployment) {
        conditions::remove(status, PROGRESSING);
        return;
    }
    let current = conditions::get(&rollout.status, PROGRESSING).cloned();
    let done = current.as_ref().is_some_and(|current| current.reason.as_deref() == Some(NEW_AVAILABLE));
    if done && status.replicas == status.updated_replicas {
        return;
    }
    let say = |state: &str, reason: &str, what: &str| {
        condition(PROGRESSING, state, reason, format!("{} {what}", subject(rollout)), now)
    };
    if rollout.is_complete(status) {
        conditions::set(status, say("True", NEW_AVAILABLE, "has successfully progressed."));
    } else if has_progressed(rollout, status) {
        let mut progressing = say("True", "ReplicaSetUpdated", "is progressing.");
        if let Some(current) = current.filter(|current| str_or_empty(&current.status) == "True") {
            progressing.last_transition_time = current.last_transition_time;
        }
        // Removed first, because progress changes the update time even if status and reason are the same.
        conditions::remove(status, PROGRESSING);
        conditions::set(status, progressing);
    } else if has_timed_out(rollout, status, now) {
        conditions::set(status, say("False", TIMED_OUT, "has timed out progressing."));
    }
}

fn subject(rollout: &Rollout) -> String {
    let (kind, metadata) = match rollout.new_index() {
        Some(index) => ("ReplicaSet", &rollout.drafts[index].after.metadata),
        None => ("Deployment", &rollout.deployment.metadata),
    };
    format!("{kind} \"{}\"", metadata.name.as_deref().unwrap_or_default())
}

fn has_progressed(rollout: &Rollout, new: &DeploymentStatus) -> bool {
    let old = rollout.deployment.status.clone().unwrap_or_default();
    let number = |count: Option<i32>| count.unwrap_or(0);
    let outdated =
        |status: &DeploymentStatus| number(status.replicas).saturating_sub(number(status.updated_replicas));
    number(new.updated_replicas) > number(old.updated_replicas)
        || outdated(new) < outdated(&old)
        || number(new.ready_replicas) > number(old.ready_replicas)
        || number(new.available_replicas) > number(old.available_replicas)
}

fn has_timed_out(rollout: &Rollout, status: &DeploymentStatus, now: Timestamp) -> bool {
    match conditions::get(status, PROGRESSING)
        .map(|current| (current.reason.as_deref(), &current.last_update_time))
    {
        None | Some((Some(NEW_AVAILABLE), _)) => false,
        Some((Some(TIMED_OUT), _)) => true,
        Some((_, updated)) => {
            let seconds = conditions::deadline_seconds(&rollout.deployment).unwrap_or(i32::MAX);
            updated.as_ref().is_some_and(|updated| clock::after(updated.0, i64::from(seconds)) < now)
        }
    }
}

/// Returns when the progress deadline will have passed, unless there is progress until then.
pub(super) fn look_again(rollout: &Rollout, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let seconds = conditions::deadline_seconds(&rollout.deployment)?;
    let current = conditions::get(status, PROGRESSING)?;
    if rollout.is_complete(status) || current.reason.as_deref() == Some(TIMED_OUT) {
        return None;
    }
    let updated = current.last_update_time.as_ref()?.0;
    // One second more: times have whole seconds, and the deadline must have passed, not just be reached.
    let at = clock::after(updated, i64::from(seconds) + 1);
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO).max(Duration::from_secs(1)))
}

fn fail(rollout: &Rollout, status: &mut DeploymentStatus) {
    let new = rollout.new_index().map(|index| &rollout.drafts[index].after);
    match conditions::replica_failure(new, rollout.drafts.iter().map(|draft| &draft.after)) {
        Some(failure) => conditions::set(status, failure),
        None => conditions::remove(status, REPLICA_FAILURE),
    }
}

/// Sums the terminating replicas; `None` if a ReplicaSet with a status does not report them.
fn terminating<'a>(drafts: impl Iterator<Item = &'a Draft>) -> Option<i32> {
    drafts.filter_map(|draft| draft.after.status.as_ref()).try_fold(0, |sum, status| {
        match (status.observed_generation, status.terminating_replicas) {
            (_, Some(count)) => Some(counts::sum([sum, count])),
            (None | Some(0), None) => Some(sum),
            (Some(_), None) => None,
        }
    })
}
