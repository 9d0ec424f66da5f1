//! Deletes finished Jobs when their time to live is over.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Result};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::core::params::{DeleteParams, Preconditions};

use crate::MANAGER;
use crate::clock::{self, Reminders};
use crate::job::conditions;

/// The controller that deletes finished Jobs.
pub(crate) fn controller() -> Controller<Job> {
    let (reminders, due) = Reminders::channel();
    Controller::new("ttl-after-finished-controller", reconcile)
        .stream("lifetime", due)
        .field_manager(MANAGER)
        .state(reminders)
}

async fn reconcile(job: Arc<Job>, ctx: Ctx<Reminders>) -> Result<Action> {
    let Some(end) = end(&job).filter(|_| job.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    let left = Duration::try_from(end.duration_since(clock::seconds(ctx.now()))).unwrap_or(Duration::ZERO);
    if !left.is_zero() {
        ctx.state().set(ctx.request(), Some(left));
        return Ok(Action::await_change());
    }
    let preconditions = Preconditions { uid: job.uid(), resource_version: job.resource_version() };
    ctx.delete_with(&job, &DeleteParams::foreground().preconditions(preconditions)).await?;
    Ok(Action::await_change())
}

/// Returns when the time to live is over; `None` if the Job has not finished or has no time to live.
fn end(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let finished = conditions::finished(job.status.as_ref()?)?;
    Some(clock::after(finished.last_transition_time.as_ref()?.0, i64::from(seconds)))
}
