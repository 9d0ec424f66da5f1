//! CronJobs: Jobs by the clock.
//!
//! Schedules are read in UTC; a `timeZone` other than UTC is reported by an event and the job is not run, since no
//! time zone data is at hand.

mod schedule;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Context, Controller, Result, ResultExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt;
use kube::core::params::DeleteParams;
use schedule::Schedule;

use crate::claim::controller_reference;
use crate::clock::{self, Reminders};
use crate::optional::HasSpec as _;
use crate::{MANAGER, refusal};

/// On a Job: the time that it was scheduled for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// How many missed times are looked through before the rest is given up: the number of Kubernetes.
const MISSED_MAX: usize = 100;

/// The controller.
pub(crate) fn controller() -> Controller<CronJob> {
    let (reminders, due) = Reminders::channel();
    Controller::new("cronjob-controller", reconcile)
        .owns::<Job>()
        .stream("schedule", due)
        .field_manager(MANAGER)
        .max_concurrent(5)
        .state(reminders)
}

async fn reconcile(cron: Arc<CronJob>, ctx: Context<Reminders>) -> Result<Action> {
    let Some(spec) = cron.spec().filter(|_| cron.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::done());
    };
    let now = clock::seconds(ctx.now());
    let jobs = ctx.children::<Job>()?;
    let mut status = status(&cron, &jobs);
    clean_up(&ctx, &cron, &jobs).await?;
    if spec.suspend != Some(true) {
        match (Schedule::parse(&spec.schedule), spec.time_zone.as_deref()) {
            (Some(schedule), None | Some("UTC" | "Etc/UTC")) => {
                run_due(&ctx, &cron, &jobs, &schedule, &mut status, now).await?
            }
            (None, _) => ctx.warning(
                &*cron,
                "UnparseableSchedule",
                format!("unparseable schedule: {:?}", spec.schedule),
            ),
            (_, Some(zone)) => ctx.warning(&*cron, "UnknownTimeZone", format!("invalid timeZone: {zone:?}")),
        }
    }
    ctx.status(&*cron, status).await.ignore_not_found()?;
    Ok(Action::done())
}

/// Starts a Job where one is due, and sets the clock for the next.
async fn run_due(
    ctx: &Context<Reminders>,
    cron: &CronJob,
    jobs: &[Arc<Job>],
    schedule: &Schedule,
    status: &mut CronJobStatus,
    now: Timestamp,
) -> Result<()> {
    let due = due(cron, schedule, now);
    // Upkeep: nobody waits for a schedule. It is set first, so that a failure below is tried again by its own backoff.
    let wait = schedule.next(now).and_then(|next| Duration::try_from(next.duration_since(now)).ok());
    ctx.state().set(ctx.request(), wait);
    let Some(due) = due else { return Ok(()) };
    let running: Vec<_> =
        jobs.iter().filter(|job| !is_finished(job) && job.metadata.deletion_timestamp.is_none()).collect();
    match cron.spec().and_then(|spec| spec.concurrency_policy.as_deref()) {
        Some("Forbid") if !running.is_empty() => {
            ctx.event(
                cron,
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            );
            return Ok(());
        }
        Some("Replace") => {
            for job in running {
                ctx.delete(&**job).await?;
                ctx.event(cron, "SuccessfulDelete", format!("Deleted job {}", job.name_any()));
            }
        }
        _ => {}
    }
    match ctx.create(job(cron, due)).await {
        Ok(job) => {
            ctx.event(cron, "SuccessfulCreate", format!("Created job {}", job.name_any()));
            let reference = reference(&job);
            status.active.get_or_insert_default().push(reference);
        }
        // Made before a crash: the cache will show it.
        Err(error) if error.is_already_exists() => {}
        Err(error) if refusal::namespace_is_terminating(&error) => return Ok(()),
        Err(error) => {
            ctx.warning(cron, "FailedCreate", format!("Error creating job: {}", refusal::message(&error)));
            return Err(error.into());
        }
    }
    status.last_schedule_time = Some(Time(due));
    Ok(())
}

/// The newest time that has come and was not yet served.
fn due(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let spec = cron.spec()?;
    let served = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let mut last = served.or(cron.metadata.creation_timestamp.as_ref())?.0;
    if let Some(seconds) = spec.starting_deadline_seconds {
        last = last.max(now - SignedDuration::from_secs(seconds));
    }
    let mut newest = None;
    for _ in 0..MISSED_MAX {
        match schedule.next(last).filter(|next| *next <= now) {
            Some(next) => (newest, last) = (Some(next), next),
            None => return newest,
        }
    }
    // Too many were missed to go through them all: the newest is looked for backwards from now.
    let hours = [1, 24, 31 * 24, 366 * 24];
    let window = hours.into_iter().map(|hours| now - SignedDuration::from_hours(hours));
    let start = window
        .map(|from| from.max(last))
        .find(|from| schedule.next(*from).is_some_and(|next| next <= now))?;
    std::iter::successors(schedule.next(start), |at| schedule.next(*at)).take_while(|at| *at <= now).last()
}

/// The Job of one time; its name is made of the time, so that there is at most one.
fn job(cron: &CronJob, due: Timestamp) -> Job {
    let template = cron.spec().map(|spec| spec.job_template.clone()).unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), due.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", cron.name_any(), due.as_second() / 60)),
            namespace: cron.namespace(),
            labels: metadata.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// The status that the Jobs give.
fn status(cron: &CronJob, jobs: &[Arc<Job>]) -> CronJobStatus {
    let mut status = cron.status.clone().unwrap_or_default();
    // A Job that was made by hand is not among the active ones, though it is owned.
    let listed = |job: &Job| status.active.iter().flatten().any(|active| active.uid == job.uid());
    let by_us = |job: &Job| listed(job) || job.annotations().contains_key(SCHEDULED);
    let active: Vec<_> =
        jobs.iter().filter(|job| !is_finished(job) && by_us(job)).map(|job| reference(job)).collect();
    let succeeded = jobs.iter().filter_map(|job| job.status.as_ref()?.completion_time.clone()).max();
    status.active = Some(active).filter(|active| !active.is_empty());
    status.last_successful_time = status.last_successful_time.max(succeeded);
    status
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        namespace: job.namespace(),
        name: Some(job.name_any()),
        uid: job.uid(),
        resource_version: job.resource_version(),
        field_path: None,
    }
}

fn has(job: &Job, kind: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == kind && one.status == "True"))
}

fn is_finished(job: &Job) -> bool {
    has(job, "Complete") || has(job, "Failed")
}

/// Deletes the oldest Jobs that have finished, beyond what is to be kept.
async fn clean_up(ctx: &Context<Reminders>, cron: &CronJob, jobs: &[Arc<Job>]) -> Result<()> {
    let Some(spec) = cron.spec() else { return Ok(()) };
    for (kind, limit) in
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)]
    {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let mut ended: Vec<_> =
            jobs.iter().filter(|job| has(job, kind) && job.metadata.deletion_timestamp.is_none()).collect();
        ended.sort_by_key(|job| {
            (job.status.as_ref().and_then(|status| status.start_time.clone()), job.name_any())
        });
        let surplus = ended.len().saturating_sub(limit);
        for job in ended.into_iter().take(surplus) {
            ctx.delete_with(&**job, &DeleteParams::background()).await?;
            ctx.event(cron, "SuccessfulDelete", format!("Deleted job {}", job.name_any()));
        }
    }
    Ok(())
}
