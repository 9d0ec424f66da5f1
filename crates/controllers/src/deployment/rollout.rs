//! The next step of a rollout, as a function of a Deployment and its ReplicaSets.
//!
//! The step is computed on drafts of the ReplicaSets; the drafts that differ from their originals are written.
//!
//! *Invariant:* no step raises the number of pods above `replicas + maxSurge` or lowers the number of available pods below
//! `replicas - maxUnavailable`. The status of a ReplicaSet may lag behind its spec. So the larger of the two limits the
//! surge, and the smaller of the two limits what may be scaled down.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_tree::Tree;
use jiff::Timestamp;

use super::conditions::{self, PROGRESSING};
use super::{revision, scaling, status};
use crate::counts;
use crate::kinds::{Deployment, ReplicaSet};
use crate::object::Fields;
use crate::scaled_value::{Rounding, scaled_value};

/// The observed state of one Deployment.
pub(crate) struct Observed {
    pub(crate) deployment: Arc<Deployment>,
    /// The ReplicaSets that the Deployment controls.
    pub(crate) sets: Vec<Arc<ReplicaSet>>,
}

/// The next step: what to write.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The ReplicaSet of a new revision.
    pub(crate) create: Option<ReplicaSet>,
    /// The ReplicaSets whose size, annotations or `minReadySeconds` change, before and after.
    pub(crate) update: Vec<(Arc<ReplicaSet>, ReplicaSet)>,
    /// The old ReplicaSets beyond the history limit.
    pub(crate) delete: Vec<Arc<ReplicaSet>>,
    /// The revision for the Deployment's annotation.
    pub(crate) revision: Option<String>,
    pub(crate) status: Tree,
    /// When to check the progress deadline again.
    pub(crate) look_again: Option<Duration>,
}

/// Computes the next step of a Deployment.
pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let mut rollout = Rollout::new(observed, now);
    rollout.advance();
    rollout.finish()
}

/// A ReplicaSet before and after the step.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// `None` for a ReplicaSet that will be created.
    before: Option<Arc<ReplicaSet>>,
    pub(super) after: ReplicaSet,
    new: bool,
    delete: bool,
}

/// A rollout whose next step is being computed.
pub(super) struct Rollout {
    pub(super) deployment: Arc<Deployment>,
    /// The old status, with the conditions that this step has set so far.
    pub(super) status: Tree,
    /// The ReplicaSets, oldest first.
    pub(super) drafts: Vec<Draft>,
    now: Timestamp,
    revision: Option<String>,
    /// Whether to update the progress conditions: not for a Deployment that is paused, being scaled or deleted.
    judge_progress: bool,
}

impl Draft {
    pub(super) fn replicas(&self) -> i32 {
        self.after.i32("spec/replicas").unwrap_or(0)
    }

    /// Returns the number of pods in the status.
    fn counted(&self) -> i32 {
        self.after.i32("status/replicas").unwrap_or(0)
    }

    /// Returns how many of the wanted pods are not available.
    fn unavailable(&self) -> i32 {
        self.replicas().saturating_sub(self.available())
    }

    /// Returns how many available pods remain at the drafted size.
    pub(super) fn available(&self) -> i32 {
        self.after.i32("status/availableReplicas").unwrap_or(0).min(self.replicas())
    }

    /// Whether pods of the ReplicaSet may still run. They may if the status does not show the present spec yet.
    fn has_pods(&self) -> bool {
        let terminating = self.after.i32("status/terminatingReplicas").unwrap_or(0);
        self.counted() > 0 || terminating > 0 || self.observed() < self.after.metadata.generation
    }

    /// Returns the generation that the status has observed.
    fn observed(&self) -> Option<i64> {
        self.after.i64("status/observedGeneration")
    }

    pub(super) fn created(&self) -> (Option<Timestamp>, &str) {
        let metadata = &self.after.metadata;
        (metadata.creation_timestamp.as_ref().map(|time| time.0), self.after.name())
    }
}

impl Rollout {
    fn new(observed: &Observed, now: Timestamp) -> Self {
        let deployment = observed.deployment.clone();
        let mut drafts: Vec<_> = observed.sets.iter().map(Draft::existing).collect();
        drafts.sort_by(|a, b| a.created().cmp(&b.created()));
        // If two ReplicaSets have the template, the older one is the new ReplicaSet.
        if let Some(new) = drafts.iter_mut().find(|draft| revision::is_new(&deployment, &draft.after)) {
            new.new = true;
        }
        Self {
            status: deployment.at("status").clone(),
            deployment,
            drafts,
            now,
            revision: None,
            judge_progress: false,
        }
    }

    fn advance(&mut self) {
        if self.deployment.is_deleting() {
            return;
        }
        conditions::mark_pause(&self.deployment, &mut self.status, self.now);
        self.sync_new();
        if self.deployment.is_true("spec/paused") {
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

    /// Whether `replicas` has changed since the controller last wrote an active ReplicaSet.
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

    /// Returns by how much the new ReplicaSet may grow within the surge.
    fn room(&self, new: usize) -> i32 {
        let exist = counts::sum(self.drafts.iter().map(|draft| draft.replicas().max(draft.counted())));
        let room = self.replicas().saturating_add(self.max_surge()).saturating_sub(exist);
        room.min(self.replicas().saturating_sub(self.drafts[new].replicas())).max(0)
    }

    /// Scales old ReplicaSets down by as much as availability allows. Returns whether one changed.
    fn scale_down_old(&mut self, new: usize) -> bool {
        let all = counts::sum(self.drafts.iter().map(Draft::replicas));
        let min_available = self.replicas().saturating_sub(self.max_unavailable());
        let new_unavailable = self.drafts[new].unavailable();
        let mut budget = all.saturating_sub(min_available).saturating_sub(new_unavailable);
        let before = budget;
        // Unavailable pods go first: they serve nothing, and a broken revision must not block the rollout.
        for index in self.active_old() {
            let unhealthy = self.drafts[index].unavailable();
            budget = budget.saturating_sub(self.shrink(index, unhealthy.min(budget)));
        }
        let available = counts::sum(self.drafts.iter().map(Draft::available));
        let mut spare = available.saturating_sub(min_available).min(budget);
        for index in self.active_old() {
            let taken = self.shrink(index, spare);
            spare = spare.saturating_sub(taken);
            budget = budget.saturating_sub(taken);
        }
        budget < before
    }

    /// Creates new pods only after the last old pod is gone, terminating ones included.
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

    /// Updates the annotations of the new ReplicaSet, if there is one, and takes the Deployment's revision from it.
    fn sync_new(&mut self) {
        let next = 1 + self.old().map(|draft| revision::number(&draft.after)).max().unwrap_or(0);
        let Some(index) = self.new_index() else { return };
        let (deployment, now) = (self.deployment.clone(), self.now);
        let set = &mut self.drafts[index].after;
        revision::note_revision(set, &deployment, next);
        set.set("spec/minReadySeconds", deployment.at("spec/minReadySeconds"));
        self.revision = Some(revision::number(set).to_string());
        if conditions::has_deadline(&deployment) && self.status.condition(PROGRESSING).is_none() {
            let message = format!("Found new replica set \"{}\"", set.name());
            let found = conditions::condition(PROGRESSING, "True", "FoundNewReplicaSet", &message, now);
            conditions::set(&mut self.status, found);
        }
    }

    /// Returns the index of the new ReplicaSet, and drafts it if it does not exist.
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
            let message = format!("Created new replica set \"{}\"", set.name());
            let created =
                conditions::condition(PROGRESSING, "True", "NewReplicaSetCreated", &message, self.now);
            conditions::set(&mut self.status, created);
        }
        self.drafts.push(Draft { before: None, after: set, new: true, delete: false });
        self.drafts.len() - 1
    }

    /// Cleans up if the rollout is complete.
    fn clean_up_when_complete(&mut self) {
        if self.is_complete(&status::calculate(self, false, self.now)) {
            self.clean_up();
        }
    }

    /// Marks old, empty ReplicaSets beyond the history limit for deletion.
    fn clean_up(&mut self) {
        let limit = self.deployment.i32("spec/revisionHistoryLimit").unwrap_or(10);
        let mut old: Vec<usize> = (0..self.drafts.len())
            .filter(|index| !self.drafts[*index].new && !self.drafts[*index].after.is_deleting())
            .collect();
        old.sort_by_key(|index| (revision::number(&self.drafts[*index].after), *index));
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        for index in old.into_iter().take(surplus) {
            let draft = &mut self.drafts[index];
            draft.delete = draft.replicas() == 0
                && draft.counted() == 0
                && draft.observed() >= draft.after.metadata.generation;
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

/// Queries and small steps that both strategies use.
impl Rollout {
    pub(super) fn replicas(&self) -> i32 {
        self.deployment.i32("spec/replicas").unwrap_or(1)
    }

    pub(super) fn is_rolling(&self) -> bool {
        !self.deployment.is("spec/strategy/type", "Recreate")
    }

    fn fenceposts(&self) -> (i32, i32) {
        if !self.is_rolling() {
            return (0, 0);
        }
        let rolling = self.deployment.at("spec/strategy/rollingUpdate");
        let surge = scaled_value(rolling.at("maxSurge"), self.replicas(), Rounding::Up);
        let unavailable = scaled_value(rolling.at("maxUnavailable"), self.replicas(), Rounding::Down);
        // Both may round to zero, and then no step would be possible.
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

    /// Returns the old ReplicaSets with replicas, oldest first.
    pub(super) fn active_old(&self) -> Vec<usize> {
        let active = |index: &usize| !self.drafts[*index].new && self.drafts[*index].replicas() > 0;
        (0..self.drafts.len()).filter(active).collect()
    }

    /// Returns all ReplicaSets with replicas, newest first.
    pub(super) fn active_newest_first(&self) -> Vec<usize> {
        let mut active: Vec<usize> =
            (0..self.drafts.len()).filter(|index| self.drafts[*index].replicas() > 0).collect();
        active.sort_by_key(|index| Reverse(*index));
        active
    }

    /// Sets the size and the size annotations. Returns whether the size changed.
    pub(super) fn resize(&mut self, index: usize, replicas: i32) -> bool {
        if self.drafts[index].replicas() == replicas {
            return false;
        }
        self.note_size(index);
        self.drafts[index].after.set("spec/replicas", replicas);
        true
    }

    pub(super) fn note_size(&mut self, index: usize) {
        let (replicas, surge) = (self.replicas(), self.max_surge());
        revision::note_size(&mut self.drafts[index].after, replicas, surge);
    }

    /// Scales a ReplicaSet down by up to `count`. Returns by how much.
    fn shrink(&mut self, index: usize, count: i32) -> i32 {
        let size = self.drafts[index].replicas();
        let taken = count.clamp(0, size.max(0));
        self.resize(index, size - taken);
        taken
    }

    pub(super) fn is_complete(&self, status: &Tree) -> bool {
        let counts = ["updatedReplicas", "replicas", "availableReplicas"];
        counts.iter().all(|count| status.i32(count).unwrap_or(0) == self.replicas())
            && status.i64("observedGeneration").unwrap_or(0)
                >= self.deployment.metadata.generation.unwrap_or(0)
    }
}

impl Draft {
    fn existing(set: &Arc<ReplicaSet>) -> Self {
        Self { before: Some(set.clone()), after: ReplicaSet::clone(set), new: false, delete: false }
    }
}

#[cfg(test)]
mod tests;
