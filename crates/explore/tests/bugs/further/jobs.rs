//! Jobs that an operator starts: once for each resource, and once in ten minutes.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, prepare};

/// How long after a backup the next one is due, in seconds.
const PERIOD: i64 = 600;

fn job(name: &str) -> Job {
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "backup:1"}]}});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"template": template}})).unwrap()
}

/// Starts a Job of a generated name, and notes in the status that it did.
async fn generates(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    if ensemble.status.as_ref().is_none_or(|status| status.phase.is_none()) {
        let mut init = job("init");
        init.metadata.name = None;
        init.metadata.generate_name = Some("init-".into());
        ctx.create(init).await?;
        ctx.status(&ensemble, json!({"phase": "Initialized"})).await?;
    }
    Ok(Action::await_change())
}

async fn names(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.get_or_create(job(&format!("init-{}", ensemble.name_any()))).await?;
    ctx.status(&ensemble, json!({"phase": "Initialized"})).await?;
    Ok(Action::await_change())
}

/// Notes that the Job was started before it starts it.
async fn notes_first(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    if ensemble.status.as_ref().is_none_or(|status| status.phase.is_none()) {
        ctx.status(&ensemble, json!({"phase": "Initialized"})).await?;
        ctx.create(job("init")).await?;
    }
    Ok(Action::await_change())
}

async fn once(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

#[test]
fn a_job_that_is_started_twice_is_found() {
    crate::finds("job_twice", &[Oracle::SameEnd], |cluster| {
        once(cluster, || Controller::new("init", generates).owns::<Job>())
    });
}

#[test]
fn a_job_that_is_never_started_is_found() {
    crate::finds("job_never", &[Oracle::SameEnd], |cluster| {
        once(cluster, || Controller::new("init", notes_first).owns::<Job>())
    });
}

#[test]
fn a_job_of_a_fixed_name_passes() {
    crate::passes_shortly("job_once", |cluster| {
        once(cluster, || Controller::new("init", names).owns::<Job>())
    });
}

/// The newest period that has begun, and how long the next one is away.
fn period(ctx: &Ctx) -> (i64, Duration) {
    let now = ctx.now().as_second();
    (now / PERIOD, Duration::from_secs((PERIOD - now % PERIOD).unsigned_abs()))
}

/// Starts a backup in each period; one that was missed is not made up for.
async fn by_the_clock(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let (period, next) = period(&ctx);
    if ensemble.metadata.deletion_timestamp.is_none() {
        ctx.get_or_create(job(&format!("backup-{period}"))).await?;
    }
    Ok(Action::requeue(next))
}

/// Starts a backup some time after the last one that its status notes.
async fn forgets(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let now = ctx.now().as_second();
    let last = ensemble.status.as_ref().and_then(|status| status.replicas).map(i64::from);
    if last.is_none_or(|last| now - last >= PERIOD) {
        let mut backup = job("backup");
        backup.metadata.name = None;
        backup.metadata.generate_name = Some("backup-".into());
        ctx.create(backup).await?;
        ctx.status(&ensemble, json!({"replicas": now})).await?;
    }
    Ok(Action::requeue(Duration::from_secs(PERIOD.unsigned_abs())))
}

async fn hour(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    cluster.advance(Duration::from_secs(700)).await;
    cluster.settled().await;
    cluster.advance(Duration::from_secs(1_300)).await;
    cluster.settled().await;
    delete(&cluster).await
}

#[test]
fn a_backup_that_is_made_twice_is_found() {
    crate::finds("backup_twice", &[Oracle::SameEnd], |cluster| {
        hour(cluster, || Controller::new("backup", forgets).owns::<Job>())
    });
}

#[test]
fn backups_by_the_clock_pass() {
    crate::passes_shortly("backup_clock", |cluster| {
        hour(cluster, || Controller::new("backup", by_the_clock).owns::<Job>())
    });
}
