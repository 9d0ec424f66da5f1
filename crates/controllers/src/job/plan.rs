//! The next steps of a Job, as a function of the Job and its pods.
//!
//! A finished pod is counted exactly once, even if the controller crashes: first the uid is written to
//! `uncountedTerminatedPods`, then the finalizer is removed from the pod, then the uid is replaced by a count.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_tree::{Tree, tree};
use jiff::Timestamp;

use super::conditions;
use super::indexes::{self, Indexes};
use crate::kinds::{Job, Pod};
use crate::object::{Fields, time};
use crate::replicaset::BURST;
use crate::{clock, counts, pod};

/// The finalizer of a pod that is not counted yet.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The delay after the first failure. It doubles with each failure, up to [`BACKOFF_MAX`].
const BACKOFF: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(600);

/// The next steps, in this order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The status, which is written first.
    pub(crate) status: Tree,
    /// The pods that the status accounts for: their finalizer is removed.
    pub(crate) release: Vec<Arc<Pod>>,
    /// The surplus pods.
    pub(crate) delete: Vec<Arc<Pod>>,
    /// How many pods to create.
    pub(crate) create: usize,
    /// The completion indexes of these pods, if the Job is indexed.
    pub(crate) indexes: Vec<i32>,
    /// When a failed pod may be replaced.
    pub(crate) retry: Option<Duration>,
    /// When the active deadline of the Job passes.
    pub(crate) deadline: Option<Duration>,
}

/// Computes the next steps of a Job.
pub(crate) fn plan(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let mut planner = Planner::new(job, pods, now);
    if planner.is_finished() {
        return planner.finished();
    }
    planner.count();
    planner.judge();
    planner.suspend();
    let mut plan = Plan { release: planner.release(), ..Plan::default() };
    planner.scale(&mut plan);
    planner.conclude();
    plan.deadline = planner.deadline();
    plan.status = planner.status;
    plan
}

/// The lists in `status.uncountedTerminatedPods`.
const SUCCEEDED: &str = "uncountedTerminatedPods/succeeded";
const FAILED: &str = "uncountedTerminatedPods/failed";

struct Planner<'a> {
    job: &'a Job,
    status: Tree,
    pods: &'a [Arc<Pod>],
    now: Timestamp,
    indexed: bool,
    done: Indexes,
}

impl<'a> Planner<'a> {
    fn new(job: &'a Job, pods: &'a [Arc<Pod>], now: Timestamp) -> Self {
        Self {
            job,
            status: job.at("status").clone(),
            pods,
            now,
            indexed: indexes::is_indexed(job),
            done: Indexes::parse(job.str("status/completedIndexes").unwrap_or_default()),
        }
    }

    fn has(&self, kind: &str) -> bool {
        conditions::holding(&self.status, kind).is_some()
    }

    fn is_finished(&self) -> bool {
        conditions::finished(&self.status).is_some()
    }

    /// Removes the finalizer from the remaining pods of a finished Job. Nothing else changes.
    fn finished(self) -> Plan {
        let release = self.pods.iter().filter(|pod| is_tracked(pod)).cloned().collect();
        Plan { status: self.status, release, ..Plan::default() }
    }

    /// Lists newly finished pods as uncounted, and counts those whose finalizer is removed.
    fn count(&mut self) {
        let tracked: Vec<_> = self.pods.iter().filter(|pod| is_tracked(pod)).collect();
        let uids: BTreeSet<_> = tracked.iter().map(|pod| uid(pod)).collect();
        let settle = |list: &str| -> (Vec<String>, i32) {
            let all = self.status.texts(list).map(str::to_owned);
            let (open, settled): (Vec<_>, Vec<_>) = all.partition(|uid| uids.contains(uid.as_str()));
            (open, i32::try_from(settled.len()).unwrap_or(0))
        };
        let (mut open_succeeded, succeeded) = settle(SUCCEEDED);
        let (mut open_failed, failed) = settle(FAILED);
        for pod in tracked {
            let uid = uid(pod).to_owned();
            if open_succeeded.contains(&uid) || open_failed.contains(&uid) {
                continue;
            }
            if pod::phase(pod) == "Succeeded" {
                match indexes::of(pod).filter(|_| self.indexed) {
                    // An index is counted by the set of completed indexes.
                    Some(index) => self.done.insert(index),
                    None => open_succeeded.push(uid),
                }
            } else if pod::phase(pod) == "Failed" || pod.is_deleting() {
                open_failed.push(uid);
            }
        }
        let succeeded = match self.indexed {
            true => i32::try_from(self.done.len()).unwrap_or(i32::MAX),
            false => self.number("succeeded").saturating_add(succeeded),
        };
        let failed = self.number("failed").saturating_add(failed);
        self.status.set("succeeded", counts::nonzero(succeeded));
        self.status.set("failed", counts::nonzero(failed));
        if self.indexed {
            let done = self.done.to_string();
            self.status.set("completedIndexes", (!done.is_empty()).then_some(done));
        }
        let list = |uids: Vec<String>| (!uids.is_empty()).then_some(uids);
        let uncounted = tree!({"succeeded": list(open_succeeded), "failed": list(open_failed)});
        self.status.set("uncountedTerminatedPods", uncounted);
    }

    /// Returns a number in the status, zero if it is missing.
    fn number(&self, field: &str) -> i32 {
        self.status.i32(field).unwrap_or(0)
    }

    /// Returns the length of a list in the status.
    fn len(&self, list: &str) -> i32 {
        i32::try_from(self.status.list(list).len()).unwrap_or(i32::MAX)
    }

    fn succeeded(&self) -> i32 {
        self.number("succeeded").saturating_add(self.len(SUCCEEDED))
    }

    fn failed(&self) -> i32 {
        self.number("failed").saturating_add(self.len(FAILED))
    }

    fn is_suspended(&self) -> bool {
        self.job.is_true("spec/suspend")
    }

    fn active(&self) -> Vec<Arc<Pod>> {
        self.pods.iter().filter(|pod| pod::is_active(pod)).cloned().collect()
    }

    /// Sets the condition that decides the outcome of the Job, if there is one.
    fn judge(&mut self) {
        if self.has("FailureTarget") || self.has("SuccessCriteriaMet") {
            return;
        }
        let restarts = counts::sum(self.active().iter().map(|pod| pod::restarts(pod)));
        let limit = self.job.i32("spec/backoffLimit").unwrap_or(6);
        let on_failure = self.job.is("spec/template/spec/restartPolicy", "OnFailure");
        let too_many_restarts = on_failure && restarts > 0 && restarts >= limit;
        if self.failed() > limit || too_many_restarts {
            self.set("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit");
        } else if self.left().is_some_and(|left| left.is_zero()) {
            self.set("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline");
        } else if self.is_complete() {
            self.set("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods");
        }
    }

    fn is_complete(&self) -> bool {
        match self.completions() {
            // Without `completions`, the Job is complete when a pod has succeeded and none is active.
            None => self.succeeded() > 0 && self.active().is_empty(),
            Some(completions) => self.succeeded() >= completions,
        }
    }

    /// Returns how long the Job may still be active.
    fn left(&self) -> Option<Duration> {
        let seconds = self.job.i64("spec/activeDeadlineSeconds")?;
        let started = self.status.time("startTime")?;
        if self.is_suspended() {
            return None;
        }
        let end = clock::after(started, seconds);
        Some(Duration::try_from(end.duration_since(self.now)).unwrap_or(Duration::ZERO))
    }

    fn deadline(&self) -> Option<Duration> {
        self.left().filter(|left| !left.is_zero() && !self.is_finished())
    }

    fn suspend(&mut self) {
        let suspended = self.is_suspended();
        let shown = self.has("Suspended");
        if suspended && !shown {
            self.put("Suspended", "True", "JobSuspended", "Job suspended");
            self.status.set("startTime", Tree::Null);
        } else if !suspended && shown {
            self.put("Suspended", "False", "JobResumed", "Job resumed");
            self.status.set("startTime", time(self.now));
        } else if !suspended && !self.status.has("startTime") {
            self.status.set("startTime", time(self.now));
        }
    }

    fn is_decided(&self) -> bool {
        self.has("FailureTarget") || self.has("SuccessCriteriaMet")
    }

    /// Returns the tracked pods that have ended. The status accounts for them.
    fn release(&self) -> Vec<Arc<Pod>> {
        let ended = |pod: &&Arc<Pod>| is_tracked(pod) && (pod::is_finished(pod) || pod.is_deleting());
        self.pods.iter().filter(ended).cloned().collect()
    }

    fn scale(&mut self, plan: &mut Plan) {
        let active = self.active();
        let wanted = match (self.is_decided() || self.is_suspended(), self.completions()) {
            (true, _) => 0,
            (false, None) if self.succeeded() > 0 => active.len(),
            (false, None) => self.parallelism(),
            (false, Some(completions)) => self
                .parallelism()
                .min(usize::try_from(completions.saturating_sub(self.succeeded())).unwrap_or(0)),
        };
        if active.len() > wanted {
            let mut surplus = active.clone();
            surplus.sort_by(|a, b| (pod::is_ready(a), a.name()).cmp(&(pod::is_ready(b), b.name())));
            surplus.truncate(active.len() - wanted);
            plan.delete = surplus;
        } else if active.len() < wanted && !self.job.is_deleting() {
            plan.retry = self.backoff();
            if plan.retry.is_none() {
                plan.create = (wanted - active.len()).min(BURST);
                plan.indexes = self.free_indexes(&active, plan.create);
            }
        }
        let remaining = active.len() - plan.delete.len();
        let running = i32::try_from(remaining + plan.create).unwrap_or(0);
        self.status.set("active", counts::nonzero(running));
        let ready = active.iter().filter(|pod| pod::is_ready(pod)).count();
        self.status.set("ready", i32::try_from(ready).unwrap_or(0));
        let terminating = self.pods.iter().filter(|pod| pod::is_terminating(pod)).count();
        self.status.set("terminating", i32::try_from(terminating).unwrap_or(0));
    }

    fn completions(&self) -> Option<i32> {
        self.job.i32("spec/completions")
    }

    fn parallelism(&self) -> usize {
        usize::try_from(self.job.i32("spec/parallelism").unwrap_or(1)).unwrap_or(0)
    }

    fn free_indexes(&self, active: &[Arc<Pod>], count: usize) -> Vec<i32> {
        if !self.indexed {
            return Vec::new();
        }
        let taken: BTreeSet<_> = active.iter().filter_map(|pod| indexes::of(pod)).collect();
        let free = self.done.missing(self.completions().unwrap_or(0));
        free.filter(|index| !taken.contains(index)).take(count).collect()
    }

    /// Returns how long to wait because of the last failure.
    fn backoff(&self) -> Option<Duration> {
        let failures = u32::try_from(self.failed()).unwrap_or(0);
        let ended = self
            .pods
            .iter()
            .filter(|pod| pod::phase(pod) == "Failed")
            .filter_map(|pod| ended_at(pod))
            .max()?;
        let wait = BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(BACKOFF_MAX);
        let passed = Duration::try_from(self.now.duration_since(ended)).unwrap_or(Duration::ZERO);
        Some(wait.saturating_sub(passed)).filter(|left| failures > 0 && !left.is_zero())
    }

    /// Ends the Job if its outcome is decided, no pod is active and all are counted.
    fn conclude(&mut self) {
        let open = self.len(SUCCEEDED) > 0 || self.len(FAILED) > 0;
        let busy =
            self.pods.iter().any(|pod| !pod::is_finished(pod)) || self.pods.iter().any(|pod| is_tracked(pod));
        if !self.is_decided() || open || busy {
            return;
        }
        let why = |kind: &str| {
            let text = |field: &str| self.status.condition(kind)?.str(field).map(str::to_owned);
            self.status.condition(kind)?;
            Some((text("reason").unwrap_or_default(), text("message").unwrap_or_default()))
        };
        if let Some((reason, message)) = why("FailureTarget") {
            self.set("Failed", &reason, &message);
        } else if let Some((reason, message)) = why("SuccessCriteriaMet") {
            self.set("Complete", &reason, &message);
            self.status.set("completionTime", time(self.now));
        }
    }

    fn set(&mut self, kind: &str, reason: &str, message: &str) {
        self.put(kind, "True", reason, message);
    }

    fn put(&mut self, kind: &str, state: &str, reason: &str, message: &str) {
        let kept = self.status.list("conditions").iter().filter(|condition| !condition.is("type", kind));
        let mut conditions: Vec<_> = kept.cloned().collect();
        conditions.push(tree!({
            "type": kind, "status": state, "reason": reason, "message": message,
            "lastProbeTime": time(self.now), "lastTransitionTime": time(self.now),
        }));
        self.status.set("conditions", conditions);
    }
}

/// Whether the pod has the tracking finalizer.
pub(crate) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKING)
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.list("status/containerStatuses").iter();
    statuses.filter_map(|status| status.time("state/terminated/finishedAt")).max()
}

#[cfg(test)]
mod tests;
