//! CronJobs: Jobs that run by a schedule.
//!
//! [`evenkeel_schema::cron`] parses the schedule, for validation and for this controller.

mod due;

use std::sync::Arc;

use due::{NeverFires, most_recent};
use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, ResultExt};
use evenkeel_schema::cron::{Schedule, time_zone};
use evenkeel_tree::{Tree, tree};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::params::DeleteParams;

use crate::clock::{self, Reminders};
use crate::controller_ref::controller_reference;
use crate::job::conditions;
use crate::kinds::{CRON_JOB, CronJob, JOB, Job};
use crate::object::{Fields, Object, OfKind, time, write_status};
use crate::{MANAGER, api_error};

/// The annotation of a Job with the time that it was scheduled for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The controller of CronJobs.
pub(crate) fn controller() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    Controller::new_with("cronjob-controller", CRON_JOB.source(), reconcile)
        .owns_with(JOB.source())
        .stream("schedule", due)
        .field_manager(MANAGER)
        .event_source("cronjob-controller")
        .max_concurrent(5)
        .state(reminders)
}

async fn reconcile(cron: Arc<CronJob>, ctx: Ctx<Reminders>) -> Result<Action> {
    if cron.is_deleting() {
        return Ok(Action::await_change());
    }
    let now = clock::seconds(ctx.now());
    let jobs = ctx.kind(&JOB).children()?;
    let mut status = status(&cron, &jobs);
    tell_about_jobs(&ctx, &cron, &jobs);
    clean_up(&ctx, &cron, &jobs).await?;
    if !cron.is_true("spec/suspend")
        && let Some((schedule, zone)) = schedule(&ctx, &cron)
    {
        run_due(&ctx, &cron, &jobs, (&schedule, &zone), &mut status, now).await?;
    }
    write_status(&ctx, &CRON_JOB, &cron, &status).await.ignore_not_found()?;
    Ok(Action::await_change())
}

/// Records the events about Jobs that have ended, are gone, or were not started by this controller.
fn tell_about_jobs(ctx: &Ctx<Reminders>, cron: &CronJob, jobs: &[Arc<Job>]) {
    let crons = ctx.kind(&CRON_JOB);
    let active = cron.list("status/active");
    let is_active = |job: &Job| active.iter().any(|it| it.str("uid") == job.metadata.uid.as_deref());
    for job in jobs {
        let name = job.name();
        match (conditions::finished(job.at("status")), is_active(job)) {
            (Some(condition), true) => {
                let condition = condition.str("type").unwrap_or_default();
                let note = format!("Saw completed job: {name}, condition: {condition}");
                crons.event(cron, "SawCompletedJob", note);
            }
            (None, false) if !job.is_deleting() => {
                let note = format!("Saw a job that the controller did not create or forgot: {name}");
                crons.warning(cron, "UnexpectedJob", note);
            }
            _ => {}
        }
    }
    let is_there = |it: &&Tree| jobs.iter().any(|job| it.str("uid") == job.metadata.uid.as_deref());
    for gone in active.iter().filter(|it| !is_there(it)) {
        let name = gone.str("name").unwrap_or_default();
        crons.event(cron, "MissingJob", format!("Active job went missing: {name}"));
    }
}

/// Parses the schedule and its time zone. If one is invalid, records an event and returns `None`.
fn schedule(ctx: &Ctx<Reminders>, cron: &CronJob) -> Option<(Schedule, TimeZone)> {
    let crons = ctx.kind(&CRON_JOB);
    let zone_name = cron.str("spec/timeZone");
    let zone = match zone_name.map(time_zone).transpose() {
        Ok(zone) => zone.unwrap_or(TimeZone::UTC),
        Err(error) => {
            let name = zone_name.unwrap_or_default();
            crons.warning(cron, "UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}"));
            return None;
        }
    };
    let text = cron.str("spec/schedule").unwrap_or_default();
    if text.contains("TZ") {
        let why = format!(
            "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        crons.warning(cron, "UnsupportedSchedule", why);
    }
    match Schedule::parse_in(text, zone.clone()) {
        Ok(schedule) => Some((schedule, zone)),
        Err(error) => {
            crons.warning(cron, "UnparseableSchedule", format!("unparseable schedule: {text:?} : {error}"));
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
    status: &mut Tree,
    now: Timestamp,
) -> Result<()> {
    let due = due(ctx, cron, schedule, now);
    // Schedules are upkeep: `settled()` does not wait for them. The reminder is set first, so that it is set even if a
    // request below fails.
    let last = due.or_else(|| last_run(cron)).unwrap_or(now);
    ctx.state().set(ctx.request(), due::wait(schedule, last, now));
    let Some(due) = due else { return Ok(()) };
    let crons = ctx.kind(&CRON_JOB);
    // A Job that a user created for this CronJob is not one of its active Jobs.
    let is_active =
        |job: &Job| status.list("active").iter().any(|it| it.str("uid") == job.metadata.uid.as_deref());
    let running: Vec<_> = jobs.iter().filter(|job| is_active(job)).collect();
    match cron.str("spec/concurrencyPolicy") {
        Some("Forbid") if !running.is_empty() => {
            crons.event(
                cron,
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            );
            return Ok(());
        }
        Some("Replace") => {
            for job in running.into_iter().filter(|job| !job.is_deleting()) {
                delete(ctx, cron, job).await?;
            }
        }
        _ => {}
    }
    match ctx.kind(&JOB).create(job(cron, due, zone)).await {
        Ok(job) => {
            crons.event(cron, "SuccessfulCreate", format!("Created job {}", job.name()));
            status.push("active", reference(&job));
        }
        // Created before a crash; the cache will show it.
        Err(error) if error.is_already_exists() => {}
        Err(error) if api_error::namespace_is_terminating(&error) => return Ok(()),
        Err(error) => {
            crons.warning(
                cron,
                "FailedCreate",
                format!("Error creating job: {}", api_error::message(&error)),
            );
            return Err(error.into());
        }
    }
    status.set("lastScheduleTime", time(due));
    Ok(())
}

/// Returns the time of the last Job, or the creation time if there was none.
fn last_run(cron: &CronJob) -> Option<Timestamp> {
    let created = || cron.metadata.creation_timestamp.as_ref().map(|time| time.0);
    cron.time("status/lastScheduleTime").or_else(created)
}

/// Returns the newest scheduled time that has passed and has no Job yet.
fn due(ctx: &Ctx<Reminders>, cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let crons = ctx.kind(&CRON_JOB);
    let mut earliest = last_run(cron)?;
    let deadline = cron.i64("spec/startingDeadlineSeconds").map(SignedDuration::from_secs);
    if let Some(oldest) = deadline.and_then(|deadline| now.checked_sub(deadline).ok()) {
        earliest = earliest.max(oldest);
    }
    match most_recent(schedule, earliest, now) {
        Ok(recent) => {
            if recent.due.is_some() && recent.many_missed {
                let why = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
                crons.warning(cron, "TooManyMissedTimes", why);
            }
            recent.due
        }
        Err(error @ NeverFires) => {
            let schedule = cron.str("spec/schedule").unwrap_or_default();
            let why = format!("invalid schedule: {schedule} : {error}");
            crons.warning(cron, "InvalidSchedule", why);
            None
        }
    }
}

/// Returns the Job for one scheduled time. The time is part of its name, so that there is at most one.
fn job(cron: &CronJob, due: Timestamp, zone: &TimeZone) -> Job {
    let template = cron.at("spec/jobTemplate");
    let mut annotations = template.text_map("metadata/annotations");
    annotations.insert(SCHEDULED.to_owned(), in_zone(due, zone));
    let metadata = ObjectMeta {
        name: Some(format!("{}-{}", cron.name(), due.as_second() / 60)),
        namespace: cron.metadata.namespace.clone(),
        labels: template.has("metadata/labels").then(|| template.text_map("metadata/labels")),
        annotations: Some(annotations),
        owner_references: Some(vec![controller_reference(&CRON_JOB, cron)]),
        ..ObjectMeta::default()
    };
    Job::new(metadata, tree!({"spec": template.at("spec")}))
}

/// Formats a time in a time zone, as RFC 3339.
fn in_zone(time: Timestamp, zone: &TimeZone) -> String {
    let zoned = time.to_zoned(zone.clone());
    let form = if zoned.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    zoned.strftime(form).to_string()
}

/// Computes the status from the Jobs.
fn status(cron: &CronJob, jobs: &[Arc<Job>]) -> Tree {
    let mut status = cron.at("status").clone();
    // An owned Job that a user created is not listed as active.
    let listed = |job: &Job| {
        let uid = job.metadata.uid.as_deref();
        cron.list("status/active").iter().any(|active| active.str("uid") == uid)
    };
    let by_us = |job: &Job| listed(job) || job.annotation(SCHEDULED).is_some();
    let active: Vec<_> =
        jobs.iter().filter(|job| !is_finished(job) && by_us(job)).map(|job| reference(job)).collect();
    let succeeded = jobs.iter().filter_map(|job| job.time("status/completionTime")).max();
    let last = cron.time("status/lastSuccessfulTime").max(succeeded);
    status.set("active", (!active.is_empty()).then_some(active));
    status.set("lastSuccessfulTime", last.map(time));
    status
}

fn reference(job: &Job) -> Tree {
    let metadata = &job.metadata;
    tree!({
        "apiVersion": "batch/v1", "kind": "Job", "namespace": metadata.namespace.clone(),
        "name": job.name(), "uid": metadata.uid.clone(), "resourceVersion": metadata.resource_version.clone(),
    })
}

fn is_finished(job: &Job) -> bool {
    conditions::finished(job.at("status")).is_some()
}

/// Deletes the oldest finished Jobs beyond the history limits.
async fn clean_up(ctx: &Ctx<Reminders>, cron: &CronJob, jobs: &[Arc<Job>]) -> Result<()> {
    let limits = [("Complete", "spec/successfulJobsHistoryLimit"), ("Failed", "spec/failedJobsHistoryLimit")];
    for (kind, limit) in limits {
        let Some(limit) = cron.i32(limit).and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let has_ended =
            |job: &&Arc<Job>| conditions::holding(job.at("status"), kind).is_some() && !job.is_deleting();
        let mut ended: Vec<_> = jobs.iter().filter(has_ended).collect();
        let age = |job: &Job| (job.time("status/startTime"), job.name().to_owned());
        ended.sort_by_key(|job| age(job));
        let surplus = ended.len().saturating_sub(limit);
        for job in ended.into_iter().take(surplus) {
            delete(ctx, cron, job).await?;
        }
    }
    Ok(())
}

/// Deletes a Job and its pods.
async fn delete(ctx: &Ctx<Reminders>, cron: &CronJob, job: &Job) -> Result<()> {
    let crons = ctx.kind(&CRON_JOB);
    match ctx.kind(&JOB).delete_with(&Request::of(job), &DeleteParams::background()).await {
        Ok(_) => {
            crons.event(cron, "SuccessfulDelete", format!("Deleted job {}", job.name()));
            Ok(())
        }
        Err(error) => {
            crons.warning(cron, "FailedDelete", format!("Deleted job: {}", api_error::message(&error)));
            Err(error.into())
        }
    }
}
