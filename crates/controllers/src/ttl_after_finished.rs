//! Deletes finished Jobs when their time to live is over.

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Result};
use jiff::Timestamp;
use kube::core::params::DeleteParams;

use crate::MANAGER;
use crate::clock::{self, Reminders};
use crate::expiration;
use crate::job::conditions;
use crate::kinds::{JOB, Job};
use crate::object::{Fields, Object};

/// The controller that deletes finished Jobs.
pub(crate) fn controller() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    Controller::new_with("ttl-after-finished-controller", JOB.source(), reconcile)
        .stream("lifetime", due)
        .field_manager(MANAGER)
        .state(reminders)
}

async fn reconcile(job: Arc<Job>, ctx: Ctx<Reminders>) -> Result<Action> {
    expiration::delete_at(&ctx, (&JOB, &job), end(&job), DeleteParams::foreground()).await
}

/// Returns when the time to live is over; `None` if the Job has not finished or has no time to live.
fn end(job: &Job) -> Option<Timestamp> {
    let seconds = job.i64("spec/ttlSecondsAfterFinished")?;
    let finished = conditions::finished(job.at("status"))?;
    Some(clock::after(finished.time("lastTransitionTime")?, seconds))
}
