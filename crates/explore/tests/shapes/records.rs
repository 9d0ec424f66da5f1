//! What operators note about their children: names by content, generations, revisions, and Jobs that ran once.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::Patch;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, prepare};
use crate::{map, secret};

fn deployment(ensemble: &Ensemble, note: &str) -> Deployment {
    let labels = json!({"app": "web"});
    let template = json!({
        "metadata": {"labels": labels, "annotations": {"note": note}},
        "spec": {"containers": [{"name": "main", "image": format!("web:{}", ensemble.spec.config)}]},
    });
    let spec = json!({"replicas": ensemble.spec.replicas, "selector": {"matchLabels": labels}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
}

/// Runs a Job for each generation of the spec before it rolls out.
async fn migrates(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let name = format!("migrate-{}", ensemble.spec.config);
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "migrate:1"}]}});
    let job: Job =
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"template": template}})).unwrap();
    let job = ctx.get_or_create(job).await?;
    if job.status.and_then(|status| status.succeeded).unwrap_or_default() > 0 {
        ctx.apply(deployment(&ensemble, "")).await?;
        ctx.status(&ensemble, json!({"phase": ensemble.spec.config})).await?;
    }
    Ok(Action::await_change())
}

/// Rolls out although the Job of an earlier generation is the one that has succeeded.
async fn migrates_once(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let done = ctx
        .children::<Job>()?
        .iter()
        .any(|job| job.status.as_ref().and_then(|status| status.succeeded).unwrap_or_default() > 0);
    if !done
        || ensemble
            .status
            .as_ref()
            .and_then(|status| status.phase.clone())
            .is_some_and(|it| it != ensemble.spec.config)
    {
        let name = format!("migrate-{}", ensemble.spec.config);
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "migrate:1"}]}});
        let job: Job =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"template": template}}))
                .unwrap();
        // What has been noted is not looked at again.
        ctx.status(&ensemble, json!({"phase": ensemble.spec.config})).await?;
        ctx.get_or_create(job).await?;
    }
    if done {
        ctx.apply(deployment(&ensemble, "")).await?;
    }
    Ok(Action::await_change())
}

async fn life(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    change(&cluster, json!({"config": "three"})).await?;
    delete(&cluster).await
}

#[test]
fn a_job_for_each_version_passes() {
    crate::passes("migrates", |cluster| {
        life(cluster, || Controller::new("migrates", migrates).owns::<Job>().owns::<Deployment>())
    });
}

#[test]
fn a_job_that_is_noted_first_is_found() {
    crate::finds("migrates_once", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("migrates", migrates_once).owns::<Job>().owns::<Deployment>())
    });
}

/// Notes the generation of its child, and its revision in the child's own template.
async fn notes(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let key = ctx.apply(secret("key", &ensemble.spec.config)).await?;
    let version = key.metadata.resource_version.unwrap_or_default();
    let child = ctx.apply(deployment(&ensemble, &version)).await?;
    let patch = json!({"metadata": {"annotations": {"deploymentGeneration": child.metadata.generation.unwrap_or_default().to_string()}}});
    let noted = ensemble.annotations().get("deploymentGeneration").cloned();
    if noted != child.metadata.generation.map(|it| it.to_string()) {
        ctx.patch(&*ensemble, &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

#[test]
fn a_generation_of_a_child_passes() {
    crate::passes("notes_generation", |cluster| {
        life(cluster, || Controller::new("notes", notes).owns::<Secret>().owns::<Deployment>())
    });
}

/// An immutable configuration for each content, of which the one in use is kept.
async fn by_content(ensemble: Arc<Ensemble>, ctx: Ctx, prunes: bool) -> Result<Action> {
    let name = format!("config-{}", ensemble.spec.config);
    let mut config = map(&name, &ensemble.spec.config);
    config.immutable = Some(true);
    ctx.get_or_create(config).await?;
    ctx.apply(deployment(&ensemble, &name)).await?;
    if prunes {
        ctx.prune(&[&name], |_: &ConfigMap| true).await?;
    }
    Ok(Action::await_change())
}

async fn prunes(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    by_content(ensemble, ctx, true).await
}

#[test]
fn a_configuration_for_each_content_passes() {
    crate::passes("by_content", |cluster| {
        life(cluster, || Controller::new("content", prunes).owns::<ConfigMap>().owns::<Deployment>())
    });
}
