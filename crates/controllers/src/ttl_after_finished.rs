//! Deletes finished Jobs when their time to live is over.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Result};
use jiff::Timestamp;
use kube::core::params::{DeleteParams, Preconditions};

use crate::MANAGER;
use crate::clock::{self, Reminders};
use crate::job::conditions;
use crate::kinds::{JOB, Job};
use crate::object::{Fields, Object, OfKind};

/// The controller that deletes finished Jobs.
pub(crate) fn controller() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    Controller::new_with("ttl-after-finished-controller", JOB.source(), reconcile)
        .stream("lifetime", due)
        .field_manager(MANAGER)
        .state(reminders)
}

async fn reconcile(job: Arc<Job>, ctx: Ctx<Reminders>) -> Result<Action> {
    let Some(end) = end(&job).filter(|_| !job.is_deleting()) else {
        return Ok(Action::await_change());
    };
    let left = Duration::try_from(end.duration_since(clock::seconds(ctx.now()))).unwrap_or(Duration::ZERO);
    if !left.is_zero() {
        ctx.state().set(ctx.request(), Some(left));
        return Ok(Action::await_change());
    }
    let (uid, resource_version) = (job.metadata.uid.clone(), job.metadata.resource_version.clone());
    let params = DeleteParams::foreground().preconditions(Preconditions { uid, resource_version });
    ctx.kind(&JOB).delete_with(ctx.request(), &params).await?;
    Ok(Action::await_change())
}

/// Returns when the time to live is over; `None` if the Job has not finished or has no time to live.
fn end(job: &Job) -> Option<Timestamp> {
    let seconds = job.i64("spec/ttlSecondsAfterFinished")?;
    let finished = conditions::finished(job.at("status"))?;
    Some(clock::after(finished.time("lastTransitionTime")?, seconds))
}
