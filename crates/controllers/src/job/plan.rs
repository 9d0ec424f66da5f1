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
use super::failure::{self, Verdict};
use super::indexes::{self, IndexFailures, Indexes};
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
    /// The pods that the Job does not need, or does not need any more.
    pub(crate) delete: Vec<Arc<Pod>>,
    /// Whether the deleted pods count as failed, as they do when the Job ends. Surplus pods, and those of a suspended Job,
    /// do not: their finalizer is removed before they are deleted.
    pub(crate) counts_deleted: bool,
    /// How many pods to create.
    pub(crate) create: usize,
    /// The completion indexes of the new pods, if the Job is indexed, and their previous failures, if failures are
    /// counted by index.
    pub(crate) indexes: Vec<(i32, Option<IndexFailures>)>,
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

/// The two lists in `status.uncountedTerminatedPods`.
const SUCCEEDED: &str = "uncountedTerminatedPods/succeeded";
const FAILED: &str = "uncountedTerminatedPods/failed";

struct Planner<'a> {
    job: &'a Job,
    status: Tree,
    pods: &'a [Arc<Pod>],
    now: Timestamp,
    indexed: bool,
    done: Indexes,
    /// The indexes that have failed, if failures are counted by index.
    failed_indexes: Option<Indexes>,
    /// How long until a failed index may be retried, if one is waiting.
    index_delay: Option<Duration>,
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
            failed_indexes: job
                .has("spec/backoffLimitPerIndex")
                .then(|| Indexes::parse(job.str("status/failedIndexes").unwrap_or_default())),
            index_delay: None,
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
        let tracked: Vec<Arc<Pod>> = tracked.into_iter().cloned().collect();
        for pod in &tracked {
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
            } else if failure::is_failed(self.job, pod) && self.index_failure(pod) {
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
            self.status.set("failedIndexes", self.failed_indexes.as_ref().map(Indexes::to_string));
        }
        let list = |uids: Vec<String>| (!uids.is_empty()).then_some(uids);
        let uncounted = tree!({"succeeded": list(open_succeeded), "failed": list(open_failed)});
        self.status.set("uncountedTerminatedPods", uncounted);
    }

    /// Adds the failure of a pod to its index. Returns whether the failure counts.
    fn index_failure(&mut self, pod: &Pod) -> bool {
        let verdict = failure::judge(self.job, pod);
        let limit = self.job.i32("spec/backoffLimitPerIndex").unwrap_or(i32::MAX);
        if let (Some(failed), Some(index)) = (&mut self.failed_indexes, indexes::of(pod)) {
            let exhausted = verdict != Verdict::Ignore && IndexFailures::before(pod).counted >= limit;
            if exhausted || verdict == Verdict::FailIndex {
                failed.insert(index);
            }
        }
        verdict != Verdict::Ignore
    }

    /// Returns why the failure policy fails the Job, or `None` if it does not.
    fn policy_failure(&self) -> Option<String> {
        let failed = self.pods.iter().filter(|pod| is_tracked(pod) && failure::is_failed(self.job, pod));
        failed.into_iter().find_map(|pod| match failure::judge(self.job, pod) {
            Verdict::FailJob(why) => Some(why),
            _ => None,
        })
    }

    /// Returns the first rule of the success policy that is met.
    fn success_rule(&self) -> Option<usize> {
        if self.done.len() == 0 {
            return None;
        }
        let holds = |rule: &Tree| {
            let count = rule.i64("succeededCount");
            let Some(wanted) = rule.str("succeededIndexes") else {
                return count.is_some_and(|count| self.done.len() >= count);
            };
            let wanted = Indexes::parse(wanted);
            let reached = wanted.common(&self.done);
            wanted.len() > 0 && (reached == wanted.len() || count.is_some_and(|count| reached >= count))
        };
        self.job.list("spec/successPolicy/rules").iter().position(holds)
    }

    /// Returns a number in the status, or zero if it is missing.
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
        if let Some(why) = self.policy_failure() {
            self.set("FailureTarget", "PodFailurePolicy", &why);
        } else if self.failed() > limit || too_many_restarts {
            self.set("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit");
        } else if self.left().is_some_and(|left| left.is_zero()) {
            self.set("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline");
        } else if let Some((reason, message)) = self.index_failures() {
            self.set("FailureTarget", reason, message);
        } else if let Some(rule) = self.success_rule() {
            self.set("SuccessCriteriaMet", "SuccessPolicy", &format!("Matched rules at index {rule}"));
        } else if self.is_complete() {
            self.set("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods");
        }
    }

    /// Returns why failed indexes fail the Job, or `None` if they do not.
    fn index_failures(&self) -> Option<(&'static str, &'static str)> {
        let failed = self.failed_indexes.as_ref()?.len();
        let max = self.job.i64("spec/maxFailedIndexes");
        let completions = i64::from(self.completions().unwrap_or(0));
        if max.is_some_and(|max| failed > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(("MaxFailedIndexesExceeded", message));
        }
        (failed > 0 && failed + self.done.len() >= completions)
            .then_some(("FailedIndexes", "Job has failed indexes"))
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
        let ended = |pod: &&Arc<Pod>| {
            let ended = pod::is_finished(pod) || failure::is_failed(self.job, pod);
            // Once the Job has ended, every pod that is being deleted is counted in its current phase.
            is_tracked(pod) && (ended || (pod.is_deleting() && self.is_decided())) && !self.keeps(pod)
        };
        self.pods.iter().filter(ended).cloned().collect()
    }

    /// Whether a failed pod must be kept until its index is retried, because its annotations hold the failures of the
    /// index.
    fn keeps(&self, pod: &Pod) -> bool {
        let (Some(failed), Some(index)) = (&self.failed_indexes, indexes::of(pod)) else { return false };
        if self.is_decided() || self.is_suspended() || failed.contains(index) || self.done.contains(index) {
            return false;
        }
        let before = |pod: &Pod| {
            let failures = IndexFailures::before(pod);
            failures.counted.saturating_add(failures.ignored)
        };
        let mut others = self.pods.iter().filter(|other| indexes::of(other) == Some(index));
        let is_last = others.all(|other| before(other) <= before(pod));
        pod::phase(pod) == "Failed" && is_last
    }

    /// Returns the failures of an index so far, and how long to wait before it is retried.
    fn failures_of(&self, index: i32) -> (IndexFailures, Option<Duration>) {
        let pods = self.pods.iter().filter(|pod| indexes::of(pod) == Some(index));
        let failed = pods.filter(|pod| failure::is_failed(self.job, pod));
        let last = failed.max_by_key(|pod| {
            let failures = IndexFailures::before(pod);
            failures.counted.saturating_add(failures.ignored)
        });
        let Some(last) = last else { return (IndexFailures::default(), None) };
        let mut failures = IndexFailures::before(last);
        match failure::judge(self.job, last) {
            Verdict::Ignore => failures.ignored = failures.ignored.saturating_add(1),
            _ => failures.counted = failures.counted.saturating_add(1),
        }
        let all = u32::try_from(failures.counted.saturating_add(failures.ignored)).unwrap_or(0);
        (failures, ended_at(last).and_then(|ended| self.delay_after(ended, all)))
    }

    fn scale(&mut self, plan: &mut Plan) {
        let active = self.active();
        // With the replacement policy `Failed`, a pod is replaced only after it has terminated.
        let leaving = match failure::only_replaces_failed(self.job) {
            true => self.pods.iter().filter(|pod| pod::is_terminating(pod)).count(),
            false => 0,
        };
        let open = i64::from(self.completions().unwrap_or(0))
            - self.done.len()
            - self.failed_indexes.as_ref().map_or(0, Indexes::len);
        let wanted = match (self.is_decided() || self.is_suspended(), self.completions()) {
            (true, _) => 0,
            (false, None) if self.succeeded() > 0 => active.len(),
            (false, None) => self.parallelism(),
            (false, Some(_)) if self.indexed => self.parallelism().min(usize::try_from(open).unwrap_or(0)),
            (false, Some(completions)) => self
                .parallelism()
                .min(usize::try_from(completions.saturating_sub(self.succeeded())).unwrap_or(0)),
        };
        if active.len() > wanted {
            let mut surplus = active.clone();
            surplus.sort_by(|a, b| (pod::is_ready(a), a.name()).cmp(&(pod::is_ready(b), b.name())));
            surplus.truncate(active.len() - wanted);
            plan.delete = surplus;
            plan.counts_deleted = self.is_decided();
        } else if active.len() + leaving < wanted && !self.job.is_deleting() {
            plan.retry = if self.failed_indexes.is_some() { None } else { self.backoff() };
            if plan.retry.is_none() {
                plan.create = (wanted - active.len() - leaving).min(BURST);
                if self.indexed {
                    plan.indexes = self.free_indexes(&active, plan.create);
                    plan.create = plan.indexes.len();
                    plan.retry = self.index_delay;
                }
            }
        }
        let remaining = active.len() - plan.delete.len();
        let running = i32::try_from(remaining + plan.create).unwrap_or(0);
        self.status.set("active", counts::nonzero(running));
        // A pod that is deleted now is not counted as ready: the API server refuses more ready pods than active ones.
        let goes = |pod: &Arc<Pod>| plan.delete.iter().any(|gone| Arc::ptr_eq(gone, pod));
        let ready = active.iter().filter(|pod| pod::is_ready(pod) && !goes(pod)).count();
        self.status.set("ready", i32::try_from(ready).unwrap_or(0));
        let terminating = self.pods.iter().filter(|pod| pod::is_terminating(pod)).count() + plan.delete.len();
        self.status.set("terminating", i32::try_from(terminating).unwrap_or(0));
    }

    fn completions(&self) -> Option<i32> {
        self.job.i32("spec/completions")
    }

    fn parallelism(&self) -> usize {
        usize::try_from(self.job.i32("spec/parallelism").unwrap_or(1)).unwrap_or(0)
    }

    /// Returns the indexes to create pods for. An index that must still wait is left out, and shortens the time until
    /// the next reconcile.
    fn free_indexes(&mut self, active: &[Arc<Pod>], count: usize) -> Vec<(i32, Option<IndexFailures>)> {
        let mut taken: BTreeSet<_> = active.iter().filter_map(|pod| indexes::of(pod)).collect();
        if failure::only_replaces_failed(self.job) {
            let leaving = self.pods.iter().filter(|pod| pod::is_terminating(pod));
            taken.extend(leaving.filter_map(|pod| indexes::of(pod)));
        }
        let mut ended = self.done.clone();
        ended.merge(self.failed_indexes.as_ref().unwrap_or(&Indexes::default()));
        let free = ended.missing(self.completions().unwrap_or(0)).filter(|index| !taken.contains(index));
        let Some(_) = &self.failed_indexes else {
            return free.map(|index| (index, None)).take(count).collect();
        };
        let mut found = Vec::new();
        let mut delay: Option<Duration> = None;
        for index in free {
            if found.len() == count {
                break;
            }
            match self.failures_of(index) {
                (_, Some(wait)) => delay = Some(delay.map_or(wait, |known| known.min(wait))),
                (failures, None) => found.push((index, Some(failures))),
            }
        }
        self.index_delay = delay;
        found
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
        self.delay_after(ended, failures)
    }

    /// Returns how long to wait after this many failures, the last of which was at `ended`.
    fn delay_after(&self, ended: Timestamp, failures: u32) -> Option<Duration> {
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

/// Whether this controller manages the Job, or another one that `managedBy` names.
pub(super) fn is_ours(job: &Job) -> bool {
    job.str("spec/managedBy").is_none_or(|manager| manager == "kubernetes.io/job-controller")
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
