//! Jobs: pods that run to completion.

pub(crate) mod conditions;
mod failure;
mod indexes;
pub(crate) mod plan;

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Event, Index, Predicate, Request, Result, ResultExt};
use indexes::IndexFailures;
use plan::{Plan, TRACKING, is_tracked};

use crate::adoption::{self, claim};
use crate::clock::{self, Reminders};
use crate::controller_ref::{controller_of_kind, controller_reference};
use crate::kinds::{JOB, Job, POD, Pod};
use crate::object::{Object, OfKind, write_status};
use crate::pod_removal::delete_with_event;
use crate::{MANAGER, api_error, finalizer, pod_template};

/// How many Jobs are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of Jobs.
pub(crate) fn controller() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    Controller::new_with("job-controller", JOB.source(), reconcile)
        .owns_with(POD.source().index(adoption::orphans()))
        .stream("deadline", due)
        .field_manager(MANAGER)
        .event_source("job-controller")
        .max_concurrent(CONCURRENT)
        .state(reminders)
}

async fn reconcile(job: Arc<Job>, ctx: Ctx<Reminders>) -> Result<Action> {
    // Another controller manages the Job.
    if !plan::is_ours(&job) {
        return Ok(Action::await_change());
    }
    let Some(selector) = adoption::selector(&job) else { return Ok(Action::await_change()) };
    let pods = claim(&ctx, (&JOB, &job), &POD, &selector).await?;
    let plan = plan::plan(&job, &pods, clock::seconds(ctx.now()));
    // The status is written before the finalizers are removed, so that no finished pod is lost from the counts.
    write_status(&ctx, &JOB, &job, &plan.status).await.ignore_not_found()?;
    announce(&ctx, &job, &plan);
    for pod in &plan.release {
        finalizer::remove(&ctx, &POD, pod, TRACKING).await?;
    }
    for pod in &plan.delete {
        if !plan.counts_deleted {
            finalizer::remove(&ctx, &POD, pod, TRACKING).await?;
        }
        delete_with_event(&ctx, (&JOB, &job), pod).await?;
    }
    for number in 0..plan.create {
        if !create(&ctx, &job, plan.indexes.get(number).copied()).await? {
            break;
        }
    }
    ctx.state().set(ctx.request(), plan.deadline);
    Ok(plan.retry.map_or_else(Action::await_change, Action::requeue))
}

/// Records the event for a Job that has just completed, failed, been suspended or been resumed.
fn announce(ctx: &Ctx<Reminders>, job: &Job, plan: &Plan) {
    let suspended = |status| conditions::holding(status, "Suspended").is_some();
    match (suspended(job.at("status")), suspended(&plan.status)) {
        (false, true) => ctx.kind(&JOB).event(job, "Suspended", "Job suspended"),
        (true, false) => ctx.kind(&JOB).event(job, "Resumed", "Job resumed"),
        _ => {}
    }
    let before = conditions::finished(job.at("status"));
    let Some(ended) = conditions::finished(&plan.status).filter(|_| before.is_none()) else { return };
    if ended.is("type", "Complete") {
        let wanted = job.i32("spec/completions");
        if wanted.is_some_and(|wanted| plan.status.i32("succeeded").unwrap_or(0) > wanted) {
            let note = "Too many succeeded pods running after completion count reached";
            ctx.kind(&JOB).warning(job, "TooManySucceededPods", note);
        }
        ctx.kind(&JOB).event(job, "Completed", "Job completed");
    } else {
        let (reason, message) = (ended.str("reason"), ended.str("message"));
        ctx.kind(&JOB).warning(job, reason.unwrap_or_default(), message.unwrap_or_default());
    }
}

/// Creates one pod. Returns whether to go on with the next.
async fn create(
    ctx: &Ctx<Reminders>,
    job: &Job,
    index: Option<(i32, Option<IndexFailures>)>,
) -> Result<bool> {
    let owner = controller_reference(&JOB, job);
    let mut pod = pod_template::pod(job.at("spec/template"), job.in_namespace(), owner);
    pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
    if let Some((index, failures)) = index {
        indexes::give(&mut pod, job.name(), index);
        failures.into_iter().for_each(|failures| failures.give(&mut pod));
    }
    let jobs = ctx.kind(&JOB);
    match ctx.kind(&POD).create(pod).await {
        Ok(pod) => {
            jobs.event(job, "SuccessfulCreate", format!("Created pod: {}", pod.name()));
            Ok(true)
        }
        Err(error) if api_error::namespace_is_terminating(&error) => Ok(false),
        Err(error) => {
            jobs.warning(job, "FailedCreate", format!("Error creating: {}", api_error::message(&error)));
            Err(error.into())
        }
    }
}

/// The controller that removes the tracking finalizer from pods whose Job is gone.
pub(crate) fn orphans() -> Controller<Object> {
    let by_job = Index::new("job", |pod: &Pod| {
        let owner = controller_of_kind(&pod.metadata, &JOB).filter(|_| is_tracked(pod));
        owner.map(|owner| owner.uid.clone()).into_iter().collect()
    });
    Controller::new_with("job-orphans-controller", POD.source(), release_orphan)
        .filter(Predicate::new(|event: &Event<Pod>| is_tracked(event.object())))
        .watches_indexed_with(JOB.source(), by_job, |job: &Job| {
            job.metadata.uid.clone().into_iter().collect()
        })
        .field_manager(MANAGER)
}

async fn release_orphan(pod: Arc<Pod>, ctx: Ctx) -> Result<Action> {
    if !is_tracked(&pod) {
        return Ok(Action::await_change());
    }
    let owner = controller_of_kind(&pod.metadata, &JOB);
    if let Some(owner) = owner {
        let key = Request::new(pod.metadata.namespace.as_deref(), owner.name.as_str());
        let job = match ctx.kind(&JOB).get(&key)? {
            Some(job) => Some(job),
            // The cache may show the pod before its Job.
            None => ctx.kind(&JOB).fetch(&key).await?.map(Arc::new),
        };
        if job.is_some_and(|job| job.metadata.uid.as_ref() == Some(&owner.uid)) {
            return Ok(Action::await_change());
        }
    }
    finalizer::remove(&ctx, &POD, &pod, TRACKING).await?;
    Ok(Action::await_change())
}
