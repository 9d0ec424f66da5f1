//! What an operator remembers and should not: progress in memory, and a generation that is noted before the work is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, prepare};

fn map(ensemble: &Ensemble, name: &str) -> ConfigMap {
    let data = BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = ensemble.namespace();
    map
}

/// The upgrades that have begun, in the memory of the process.
type Begun = Mutex<BTreeSet<String>>;

/// Upgrades in two reconciles: the first writes the configuration and remembers that the second has to restart the servers.
async fn upgrade(ensemble: Arc<Ensemble>, ctx: Ctx<Begun>) -> Result<Action> {
    let config = ctx.get::<ConfigMap>("config")?;
    if config.as_ref().is_none_or(|config| config.data != map(&ensemble, "").data) {
        ctx.state().lock().insert(ensemble.name_any());
        ctx.apply(map(&ensemble, "config")).await?;
        return Ok(Action::await_change());
    }
    if ctx.state().lock().contains(&ensemble.name_any()) {
        ctx.apply(map(&ensemble, "restarted")).await?;
        ctx.state().lock().remove(&ensemble.name_any());
    }
    Ok(Action::await_change())
}

async fn upgrade_by_what_is_there(ensemble: Arc<Ensemble>, ctx: Ctx<Begun>) -> Result<Action> {
    ctx.apply(map(&ensemble, "config")).await?;
    ctx.apply(map(&ensemble, "restarted")).await?;
    Ok(Action::await_change())
}

async fn upgraded(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || {
        let controller = match is_fixed {
            true => Controller::new("upgrade", upgrade_by_what_is_there),
            false => Controller::new("upgrade", upgrade),
        };
        controller.owns::<ConfigMap>().state(Begun::default())
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await
}

#[test]
fn progress_that_is_kept_in_memory_is_found() {
    crate::finds("in_memory", &[Oracle::SameEnd], |cluster| upgraded(cluster, false));
}

#[test]
fn progress_that_is_read_from_the_world_passes() {
    crate::passes("in_the_world", |cluster| upgraded(cluster, true));
}

/// Notes the generation, and then does the work; what has been noted is not looked at again.
async fn notes_first(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let generation = ensemble.metadata.generation;
    if ensemble.status.as_ref().is_some_and(|status| status.observed_generation == generation) {
        return Ok(Action::await_change());
    }
    ctx.status(&ensemble, json!({"observedGeneration": generation})).await?;
    ctx.apply(map(&ensemble, "config")).await?;
    Ok(Action::await_change())
}

async fn notes_last(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(map(&ensemble, "config")).await?;
    ctx.status(&ensemble, json!({"observedGeneration": ensemble.metadata.generation})).await?;
    Ok(Action::await_change())
}

async fn observed(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || match is_fixed {
        true => Controller::new("observed", notes_last).owns::<ConfigMap>(),
        false => Controller::new("observed", notes_first).owns::<ConfigMap>(),
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await
}

#[test]
fn a_generation_that_is_noted_before_the_work_is_found() {
    crate::finds("notes_first", &[Oracle::SameEnd], |cluster| observed(cluster, false));
}

#[test]
fn a_generation_that_is_noted_after_the_work_passes() {
    crate::passes("notes_last", |cluster| observed(cluster, true));
}

const FINALIZER: &str = "example.com/note";

/// Keeps a note without an owner, which it deletes with the ensemble. The buggy form gives the ensemble free before the
/// note is deleted.
async fn guarded(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    let mut guarded = (*ensemble).clone();
    if ensemble.metadata.deletion_timestamp.is_none() {
        if ensemble.finalizers().is_empty() {
            guarded.metadata.finalizers = Some(vec![FINALIZER.into()]);
            ctx.update(&guarded).await?;
        }
        ctx.apply_unowned(map(&ensemble, "note")).await?;
    } else if !ensemble.finalizers().is_empty() {
        guarded.metadata.finalizers = None;
        if is_fixed {
            ctx.delete(&map(&ensemble, "note")).await?;
            ctx.update(&guarded).await?;
        } else {
            ctx.update(&guarded).await?;
            ctx.delete(&map(&ensemble, "note")).await?;
        }
    }
    Ok(Action::await_change())
}

async fn releases_first(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    guarded(ensemble, ctx, false).await
}

async fn releases_last(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    guarded(ensemble, ctx, true).await
}

async fn released(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || match is_fixed {
        true => Controller::new("guard", releases_last),
        false => Controller::new("guard", releases_first),
    });
    create(&cluster, 1).await?;
    delete(&cluster).await
}

#[test]
fn a_finalizer_that_is_removed_too_early_is_found() {
    crate::finds("releases_first", &[Oracle::SameEnd], |cluster| released(cluster, false));
}

#[test]
fn a_finalizer_that_is_removed_last_passes() {
    crate::passes("releases_last", |cluster| released(cluster, true));
}
