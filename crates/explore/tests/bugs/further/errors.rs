//! Answers that are handled wrongly: an error that is swallowed, and a creation that is repeated under another name.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, prepare};

fn map(ensemble: &Ensemble) -> ConfigMap {
    let data = BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some("config".into());
    map
}

/// Takes a conflict for a sign that somebody else has done the work.
async fn swallows(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    match ctx.apply(map(&ensemble)).await {
        Err(error) if error.is_conflict() => {}
        other => drop(other?),
    }
    Ok(Action::await_change())
}

async fn retries(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(map(&ensemble)).await?;
    Ok(Action::await_change())
}

async fn applied(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || match is_fixed {
        true => Controller::new("conflict", retries).owns::<ConfigMap>(),
        false => Controller::new("conflict", swallows).owns::<ConfigMap>(),
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await
}

#[test]
fn a_conflict_that_is_swallowed_is_found() {
    crate::finds("swallows", &[Oracle::SameEnd], |cluster| applied(cluster, false));
}

#[test]
fn a_conflict_that_is_retried_passes() {
    crate::passes("retries", |cluster| applied(cluster, true));
}

/// Creates a child of a generated name where it sees none.
async fn generates(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    if ctx.children::<ConfigMap>()?.is_empty() {
        let mut child = map(&ensemble);
        child.metadata.name = None;
        child.metadata.generate_name = Some("config-".into());
        ctx.create(child).await?;
    }
    ctx.status(&ensemble, json!({"phase": "Running"})).await?;
    Ok(Action::await_change())
}

/// Creates a child of a name that follows from its owner.
async fn names(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let mut child = map(&ensemble);
    child.metadata.name = Some(format!("config-{}", ensemble.name_any()));
    ctx.get_or_create(child).await?;
    ctx.status(&ensemble, json!({"phase": "Running"})).await?;
    Ok(Action::await_change())
}

async fn named(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || match is_fixed {
        true => Controller::new("named", names).owns::<ConfigMap>(),
        false => Controller::new("named", generates).owns::<ConfigMap>(),
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"replicas": 2})).await
}

#[test]
fn a_second_child_of_a_generated_name_is_found() {
    crate::finds("generates", &[Oracle::SameEnd], |cluster| named(cluster, false));
}

#[test]
fn a_child_of_a_fixed_name_passes() {
    crate::passes("names", |cluster| named(cluster, true));
}
