//! The status of a Deployment: counts, availability, progress.

use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use super::conditions::{self, AVAILABLE, NEW_AVAILABLE, PROGRESSING, REPLICA_FAILURE, TIMED_OUT, condition};
use super::rollout::{Draft, Rollout};
use crate::object::Fields;
use crate::{clock, counts};

/// Computes the status from the ReplicaSets.
pub(super) fn calculate(rollout: &Rollout, judge_progress: bool, now: Timestamp) -> Tree {
    let existing = || rollout.drafts.iter().filter(|draft| draft.after.metadata.uid.is_some());
    let sum = |path: &str| counts::sum(existing().filter_map(|draft| draft.after.i32(path)));
    let available = sum("status/availableReplicas");
    let wanted = counts::sum(rollout.drafts.iter().map(Draft::replicas));
    let updated = rollout.new_index().and_then(|index| rollout.drafts[index].after.i32("status/replicas"));
    let mut status = tree!({
        "observedGeneration": rollout.deployment.metadata.generation,
        "replicas": counts::nonzero(sum("status/replicas")),
        "updatedReplicas": counts::nonzero(updated.unwrap_or(0)),
        "readyReplicas": counts::nonzero(sum("status/readyReplicas")),
        "availableReplicas": counts::nonzero(available),
        "unavailableReplicas": counts::nonzero(wanted.saturating_sub(available).max(0)),
        "terminatingReplicas": terminating(existing()),
        "collisionCount": rollout.status.at("collisionCount"),
        "conditions": rollout.status.at("conditions"),
    });
    let minimum = rollout.replicas().saturating_sub(rollout.max_unavailable());
    let (state, reason, message) = if available >= minimum {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions::set(&mut status, condition(AVAILABLE, state, reason, message, now));
    if judge_progress {
        judge(rollout, &mut status, now);
        fail(rollout, &mut status);
    }
    status
}

fn judge(rollout: &Rollout, status: &mut Tree, now: Timestamp) {
    if !conditions::has_deadline(&rollout.deployment) {
        conditions::remove(status, PROGRESSING);
        return;
    }
    let current = rollout.status.condition(PROGRESSING);
    let done = current.is_some_and(|current| current.is("reason", NEW_AVAILABLE));
    if done && status.at("replicas") == status.at("updatedReplicas") {
        return;
    }
    let say = |state: &str, reason: &str, what: &str| {
        condition(PROGRESSING, state, reason, &format!("{} {what}", subject(rollout)), now)
    };
    if rollout.is_complete(status) {
        conditions::set(status, say("True", NEW_AVAILABLE, "has successfully progressed."));
    } else if has_progressed(rollout, status) {
        let mut progressing = say("True", "ReplicaSetUpdated", "is progressing.");
        if let Some(current) = current.filter(|current| current.is("status", "True")) {
            progressing.set("lastTransitionTime", current.at("lastTransitionTime"));
        }
        // Removed first, because progress changes the update time even if status and reason are the same.
        conditions::remove(status, PROGRESSING);
        conditions::set(status, progressing);
    } else if has_timed_out(rollout, status, now) {
        conditions::set(status, say("False", TIMED_OUT, "has timed out progressing."));
    }
}

fn subject(rollout: &Rollout) -> String {
    match rollout.new_index() {
        Some(index) => format!("ReplicaSet \"{}\"", rollout.drafts[index].after.name()),
        None => format!("Deployment \"{}\"", rollout.deployment.name()),
    }
}

fn has_progressed(rollout: &Rollout, new: &Tree) -> bool {
    let old = rollout.deployment.at("status");
    let number = |status: &Tree, count: &str| status.i32(count).unwrap_or(0);
    let outdated =
        |status: &Tree| number(status, "replicas").saturating_sub(number(status, "updatedReplicas"));
    let grown = |count: &str| number(new, count) > number(old, count);
    grown("updatedReplicas")
        || outdated(new) < outdated(old)
        || grown("readyReplicas")
        || grown("availableReplicas")
}

fn has_timed_out(rollout: &Rollout, status: &Tree, now: Timestamp) -> bool {
    let Some(current) = status.condition(PROGRESSING) else { return false };
    match current.str("reason") {
        Some(NEW_AVAILABLE) => false,
        Some(TIMED_OUT) => true,
        _ => {
            let seconds = conditions::deadline_seconds(&rollout.deployment).unwrap_or(i32::MAX);
            let updated = current.time("lastUpdateTime");
            updated.is_some_and(|updated| clock::after(updated, i64::from(seconds)) < now)
        }
    }
}

/// Returns when the progress deadline will have passed, unless there is progress until then.
pub(super) fn look_again(rollout: &Rollout, status: &Tree, now: Timestamp) -> Option<Duration> {
    let seconds = conditions::deadline_seconds(&rollout.deployment)?;
    let current = status.condition(PROGRESSING)?;
    if rollout.is_complete(status) || current.is("reason", TIMED_OUT) {
        return None;
    }
    let updated = current.time("lastUpdateTime")?;
    // One second more: times have whole seconds, and the deadline must have passed, not just be reached.
    let at = clock::after(updated, i64::from(seconds) + 1);
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO).max(Duration::from_secs(1)))
}

fn fail(rollout: &Rollout, status: &mut Tree) {
    let new = rollout.new_index().map(|index| &rollout.drafts[index].after);
    match conditions::replica_failure(new, rollout.drafts.iter().map(|draft| &draft.after)) {
        Some(failure) => conditions::set(status, failure),
        None => conditions::remove(status, REPLICA_FAILURE),
    }
}

/// Sums the terminating replicas; `None` if a ReplicaSet with a status does not report them.
fn terminating<'a>(mut drafts: impl Iterator<Item = &'a Draft>) -> Option<i32> {
    drafts.try_fold(0, |sum, draft| {
        let observed = draft.after.i64("status/observedGeneration");
        match (observed, draft.after.i32("status/terminatingReplicas")) {
            (_, Some(count)) => Some(counts::sum([sum, count])),
            (None | Some(0), None) => Some(sum),
            (Some(_), None) => None,
        }
    })
}
