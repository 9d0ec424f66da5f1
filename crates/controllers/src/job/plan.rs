//! The next steps of a Job, as a function of the Job and its pods.
//!
//! A finished pod is counted exactly once, even if the controller crashes: first the uid is written to
//! `uncountedTerminatedPods`, then the finalizer is removed from the pod, then the uid is replaced by a count.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions;
use super::indexes::{self, Indexes};
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
    pub(crate) status: JobStatus,
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
    plan.status = planner.into_status();
    plan
}

struct Planner<'a> {
    spec: JobSpec,
    status: JobStatus,
    pods: &'a [Arc<Pod>],
    now: Timestamp,
    indexed: bool,
    done: Indexes,
    deleting: bool,
}

impl<'a> Planner<'a> {
    fn new(job: &Job, pods: &'a [Arc<Pod>], now: Timestamp) -> Self {
        let status = job.status.clone().unwrap_or_default();
        Self {
            spec: job.spec.clone().unwrap_or_default(),
            done: Indexes::parse(status.completed_indexes.as_deref().unwrap_or_default()),
            status,
            pods,
            now,
            indexed: indexes::is_indexed(job),
            deleting: job.metadata.deletion_timestamp.is_some(),
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
        let mut uncounted = self.status.uncounted_terminated_pods.take().unwrap_or_default();
        let tracked: BTreeSet<_> = self
            .pods
            .iter()
            .filter(|pod| is_tracked(pod))
            .filter_map(|pod| pod.metadata.uid.clone())
            .collect();
        let settle = |list: &mut Option<Vec<String>>| {
            let all = list.take().unwrap_or_default();
            let (open, settled): (Vec<_>, Vec<_>) = all.into_iter().partition(|uid| tracked.contains(uid));
            *list = Some(open).filter(|open| !open.is_empty());
            i32::try_from(settled.len()).unwrap_or(0)
        };
        let succeeded = settle(&mut uncounted.succeeded);
        let failed = settle(&mut uncounted.failed);
        for pod in self.pods.iter().filter(|pod| is_tracked(pod)) {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            let known = |list: &Option<Vec<String>>| list.iter().flatten().any(|known| *known == uid);
            if known(&uncounted.succeeded) || known(&uncounted.failed) {
                continue;
            }
            if pod::phase(pod) == "Succeeded" {
                match indexes::of(pod).filter(|_| self.indexed) {
                    // An index is counted by the set of completed indexes.
                    Some(index) => self.done.insert(index),
                    None => uncounted.succeeded.get_or_insert_default().push(uid),
                }
            } else if pod::phase(pod) == "Failed" || pod::is_deleting(pod) {
                uncounted.failed.get_or_insert_default().push(uid);
            }
        }
        self.status.succeeded = counts::nonzero(match self.indexed {
            true => i32::try_from(self.done.len()).unwrap_or(i32::MAX),
            false => self.status.succeeded.unwrap_or(0).saturating_add(succeeded),
        });
        self.status.failed = counts::nonzero(self.status.failed.unwrap_or(0).saturating_add(failed));
        if self.indexed {
            self.status.completed_indexes = Some(self.done.to_string()).filter(|text| !text.is_empty());
        }
        self.status.uncounted_terminated_pods = Some(uncounted);
    }

    fn uncounted(&self) -> UncountedTerminatedPods {
        self.status.uncounted_terminated_pods.clone().unwrap_or_default()
    }

    fn succeeded(&self) -> i32 {
        self.status.succeeded.unwrap_or(0).saturating_add(len(self.uncounted().succeeded.as_ref()))
    }

    fn failed(&self) -> i32 {
        self.status.failed.unwrap_or(0).saturating_add(len(self.uncounted().failed.as_ref()))
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
        let limit = self.spec.backoff_limit.unwrap_or(6);
        let on_failure = self.restart_policy() == Some("OnFailure");
        let too_many_restarts = on_failure && restarts > 0 && restarts >= limit;
        if self.failed() > limit || too_many_restarts {
            self.set("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit");
        } else if self.left().is_some_and(|left| left.is_zero()) {
            self.set("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline");
        } else if self.is_complete() {
            self.set("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods");
        }
    }

    fn restart_policy(&self) -> Option<&str> {
        self.spec.template.spec.as_ref()?.restart_policy.as_deref()
    }

    fn is_complete(&self) -> bool {
        match self.spec.completions {
            // Without `completions`, the Job is complete when a pod has succeeded and none is active.
            None => self.succeeded() > 0 && self.active().is_empty(),
            Some(completions) => self.succeeded() >= completions,
        }
    }

    /// Returns how long the Job may still be active.
    fn left(&self) -> Option<Duration> {
        let seconds = self.spec.active_deadline_seconds?;
        let started = self.status.start_time.as_ref()?.0;
        if self.spec.suspend == Some(true) {
            return None;
        }
        let end = clock::after(started, seconds);
        Some(Duration::try_from(end.duration_since(self.now)).unwrap_or(Duration::ZERO))
    }

    fn deadline(&self) -> Option<Duration> {
        self.left().filter(|left| !left.is_zero() && !self.is_finished())
    }

    fn suspend(&mut self) {
        let suspended = self.spec.suspend == Some(true);
        let shown = self.has("Suspended");
        if suspended && !shown {
            self.put("Suspended", "True", "JobSuspended", "Job suspended");
            self.status.start_time = None;
        } else if !suspended && shown {
            self.put("Suspended", "False", "JobResumed", "Job resumed");
            self.status.start_time = Some(Time(self.now));
        } else if !suspended && self.status.start_time.is_none() {
            self.status.start_time = Some(Time(self.now));
        }
    }

    fn is_decided(&self) -> bool {
        self.has("FailureTarget") || self.has("SuccessCriteriaMet")
    }

    /// Returns the tracked pods that have ended. The status accounts for them.
    fn release(&self) -> Vec<Arc<Pod>> {
        let ended = |pod: &&Arc<Pod>| is_tracked(pod) && (pod::is_finished(pod) || pod::is_deleting(pod));
        self.pods.iter().filter(ended).cloned().collect()
    }

    fn scale(&mut self, plan: &mut Plan) {
        let active = self.active();
        let wanted = match (self.is_decided() || self.spec.suspend == Some(true), self.spec.completions) {
            (true, _) => 0,
            (false, None) if self.succeeded() > 0 => active.len(),
            (false, None) => self.parallelism(),
            (false, Some(completions)) => self
                .parallelism()
                .min(usize::try_from(completions.saturating_sub(self.succeeded())).unwrap_or(0)),
        };
        if active.len() > wanted {
            let mut surplus = active.clone();
            surplus.sort_by_key(|pod| (pod::is_ready(pod), pod.metadata.name.clone()));
            surplus.truncate(active.len() - wanted);
            plan.delete = surplus;
        } else if active.len() < wanted && !self.deleting {
            plan.retry = self.backoff();
            if plan.retry.is_none() {
                plan.create = (wanted - active.len()).min(BURST);
                plan.indexes = self.free_indexes(&active, plan.create);
            }
        }
        let remaining = active.len() - plan.delete.len();
        self.status.active = counts::nonzero(i32::try_from(remaining + plan.create).unwrap_or(0));
        let ready = active.iter().filter(|pod| pod::is_ready(pod)).count();
        self.status.ready = Some(i32::try_from(ready).unwrap_or(0));
        let terminating = self.pods.iter().filter(|pod| pod::is_terminating(pod)).count();
        self.status.terminating = Some(i32::try_from(terminating).unwrap_or(0));
    }

    fn parallelism(&self) -> usize {
        usize::try_from(self.spec.parallelism.unwrap_or(1)).unwrap_or(0)
    }

    fn free_indexes(&self, active: &[Arc<Pod>], count: usize) -> Vec<i32> {
        if !self.indexed {
            return Vec::new();
        }
        let taken: BTreeSet<_> = active.iter().filter_map(|pod| indexes::of(pod)).collect();
        let free = self.done.missing(self.spec.completions.unwrap_or(0));
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
        let uncounted = self.uncounted();
        let open = len(uncounted.succeeded.as_ref()) + len(uncounted.failed.as_ref()) > 0;
        let busy =
            self.pods.iter().any(|pod| !pod::is_finished(pod)) || self.pods.iter().any(|pod| is_tracked(pod));
        if !self.is_decided() || open || busy {
            return;
        }
        let why = |kind: &str| {
            let decided = self.status.conditions.iter().flatten().find(|condition| condition.type_ == kind);
            decided.map(|decided| {
                (decided.reason.clone().unwrap_or_default(), decided.message.clone().unwrap_or_default())
            })
        };
        if let Some((reason, message)) = why("FailureTarget") {
            self.set("Failed", &reason, &message);
        } else if let Some((reason, message)) = why("SuccessCriteriaMet") {
            self.set("Complete", &reason, &message);
            self.status.completion_time = Some(Time(self.now));
        }
    }

    fn set(&mut self, kind: &str, reason: &str, message: &str) {
        self.put(kind, "True", reason, message);
    }

    fn put(&mut self, kind: &str, state: &str, reason: &str, message: &str) {
        let conditions = self.status.conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != kind);
        conditions.push(JobCondition {
            type_: kind.to_owned(),
            status: state.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_probe_time: Some(Time(self.now)),
            last_transition_time: Some(Time(self.now)),
        });
    }

    fn into_status(self) -> JobStatus {
        self.status
    }
}

/// Whether the pod has the tracking finalizer.
pub(crate) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKING)
}

fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.iter().flatten();
    let ends = statuses
        .filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|at| at.0));
    ends.max()
}

fn len(list: Option<&Vec<String>>) -> i32 {
    list.map_or(0, |list| i32::try_from(list.len()).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests;
