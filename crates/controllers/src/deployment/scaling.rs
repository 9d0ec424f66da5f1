//! Scaling during a rollout: the change is distributed over the ReplicaSets in proportion to their sizes, so that scaling
//! does not speed the rollout up.

use std::cmp::Reverse;

use super::revision;
use super::rollout::Rollout;
use crate::counts;

/// Scales the ReplicaSets to the present `replicas` of the Deployment.
pub(super) fn scale(rollout: &mut Rollout) {
    let active = rollout.active_newest_first();
    if active.len() <= 1 {
        let newest = rollout.new_index().or_else(|| rollout.drafts.len().checked_sub(1));
        if let Some(index) = active.first().copied().or(newest) {
            rollout.resize(index, rollout.replicas());
        }
    } else if is_saturated(rollout) {
        for index in rollout.active_old() {
            rollout.resize(index, 0);
        }
    } else if rollout.is_rolling() {
        proportionally(rollout, active);
    }
}

/// Whether the new ReplicaSet has all wanted replicas, and all are available.
fn is_saturated(rollout: &Rollout) -> bool {
    rollout.new_index().map(|index| &rollout.drafts[index]).is_some_and(|new| {
        new.replicas() == rollout.replicas()
            && revision::desired(&new.after) == Some(rollout.replicas())
            && new.available() == rollout.replicas()
    })
}

fn proportionally(rollout: &mut Rollout, mut active: Vec<usize>) {
    let total = counts::sum(active.iter().map(|index| rollout.drafts[*index].replicas()));
    let allowed =
        if rollout.replicas() > 0 { rollout.replicas().saturating_add(rollout.max_surge()) } else { 0 };
    let change = allowed.saturating_sub(total);
    // The largest first. Among equals, the newer ones grow first and the older ones shrink first.
    if change < 0 {
        active.reverse();
    }
    active.sort_by_key(|index| Reverse(rollout.drafts[*index].replicas()));
    let mut sizes = Vec::with_capacity(active.len());
    let mut given = 0;
    for index in &active {
        let share = share(rollout, *index, change, given);
        sizes.push(rollout.drafts[*index].replicas().saturating_add(share));
        given = counts::sum([given, share]);
    }
    // The remainder of the rounding goes to the largest.
    if let Some(largest) = sizes.first_mut() {
        *largest = largest.saturating_add(change.saturating_sub(given)).max(0);
    }
    for (index, size) in active.into_iter().zip(sizes) {
        rollout.resize(index, size);
        rollout.note_size(index);
    }
}

/// Returns the part of `change` for one ReplicaSet, after others have got `given` of it.
fn share(rollout: &Rollout, index: usize, change: i32, given: i32) -> i32 {
    let left = change.saturating_sub(given);
    if left == 0 {
        return 0;
    }
    let fraction = fraction(rollout, index);
    if change > 0 { fraction.min(left) } else { fraction.max(left) }
}

fn fraction(rollout: &Rollout, index: usize) -> i32 {
    let size = rollout.drafts[index].replicas();
    if rollout.replicas() == 0 {
        return size.saturating_neg();
    }
    let before = revision::max(&rollout.drafts[index].after).filter(|max| *max > 0);
    let before = before.or(rollout.status.i32("replicas")).filter(|before| *before > 0);
    let Some(before) = before else { return 0 };
    let after = rollout.replicas().saturating_add(rollout.max_surge());
    let scaled = f64::from(size) * f64::from(after) / f64::from(before);
    // Halves round away from zero. An f64 represents every i32 exactly, and the cast saturates.
    (scaled.round() as i32).saturating_sub(size)
}
