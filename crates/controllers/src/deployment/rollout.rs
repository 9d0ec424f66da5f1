//! The rollout: from a Deployment and its ReplicaSets to the next step, as a function of what is seen.
//!
//! The step is worked out on drafts of the ReplicaSets; what differs from the originals in the end is what is written.
//! *Invariant:* at no step may the pods that exist exceed `replicas + maxSurge`, nor those that are available fall below
//! `replicas - maxUnavailable` by our doing. A ReplicaSet's status may lag behind its spec, so that room for a surge
//! is counted by the larger, and what may be taken away by the smaller of the two.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet};

use super::conditions::{self, PROGRESSING};
use super::{revision, scaling, status};
use crate::count;
use crate::int_or_percent::{self, Round};
use crate::optional::{HasSpec as _, spec_mut};

/// What is seen of one Deployment.
pub(crate) struct Observed {
    /// The Deployment itself.
    pub(crate) deployment: Arc<Deployment>,
    /// The ReplicaSets that it controls.
    pub(crate) sets: Vec<Arc<ReplicaSet>>,
}

/// What is to be written.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The ReplicaSet of a new revision.
    pub(crate) create: Option<ReplicaSet>,
    /// ReplicaSets whose size, annotations or `minReadySeconds` change: as they are, as they become.
    pub(crate) update: Vec<(Arc<ReplicaSet>, ReplicaSet)>,
    /// Old ReplicaSets beyond the history limit.
    pub(crate) delete: Vec<Arc<ReplicaSet>>,
    /// The revision that the Deployment's annotation must show.
    pub(crate) revision: Option<String>,
    /// The status.
    pub(crate) status: DeploymentStatus,
    /// When the progress deadline must be looked at again.
    pub(crate) look_again: Option<Duration>,
}

/// The next step for this Deployment.
pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let mut rollout = Rollout::new(observed, now);
    rollout.advance();
    rollout.finish()
}

/// A ReplicaSet as it is and as it will be.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// `None` for one that is yet to be made.
    before: Option<Arc<ReplicaSet>>,
    pub(super) after: ReplicaSet,
    new: bool,
    delete: bool,
}

/// A rollout that is being worked out.
pub(super) struct Rollout {
    pub(super) deployment: Arc<Deployment>,
    pub(super) spec: DeploymentSpec,
    /// The status so far: conditions that are marked on the way are in it, the counts are the old ones.
    pub(super) status: DeploymentStatus,
    /// Oldest first.
    pub(super) drafts: Vec<Draft>,
    now: Timestamp,
    revision: Option<String>,
    /// Whether progress is judged: not for a Deployment that is paused, being scaled or deleted.
    judge_progress: bool,
}

impl Draft {
    pub(super) fn replicas(&self) -> i32 {
        self.after.spec().and_then(|spec| spec.replicas).unwrap_or(0)
    }

    /// Pods that exist by its own account.
    fn counted(&self) -> i32 {
        self.after.status.as_ref().map_or(0, |status| status.replicas)
    }

    /// Pods of its present size that are not available.
    fn unavailable(&self) -> i32 {
        self.replicas().saturating_sub(self.available())
    }

    /// Available pods that will stay available at its present size.
    pub(super) fn available(&self) -> i32 {
        let available = self.after.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
        available.min(self.replicas())
    }

    /// Whether pods of it may still run; one that has not seen its present size may have any.
    fn has_pods(&self) -> bool {
        let status = self.after.status.as_ref();
        let terminating = status.and_then(|status| status.terminating_replicas).unwrap_or(0);
        let observed = status.and_then(|status| status.observed_generation);
        self.counted() > 0 || terminating > 0 || observed < self.after.metadata.generation
    }

    pub(super) fn created(&self) -> (Option<Timestamp>, &str) {
        let metadata = &self.after.metadata;
        (
            metadata.creation_timestamp.as_ref().map(|time| time.0),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

impl Rollout {
    fn new(observed: &Observed, now: Timestamp) -> Self {
        let deployment = observed.deployment.clone();
        let mut drafts: Vec<_> = observed.sets.iter().map(Draft::existing).collect();
        drafts.sort_by(|a, b| a.created().cmp(&b.created()));
        // Where two have the template, the older one is meant.
        if let Some(new) = drafts.iter_mut().find(|draft| revision::is_new(&deployment, &draft.after)) {
            new.new = true;
        }
        Self {
            spec: deployment.spec().cloned().unwrap_or_default(),
            status: deployment.status.clone().unwrap_or_default(),
            deployment,
            drafts,
            now,
            revision: None,
            judge_progress: false,
        }
    }

    fn advance(&mut self) {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return;
        }
        conditions::mark_pause(&self.deployment, &mut self.status, self.now);
        self.sync_new();
        if self.spec.paused == Some(true) {
            scaling::scale(self);
            self.clean_up();
        } else if self.is_being_scaled() {
            scaling::scale(self);
        } else if self.is_rolling() {
            self.judge_progress = true;
            self.roll();
        } else {
            self.judge_progress = true;
            self.recreate();
        }
    }

    /// Whether the user changed `replicas` since we last wrote to an active ReplicaSet.
    fn is_being_scaled(&self) -> bool {
        let mut active = self.drafts.iter().filter(|draft| draft.replicas() > 0);
        active.any(|draft| revision::desired(&draft.after).is_some_and(|desired| desired != self.replicas()))
    }

    fn roll(&mut self) {
        let new = self.ensure_new();
        let size = self.drafts[new].replicas();
        let wanted =
            if size > self.replicas() { self.replicas() } else { size.saturating_add(self.room(new)) };
        if self.resize(new, wanted) || self.scale_down_old(new) {
            return;
        }
        self.clean_up_when_complete();
    }

    /// How much the new ReplicaSet may grow within the surge.
    fn room(&self, new: usize) -> i32 {
        let exist = count::sum(self.drafts.iter().map(|draft| draft.replicas().max(draft.counted())));
        let room = self.replicas().saturating_add(self.max_surge()).saturating_sub(exist);
        room.min(self.replicas().saturating_sub(self.drafts[new].replicas())).max(0)
    }

    /// Makes old ReplicaSets smaller, by as much as availability allows. Says whether it did.
    fn scale_down_old(&mut self, new: usize) -> bool {
        let all = count::sum(self.drafts.iter().map(Draft::replicas));
        let min_available = self.replicas().saturating_sub(self.max_unavailable());
        let new_unavailable = self.drafts[new].unavailable();
        let mut budget = all.saturating_sub(min_available).saturating_sub(new_unavailable);
        let before = budget;
        // The pods that are not available go first: they hold nothing up, and a broken revision must not block.
        for index in self.active_old() {
            let unhealthy = self.drafts[index].unavailable();
            budget = budget.saturating_sub(self.shrink(index, unhealthy.min(budget)));
        }
        let available = count::sum(self.drafts.iter().map(Draft::available));
        let mut spare = available.saturating_sub(min_available).min(budget);
        for index in self.active_old() {
            let taken = self.shrink(index, spare);
            spare = spare.saturating_sub(taken);
            budget = budget.saturating_sub(taken);
        }
        budget < before
    }

    /// Nothing new is made before the last old pod is gone, terminating ones included.
    fn recreate(&mut self) {
        let old = self.active_old();
        for index in &old {
            self.resize(*index, 0);
        }
        if !old.is_empty() || self.old().any(Draft::has_pods) {
            return;
        }
        let new = self.ensure_new();
        self.resize(new, self.replicas());
        self.clean_up_when_complete();
    }

    /// Keeps the present new ReplicaSet's annotations, and the Deployment's revision by it.
    fn sync_new(&mut self) {
        let next = 1 + self.old().map(|draft| revision::number(&draft.after)).max().unwrap_or(0);
        let Some(index) = self.new_index() else { return };
        let (deployment, now) = (self.deployment.clone(), self.now);
        let set = &mut self.drafts[index].after;
        revision::note_revision(set, &deployment, next);
        if let Some(spec) = spec_mut(set) {
            spec.min_ready_seconds = self.spec.min_ready_seconds;
        }
        self.revision = Some(revision::number(set).to_string());
        if conditions::has_deadline(&deployment) && conditions::get(&self.status, PROGRESSING).is_none() {
            let message =
                format!("Found new replica set \"{}\"", set.metadata.name.as_deref().unwrap_or_default());
            conditions::set(
                &mut self.status,
                conditions::condition(PROGRESSING, "True", "FoundNewReplicaSet", message, now),
            );
        }
    }

    /// The index of the new ReplicaSet, which is drafted where it does not exist.
    fn ensure_new(&mut self) -> usize {
        if let Some(index) = self.new_index() {
            return index;
        }
        let next = 1 + self.old().map(|draft| revision::number(&draft.after)).max().unwrap_or(0);
        let mut set = revision::create(&self.deployment);
        revision::note_revision(&mut set, &self.deployment, next);
        revision::note_size(&mut set, self.replicas(), self.max_surge());
        self.revision = Some(next.to_string());
        if conditions::has_deadline(&self.deployment) {
            let message =
                format!("Created new replica set \"{}\"", set.metadata.name.as_deref().unwrap_or_default());
            conditions::set(
                &mut self.status,
                conditions::condition(PROGRESSING, "True", "NewReplicaSetCreated", message, self.now),
            );
        }
        self.drafts.push(Draft { before: None, after: set, new: true, delete: false });
        self.drafts.len() - 1
    }

    /// A rollout that is over by what is seen now leaves nothing beyond its history behind.
    fn clean_up_when_complete(&mut self) {
        if self.is_complete(&status::calculate(self, false, self.now)) {
            self.clean_up();
        }
    }

    /// Marks old, empty ReplicaSets beyond the history limit for deletion.
    fn clean_up(&mut self) {
        let limit = self.spec.revision_history_limit.unwrap_or(10);
        let mut old: Vec<usize> = (0..self.drafts.len())
            .filter(|index| {
                !self.drafts[*index].new && self.drafts[*index].after.metadata.deletion_timestamp.is_none()
            })
            .collect();
        old.sort_by_key(|index| (revision::number(&self.drafts[*index].after), *index));
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        for index in old.into_iter().take(surplus) {
            let draft = &mut self.drafts[index];
            let observed = draft.after.status.as_ref().and_then(|status| status.observed_generation);
            draft.delete =
                draft.replicas() == 0 && draft.counted() == 0 && observed >= draft.after.metadata.generation;
        }
    }

    fn finish(self) -> Plan {
        let status = status::calculate(&self, self.judge_progress, self.now);
        let look_again = status::look_again(&self, &status, self.now).filter(|_| self.judge_progress);
        let mut plan = Plan { revision: self.revision, status, look_again, ..Plan::default() };
        for draft in self.drafts {
            match draft.before {
                None => plan.create = Some(draft.after),
                Some(before) if draft.delete => plan.delete.push(before),
                Some(before) if *before != draft.after => plan.update.push((before, draft.after)),
                Some(_) => {}
            }
        }
        plan
    }
}

/// Questions and small steps that the strategies share.
impl Rollout {
    pub(super) fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    pub(super) fn is_rolling(&self) -> bool {
        let strategy = self.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        strategy != Some("Recreate")
    }

    fn fenceposts(&self) -> (i32, i32) {
        if !self.is_rolling() {
            return (0, 0);
        }
        let rolling = self
            .spec
            .strategy
            .as_ref()
            .and_then(|strategy| strategy.rolling_update.clone())
            .unwrap_or_default();
        let surge = int_or_percent::of(rolling.max_surge.as_ref(), self.replicas(), Round::Up);
        let unavailable = int_or_percent::of(rolling.max_unavailable.as_ref(), self.replicas(), Round::Down);
        // Both may round to zero; then nothing could ever move.
        if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
    }

    pub(super) fn max_surge(&self) -> i32 {
        self.fenceposts().0
    }

    pub(super) fn max_unavailable(&self) -> i32 {
        self.fenceposts().1.min(self.replicas())
    }

    pub(super) fn new_index(&self) -> Option<usize> {
        self.drafts.iter().position(|draft| draft.new)
    }

    pub(super) fn old(&self) -> impl Iterator<Item = &Draft> {
        self.drafts.iter().filter(|draft| !draft.new)
    }

    /// Old ReplicaSets that are not empty, oldest first.
    pub(super) fn active_old(&self) -> Vec<usize> {
        let active = |index: &usize| !self.drafts[*index].new && self.drafts[*index].replicas() > 0;
        (0..self.drafts.len()).filter(active).collect()
    }

    /// All that are not empty, newest first.
    pub(super) fn active_newest_first(&self) -> Vec<usize> {
        let mut active: Vec<usize> =
            (0..self.drafts.len()).filter(|index| self.drafts[*index].replicas() > 0).collect();
        active.sort_by_key(|index| Reverse(*index));
        active
    }

    /// Sets a size and notes what is wanted. Says whether the size changed.
    pub(super) fn resize(&mut self, index: usize, replicas: i32) -> bool {
        if self.drafts[index].replicas() == replicas {
            return false;
        }
        self.note_size(index);
        if let Some(spec) = spec_mut(&mut self.drafts[index].after) {
            spec.replicas = Some(replicas);
        }
        true
    }

    pub(super) fn note_size(&mut self, index: usize) {
        let (replicas, surge) = (self.replicas(), self.max_surge());
        revision::note_size(&mut self.drafts[index].after, replicas, surge);
    }

    /// Makes one smaller by up to `count`. Says by how much it did.
    fn shrink(&mut self, index: usize, count: i32) -> i32 {
        let size = self.drafts[index].replicas();
        let taken = count.clamp(0, size.max(0));
        self.resize(index, size - taken);
        taken
    }

    pub(super) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let replicas = self.replicas();
        status.updated_replicas.unwrap_or(0) == replicas
            && status.replicas.unwrap_or(0) == replicas
            && status.available_replicas.unwrap_or(0) == replicas
            && status.observed_generation.unwrap_or(0) >= self.deployment.metadata.generation.unwrap_or(0)
    }
}

impl Draft {
    fn existing(set: &Arc<ReplicaSet>) -> Self {
        Self { before: Some(set.clone()), after: ReplicaSet::clone(set), new: false, delete: false }
    }
}

#[cfg(test)]
mod tests;
