//! Jobs: pods that run to completion.
//!
//! Not implemented: `podFailurePolicy`, `successPolicy` and `backoffLimitPerIndex`.

pub(crate) mod conditions;
mod indexes;
pub(crate) mod plan;

use std::sync::Arc;

use evenkeel_runtime::{
    Action, Controller, Ctx, Event, Index, Predicate, Request, Result, ResultExt, Source,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use plan::{Plan, TRACKING, is_tracked};

use crate::adoption::{self, claim};
use crate::clock::{self, Reminders};
use crate::controller_ref::{controller_of, controller_reference};
use crate::{MANAGER, api_error, finalizer, pod_template};

/// How many Jobs are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of Jobs.
pub(crate) fn controller() -> Controller<Job> {
    let (reminders, due) = Reminders::channel();
    Controller::new("job-controller", reconcile)
        .owns_with(Source::<Pod>::new().index(adoption::orphans()))
        .stream("deadline", due)
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
        .state(reminders)
}

async fn reconcile(job: Arc<Job>, ctx: Ctx<Reminders>) -> Result<Action> {
    let Some(selector) = job.spec.as_ref().and_then(|spec| spec.selector.clone()) else {
        return Ok(Action::await_change());
    };
    let pods: Vec<Arc<Pod>> = claim(&ctx, &*job, &selector).await?;
    let plan = plan::plan(&job, &pods, clock::seconds(ctx.now()));
    // The status is written before the finalizers are removed, so that no finished pod is lost from the counts.
    ctx.status(&job, &plan.status).await.ignore_not_found()?;
    announce(&ctx, &job, &plan);
    for pod in &plan.release {
        finalizer::remove(&ctx, &**pod, TRACKING).await?;
    }
    for pod in &plan.delete {
        ctx.delete(pod).await?;
        ctx.event(&job, "SuccessfulDelete", format!("Deleted pod: {}", pod.name_any()));
    }
    for number in 0..plan.create {
        if !create(&ctx, &job, plan.indexes.get(number).copied()).await? {
            break;
        }
    }
    ctx.state().set(ctx.request(), plan.deadline);
    Ok(plan.retry.map_or_else(Action::await_change, Action::requeue))
}

/// Records the event for a Job that has just completed or failed.
fn announce(ctx: &Ctx<Reminders>, job: &Job, plan: &Plan) {
    let before = job.status.as_ref().and_then(conditions::finished);
    let Some(ended) = conditions::finished(&plan.status).filter(|_| before.is_none()) else { return };
    if ended.type_ == "Complete" {
        ctx.event(job, "Completed", "Job completed");
    } else {
        let reason = ended.reason.as_deref().unwrap_or_default();
        ctx.warning(job, reason, ended.message.clone().unwrap_or_default());
    }
}

/// Creates one pod. Returns whether to go on with the next.
async fn create(ctx: &Ctx<Reminders>, job: &Job, index: Option<i32>) -> Result<bool> {
    let spec = job.spec.clone().unwrap_or_default();
    let namespace = job.namespace().unwrap_or_default();
    let mut pod = pod_template::pod(&spec.template, &namespace, controller_reference(job));
    pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
    if let Some(index) = index {
        indexes::give(&mut pod, &job.name_any(), index);
    }
    match ctx.create(pod).await {
        Ok(pod) => {
            ctx.event(job, "SuccessfulCreate", format!("Created pod: {}", pod.name_any()));
            Ok(true)
        }
        Err(error) if api_error::namespace_is_terminating(&error) => Ok(false),
        Err(error) => {
            ctx.warning(job, "FailedCreate", format!("Error creating: {}", api_error::message(&error)));
            Err(error.into())
        }
    }
}

/// The controller that removes the tracking finalizer from pods whose Job is gone.
pub(crate) fn orphans() -> Controller<Pod> {
    let by_job = Index::new("job", |pod: &Pod| {
        let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == "Job" && is_tracked(pod));
        owner.map(|owner| owner.uid.clone()).into_iter().collect()
    });
    Controller::new("job-orphans-controller", release_orphan)
        .filter(Predicate::new(|event: &Event<Pod>| is_tracked(event.object())))
        .watches_indexed(by_job, |job: &Job| job.uid().into_iter().collect())
        .field_manager(MANAGER)
}

async fn release_orphan(pod: Arc<Pod>, ctx: Ctx) -> Result<Action> {
    if !is_tracked(&pod) {
        return Ok(Action::await_change());
    }
    let owner = controller_of(&pod.metadata).filter(|owner| owner.kind == "Job");
    if let Some(owner) = owner {
        let key = Request::new(pod.namespace().as_deref(), owner.name.as_str());
        let job = ctx.get_at::<Job>(&key)?.map(|job| Job::clone(&job));
        let job = match job {
            Some(job) => Some(job),
            // The cache may show the pod before its Job.
            None => ctx.fetch_at::<Job>(&key).await?,
        };
        if job.is_some_and(|job| job.uid().as_ref() == Some(&owner.uid)) {
            return Ok(Action::await_change());
        }
    }
    finalizer::remove(&ctx, &*pod, TRACKING).await?;
    Ok(Action::await_change())
}
