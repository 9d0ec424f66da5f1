//! The next steps of a StatefulSet, as a function of the set, its pods, and its current and update revisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use super::identity::{self, Ordinals};
use crate::kinds::{Pod, StatefulSet};
use crate::replicaset::BURST;
use crate::{controller_history, counts, pod};

/// A revision with its template.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    pub(crate) name: String,
    pub(crate) template: Tree,
}

/// The observed state of one StatefulSet.
pub(crate) struct Observed {
    pub(crate) set: Arc<StatefulSet>,
    /// The pods that the set controls.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// The revision of the pods before the update.
    pub(crate) current: Revision,
    /// The revision of the present template.
    pub(crate) update: Revision,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Create the claims of this ordinal that do not exist.
    Claims(i32),
    /// Create this pod. The step before creates its claims.
    Create(Box<Pod>),
    /// Delete this pod.
    Delete(Arc<Pod>),
}

/// The next steps, in order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) status: Tree,
    /// When the next ready pod becomes available.
    pub(crate) look_again: Option<Duration>,
}

/// Computes the next steps of a StatefulSet.
pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let planner = Planner::new(observed, now);
    let mut steps = Vec::new();
    let deleted_for_update = if observed.set.is_deleting() { false } else { planner.next(&mut steps) };
    Plan {
        steps,
        status: planner.status(deleted_for_update),
        look_again: pod::next_available(&observed.set, &observed.pods, now),
    }
}

struct Planner<'a> {
    observed: &'a Observed,
    set: &'a StatefulSet,
    now: Timestamp,
    ordinals: Ordinals,
    /// The pods by ordinal.
    pods: BTreeMap<i32, Arc<Pod>>,
    parallel: bool,
}

impl<'a> Planner<'a> {
    fn new(observed: &'a Observed, now: Timestamp) -> Self {
        let set = &observed.set;
        let by_ordinal = |pod: &Arc<Pod>| Some((identity::ordinal(set.name(), pod)?, pod.clone()));
        Self {
            observed,
            set,
            now,
            ordinals: Ordinals::of(set),
            pods: observed.pods.iter().filter_map(by_ordinal).collect(),
            parallel: set.is("spec/podManagementPolicy", "Parallel"),
        }
    }

    /// Adds the next steps: missing replicas in order, then surplus pods from the highest ordinal, then the update. Returns
    /// whether a pod is deleted for the update.
    fn next(&self, steps: &mut Vec<Step>) -> bool {
        let mut created = 0;
        for ordinal in self.ordinals.iter() {
            let before = steps.len();
            if self.fill(ordinal, steps) && !self.parallel {
                return false;
            }
            created += steps[before..].iter().filter(|step| matches!(step, Step::Create(_))).count();
            // The events of the created pods trigger the next reconcile, which creates the rest.
            if created == BURST {
                return false;
            }
        }
        for (ordinal, pod) in self.condemned() {
            if self.condemn(ordinal, pod, steps) && !self.parallel {
                return false;
            }
        }
        self.update(steps)
    }

    /// Adds the steps for one replica. Returns whether the replicas after it must wait.
    fn fill(&self, ordinal: i32, steps: &mut Vec<Step>) -> bool {
        let Some(pod) = self.pods.get(&ordinal) else {
            steps.push(Step::Claims(ordinal));
            steps.push(Step::Create(Box::new(self.new_pod(ordinal))));
            return true;
        };
        if pod::is_finished(pod) {
            if !pod.is_deleting() {
                steps.push(Step::Delete(pod.clone()));
            }
            return true;
        }
        if pod::phase(pod) == "Pending" {
            steps.push(Step::Claims(ordinal));
        }
        pod.is_deleting() || !self.is_available(pod)
    }

    /// Adds the steps for one surplus pod. Returns whether the pods below it must wait.
    fn condemn(&self, ordinal: i32, pod: &Arc<Pod>, steps: &mut Vec<Step>) -> bool {
        // An unavailable pod must wait, unless it is the first unavailable one.
        let waits = !self.is_available(pod) && self.first_unavailable() != Some(ordinal);
        if !pod.is_deleting() && (self.parallel || !waits) {
            steps.push(Step::Delete(pod.clone()));
        }
        true
    }

    /// Deletes the highest pod that does not have the update revision, one at a time, down to the partition.
    fn update(&self, steps: &mut Vec<Step>) -> bool {
        if self.set.is("spec/updateStrategy/type", "OnDelete") {
            return false;
        }
        let partition = self.partition().unwrap_or(0);
        for ordinal in self.ordinals.skipping(partition).rev() {
            let Some(pod) = self.pods.get(&ordinal) else { return false };
            if revision_of(pod) != Some(self.observed.update.name.as_str()) && !pod.is_deleting() {
                steps.push(Step::Delete(pod.clone()));
                return true;
            }
            if pod.is_deleting() || !self.is_available(pod) {
                return false;
            }
        }
        false
    }

    fn partition(&self) -> Option<i32> {
        let rolling = self.set.at("spec/updateStrategy/rollingUpdate");
        (!rolling.is_null()).then(|| rolling.i32("partition").unwrap_or(0))
    }

    /// Returns the pod of an ordinal: with the current revision below the partition, else with the update revision.
    fn new_pod(&self, ordinal: i32) -> Pod {
        let kept = match self.partition() {
            Some(partition) => partition,
            None if self.set.is("spec/updateStrategy/type", "OnDelete") => 0,
            None => self.set.i32("status/currentReplicas").unwrap_or(0),
        };
        let revision =
            if ordinal - self.ordinals.start < kept { &self.observed.current } else { &self.observed.update };
        identity::pod(self.set, &revision.template, &revision.name, ordinal)
    }

    /// Returns the pods outside of the wanted ordinals, the highest first.
    fn condemned(&self) -> impl Iterator<Item = (i32, &Arc<Pod>)> {
        self.pods
            .iter()
            .rev()
            .filter(|(ordinal, _)| !self.ordinals.contains(**ordinal))
            .map(|(ordinal, pod)| (*ordinal, pod))
    }

    fn first_unavailable(&self) -> Option<i32> {
        let broken = |ordinal: &i32| {
            self.pods.get(ordinal).is_none_or(|pod| pod.is_deleting() || !self.is_available(pod))
        };
        let condemned: Vec<_> = self.condemned().map(|(ordinal, _)| ordinal).collect();
        self.ordinals.iter().chain(condemned.into_iter().rev()).find(broken)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let min_ready_seconds = self.set.i32("spec/minReadySeconds").unwrap_or(0);
        pod::phase(pod) == "Running" && pod::is_available(pod, min_ready_seconds, self.now)
    }

    fn status(&self, deleted_for_update: bool) -> Tree {
        let pods = &self.observed.pods;
        let count = |test: &dyn Fn(&Arc<Pod>) -> bool| {
            i32::try_from(pods.iter().filter(|pod| test(pod)).count()).unwrap_or(i32::MAX)
        };
        let ready = |pod: &Arc<Pod>| pod::phase(pod) == "Running" && pod::is_ready(pod);
        let at = |pod: &Arc<Pod>, revision: &Revision| {
            !pod.is_deleting() && revision_of(pod) == Some(revision.name.as_str())
        };
        let replicas = count(&|_| true);
        let ready_replicas = count(&ready);
        let updated = count(&|pod| at(pod, &self.observed.update));
        let mut current = count(&|pod| at(pod, &self.observed.current)) - i32::from(deleted_for_update);
        let mut current_revision = &self.observed.current.name;
        if [updated, ready_replicas, replicas] == [self.ordinals.count; 3] {
            current = updated;
            current_revision = &self.observed.update.name;
        }
        tree!({
            "observedGeneration": self.set.metadata.generation,
            "replicas": replicas,
            "readyReplicas": counts::nonzero(ready_replicas),
            "availableReplicas": count(&|pod| ready(pod) && self.is_available(pod)),
            "currentReplicas": counts::nonzero(current),
            "updatedReplicas": counts::nonzero(updated),
            "currentRevision": current_revision,
            "updateRevision": &self.observed.update.name,
            "collisionCount": self.set.i32("status/collisionCount").unwrap_or(0),
            "conditions": self.set.at("status/conditions"),
        })
    }
}

fn revision_of(pod: &Pod) -> Option<&str> {
    pod.label(controller_history::POD_REVISION)
}

#[cfg(test)]
mod tests;
