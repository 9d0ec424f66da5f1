//! CronJobs: Jobs that run by a schedule.
//!
//! [`evenkeel_schema::cron`] parses the schedule, for validation and for this controller.

mod due;

use std::sync::Arc;

use due::{NeverFires, most_recent};
use evenkeel_runtime::{Action, Controller, Ctx, Result, ResultExt};
use evenkeel_schema::cron::{Schedule, time_zone};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt;
use kube::core::params::DeleteParams;

use crate::clock::{self, Reminders};
use crate::controller_ref::controller_reference;
use crate::job::conditions;
use crate::openapi_compat::HasSpec as _;
use crate::{MANAGER, api_error};

/// The annotation of a Job with the time that it was scheduled for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The controller of CronJobs.
pub(crate) fn controller() -> Controller<CronJob> {
    let (reminders, due) = Reminders::channel();
    Controller::new("cronjob-controller", reconcile)
        .owns::<Job>()
        .stream("schedule", due)
        .field_manager(MANAGER)
        .max_concurrent(5)
        .state(reminders)
}

async fn reconcile(cron: Arc<CronJob>, ctx: Ctx<Reminders>) -> Result<Action> {
    let Some(spec) = cron.spec().filter(|_| cron.metadata.deletion_timestamp.is_none()) else {
        return Ok(Action::await_change());
    };
    let now = clock::seconds(ctx.now());
    let jobs = ctx.children::<Job>()?;
    let mut status = status(&cron, &jobs);
    clean_up(&ctx, &cron, &jobs).await?;
    if spec.suspend != Some(true)
        && let Some((schedule, zone)) = schedule(&ctx, &cron)
    {
        run_due(&ctx, &cron, &jobs, (&schedule, &zone), &mut status, now).await?;
    }
    ctx.status(&cron, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

/// Parses the schedule and its time zone. If one is invalid, records an event and returns `None`.
fn schedule(ctx: &Ctx<Reminders>, cron: &CronJob) -> Option<(Schedule, TimeZone)> {
    let spec = cron.spec()?;
    let zone = match spec.time_zone.as_deref().map(time_zone).transpose() {
        Ok(zone) => zone.unwrap_or(TimeZone::UTC),
        Err(error) => {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            ctx.warning(cron, "UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}"));
            return None;
        }
    };
    let text = &spec.schedule;
    if text.contains("TZ") {
        let why = format!(
            "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        ctx.warning(cron, "UnsupportedSchedule", why);
    }
    match Schedule::parse_in(text, zone.clone()) {
        Ok(schedule) => Some((schedule, zone)),
        Err(error) => {
            ctx.warning(cron, "UnparseableSchedule", format!("unparseable schedule: {text:?} : {error}"));
            None
        }
    }
}

/// Starts a Job if one is due, and sets the reminder for the next one.
async fn run_due(
    ctx: &Ctx<Reminders>,
    cron: &CronJob,
    jobs: &[Arc<Job>],
    (schedule, zone): (&Schedule, &TimeZone),
    status: &mut CronJobStatus,
    now: Timestamp,
) -> Result<()> {
    let due = due(ctx, cron, schedule, now);
    // Schedules are upkeep: `settled()` does not wait for them. The reminder is set first, so that it is set even if a
    // request below fails.
    let last = due.or_else(|| last_run(cron)).unwrap_or(now);
    ctx.state().set(ctx.request(), due::wait(schedule, last, now));
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
                ctx.delete(job).await?;
                ctx.event(cron, "SuccessfulDelete", format!("Deleted job {}", job.name_any()));
            }
        }
        _ => {}
    }
    match ctx.create(job(cron, due, zone)).await {
        Ok(job) => {
            ctx.event(cron, "SuccessfulCreate", format!("Created job {}", job.name_any()));
            let reference = reference(&job);
            status.active.get_or_insert_default().push(reference);
        }
        // Created before a crash; the cache will show it.
        Err(error) if error.is_already_exists() => {}
        Err(error) if api_error::namespace_is_terminating(&error) => return Ok(()),
        Err(error) => {
            ctx.warning(cron, "FailedCreate", format!("Error creating job: {}", api_error::message(&error)));
            return Err(error.into());
        }
    }
    status.last_schedule_time = Some(Time(due));
    Ok(())
}

/// Returns the time of the last Job, or the creation time if there was none.
fn last_run(cron: &CronJob) -> Option<Timestamp> {
    let served = cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    served.or(cron.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

/// Returns the newest scheduled time that has passed and has no Job yet.
fn due(ctx: &Ctx<Reminders>, cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let spec = cron.spec()?;
    let mut earliest = last_run(cron)?;
    let deadline = spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    if let Some(oldest) = deadline.and_then(|deadline| now.checked_sub(deadline).ok()) {
        earliest = earliest.max(oldest);
    }
    match most_recent(schedule, earliest, now) {
        Ok(recent) => {
            if recent.due.is_some() && recent.many_missed {
                let why = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
                ctx.warning(cron, "TooManyMissedTimes", why);
            }
            recent.due
        }
        Err(error @ NeverFires) => {
            let why = format!("invalid schedule: {} : {error}", spec.schedule);
            ctx.warning(cron, "InvalidSchedule", why);
            None
        }
    }
}

/// Returns the Job for one scheduled time. The time is part of its name, so that there is at most one.
fn job(cron: &CronJob, due: Timestamp, zone: &TimeZone) -> Job {
    let template = cron.spec().map(|spec| spec.job_template.clone()).unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), in_zone(due, zone));
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

/// Formats a time in a time zone, as RFC 3339.
fn in_zone(time: Timestamp, zone: &TimeZone) -> String {
    let zoned = time.to_zoned(zone.clone());
    let form = if zoned.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    zoned.strftime(form).to_string()
}

/// Computes the status from the Jobs.
fn status(cron: &CronJob, jobs: &[Arc<Job>]) -> CronJobStatus {
    let mut status = cron.status.clone().unwrap_or_default();
    // An owned Job that a user created is not listed as active.
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

fn ended_with(job: &Job, kind: &str) -> bool {
    job.status.as_ref().and_then(|status| conditions::holding(status, kind)).is_some()
}

fn is_finished(job: &Job) -> bool {
    job.status.as_ref().and_then(conditions::finished).is_some()
}

/// Deletes the oldest finished Jobs beyond the history limits.
async fn clean_up(ctx: &Ctx<Reminders>, cron: &CronJob, jobs: &[Arc<Job>]) -> Result<()> {
    let Some(spec) = cron.spec() else { return Ok(()) };
    for (kind, limit) in
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)]
    {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let mut ended: Vec<_> = jobs
            .iter()
            .filter(|job| ended_with(job, kind) && job.metadata.deletion_timestamp.is_none())
            .collect();
        ended.sort_by_key(|job| {
            (job.status.as_ref().and_then(|status| status.start_time.clone()), job.name_any())
        });
        let surplus = ended.len().saturating_sub(limit);
        for job in ended.into_iter().take(surplus) {
            ctx.delete_with(job, &DeleteParams::background()).await?;
            ctx.event(cron, "SuccessfulDelete", format!("Deleted job {}", job.name_any()));
        }
    }
    Ok(())
}
