//! Rollouts: by the hash of a configuration, and in steps that wait for each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::{Behaviour, Cluster, PodRule};
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kube::ResourceExt as _;
use kube::api::Patch;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, ordinal, prepare, stateful_set};

fn config(ensemble: &Ensemble) -> ConfigMap {
    let data = BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some("config".into());
    map
}

fn deployment(ensemble: &Ensemble, hash: &str) -> Deployment {
    let labels = json!({"app": "web"});
    let template = json!({
        "metadata": {"labels": labels, "annotations": {"config-hash": hash}},
        "spec": {"containers": [{"name": "main", "image": format!("web:{}", ensemble.spec.storage)}]},
    });
    let spec = json!({"replicas": ensemble.spec.replicas, "selector": {"matchLabels": labels}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
}

fn hash_of(map: &ConfigMap) -> String {
    format!("{:?}", map.data)
}

/// Hashes the configuration that the cache shows: after a write, that may be the one before.
async fn hashes_the_cache(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let seen = ctx.get::<ConfigMap>("config")?;
    ctx.apply(config(&ensemble)).await?;
    let hash = hash_of(&seen.map_or_else(|| config(&ensemble), |map| (*map).clone()));
    ctx.apply(deployment(&ensemble, &hash)).await?;
    Ok(Action::await_change())
}

/// Rolls out only if the configuration has changed.
async fn rolls_on_change(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let wanted = config(&ensemble);
    let seen = ctx.get::<ConfigMap>("config")?;
    let changed = seen.as_ref().is_none_or(|map| map.data != wanted.data);
    if changed {
        ctx.apply(wanted.clone()).await?;
    }
    let missing = ctx.get::<Deployment>("web")?.is_none();
    if changed || missing {
        ctx.apply(deployment(&ensemble, &hash_of(&wanted))).await?;
    }
    Ok(Action::await_change())
}

async fn hashes_the_spec(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(config(&ensemble)).await?;
    ctx.apply(deployment(&ensemble, &hash_of(&config(&ensemble)))).await?;
    Ok(Action::await_change())
}

async fn rolled(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    change(&cluster, json!({"config": "three", "replicas": 2})).await?;
    delete(&cluster).await
}

#[test]
fn a_rollout_on_change_only_is_found() {
    crate::finds("rolls_on_change", &[Oracle::SameEnd], |cluster| {
        rolled(cluster, || Controller::new("rolls", rolls_on_change).owns::<ConfigMap>().owns::<Deployment>())
    });
}

#[test]
fn a_hash_of_the_cache_is_found() {
    crate::finds("hashes_the_cache", &[Oracle::SameEnd, Oracle::Idempotent], |cluster| {
        rolled(cluster, || {
            Controller::new("hashes", hashes_the_cache).reads::<ConfigMap>().owns::<Deployment>()
        })
    });
}

#[test]
fn a_hash_of_the_spec_passes() {
    crate::passes_shortly("hashes_the_spec", |cluster| {
        rolled(cluster, || {
            Controller::new("hashes", hashes_the_spec).owns::<ConfigMap>().owns::<Deployment>()
        })
    });
}

/// Upgrades in steps that the status remembers: prepare, upgrade, finish. Waits in a step for what the step before has
/// begun.
async fn steps(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    let phase = ensemble.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let current = ctx.get::<Deployment>("web")?;
    let wanted = deployment(&ensemble, "");
    let image = |it: &Deployment| it.spec.as_ref()?.template.spec.as_ref()?.containers[0].image.clone();
    let Some(current) = current else {
        ctx.apply(wanted).await?;
        ctx.status(&ensemble, json!({"phase": "Running"})).await?;
        return Ok(Action::await_change());
    };
    match &*phase {
        "Upgrading" => {
            if is_fixed {
                ctx.apply(wanted).await?;
            }
            let status = current.status.clone().unwrap_or_default();
            let is_seen = status.observed_generation == current.metadata.generation;
            let is_new = image(&current) == image(&deployment(&ensemble, ""));
            if is_seen
                && is_new
                && status.updated_replicas == Some(ensemble.spec.replicas)
                && status.ready_replicas == Some(ensemble.spec.replicas)
            {
                ctx.status(&ensemble, json!({"phase": "Running"})).await?;
            }
        }
        _ if image(&current) != image(&wanted) => {
            ctx.status(&ensemble, json!({"phase": "Upgrading"})).await?;
            if !is_fixed {
                ctx.apply(wanted).await?;
            }
        }
        _ => {
            ctx.apply(wanted).await?;
            ctx.status(&ensemble, json!({"phase": "Running"})).await?;
        }
    }
    Ok(Action::await_change())
}

async fn begins_once(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    steps(ensemble, ctx, false).await
}

async fn begins_again(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    steps(ensemble, ctx, true).await
}

async fn upgraded(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 2).await?;
    change(&cluster, json!({"storage": 2})).await?;
    change(&cluster, json!({"replicas": 1})).await?;
    delete(&cluster).await
}

#[test]
fn an_upgrade_that_begins_only_once_is_found() {
    crate::finds("begins_once", &[Oracle::SameEnd], |cluster| {
        upgraded(cluster, || Controller::new("steps", begins_once).owns::<Deployment>())
    });
}

#[test]
fn an_upgrade_that_begins_again_passes() {
    crate::passes_shortly("begins_again", |cluster| {
        upgraded(cluster, || Controller::new("steps", begins_again).owns::<Deployment>())
    });
}

/// Does not touch a Deployment that is not ready, so that a bad image stays for ever.
async fn waits_for_ready(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    if let Some(current) = ctx.get::<Deployment>("web")? {
        let ready = current.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
        let updated = current.status.as_ref().and_then(|status| status.updated_replicas).unwrap_or_default();
        if ready != ensemble.spec.replicas || updated != ensemble.spec.replicas {
            return Ok(Action::await_change());
        }
    }
    ctx.apply(deployment(&ensemble, "")).await?;
    Ok(Action::await_change())
}

async fn always_applies(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(deployment(&ensemble, "")).await?;
    Ok(Action::await_change())
}

/// A step with an image that cannot be pulled, and one that mends it.
async fn mended(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.tell_pods(PodRule::new(Behaviour::new().never_ready()).image("web:2"));
    cluster.run(controller);
    create(&cluster, 1).await?;
    change(&cluster, json!({"storage": 2})).await?;
    change(&cluster, json!({"storage": 3})).await
}

#[test]
fn a_rollout_that_waits_for_a_bad_image_is_found() {
    crate::finds("waits_for_ready", &[Oracle::SameEnd], |cluster| {
        mended(cluster, || Controller::new("waits", waits_for_ready).owns::<Deployment>())
    });
}

#[test]
fn a_rollout_that_replaces_a_bad_image_passes() {
    crate::passes_shortly("always_applies", |cluster| {
        mended(cluster, || Controller::new("applies", always_applies).owns::<Deployment>())
    });
}

/// Renames its child by what the spec says, and does not delete the one of the old name.
async fn leaves_the_old(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let mut map = config(&ensemble);
    map.metadata.name = Some(format!("config-{}", ensemble.spec.config));
    ctx.apply(map).await?;
    Ok(Action::await_change())
}

async fn prunes_the_old(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let mut map = config(&ensemble);
    let name = format!("config-{}", ensemble.spec.config);
    map.metadata.name = Some(name.clone());
    ctx.apply(map).await?;
    for child in ctx.children::<ConfigMap>()?.into_iter().filter(|child| child.name_any() != name) {
        if child.metadata.deletion_timestamp.is_none() {
            ctx.delete(&child).await?;
        }
    }
    Ok(Action::await_change())
}

/// Two steps only: the life before the last one is not seen again.
async fn renamed(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await
}

#[test]
fn a_child_of_an_old_name_is_found() {
    crate::finds("leaves_the_old", &[Oracle::SameEnd, Oracle::Left], |cluster| {
        renamed(cluster, || Controller::new("renames", leaves_the_old).owns::<ConfigMap>())
    });
}

#[test]
fn a_child_of_an_old_name_that_is_pruned_passes() {
    crate::passes_shortly("prunes_the_old", |cluster| {
        renamed(cluster, || Controller::new("renames", prunes_the_old).owns::<ConfigMap>())
    });
}

/// Merges labels into its child, and does not remove those that the spec no longer has.
async fn merges(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.get_or_create(deployment(&ensemble, "")).await?;
    let labels: BTreeMap<&str, &str> = ensemble.spec.config.split(' ').map(|label| (label, "yes")).collect();
    let current = ctx.get::<Deployment>("web")?;
    let has = |label: &str| current.as_ref().is_some_and(|it| it.labels().contains_key(label));
    if !labels.keys().all(|label| has(label)) {
        let mut child = deployment(&ensemble, "");
        child.metadata.namespace = ensemble.namespace();
        ctx.patch(&child, &Patch::Merge(json!({"metadata": {"labels": labels}}))).await?;
    }
    Ok(Action::await_change())
}

async fn applies_labels(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let mut wanted = deployment(&ensemble, "");
    wanted.metadata.labels =
        Some(ensemble.spec.config.split(' ').map(|label| (label.to_owned(), "yes".to_owned())).collect());
    ctx.apply(wanted).await?;
    Ok(Action::await_change())
}

async fn labelled(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "one two"})).await?;
    change(&cluster, json!({"config": "one"})).await
}

#[test]
fn a_label_that_is_not_removed_is_found() {
    crate::finds("merges", &[Oracle::SameEnd], |cluster| {
        labelled(cluster, || Controller::new("labels", merges).owns::<Deployment>())
    });
}

#[test]
fn a_label_that_is_applied_passes() {
    crate::passes_shortly("applies_labels", |cluster| {
        labelled(cluster, || Controller::new("labels", applies_labels).owns::<Deployment>())
    });
}

/// Scales down in two steps: deletes the claims of the servers that go, once the status of the StatefulSet says that they
/// have gone. What has to go is the difference between the StatefulSet and the spec, which is gone with a crash.
async fn decommissions(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let current = ctx.get::<StatefulSet>(&ensemble.name_any())?;
    let before = current.as_ref().and_then(|set| set.spec.as_ref()?.replicas).unwrap_or_default();
    ctx.apply(stateful_set(&ensemble)).await?;
    for claim in ctx.list::<PersistentVolumeClaim>()? {
        let goes = ordinal(&claim) >= ensemble.spec.replicas && ordinal(&claim) < before;
        if goes && claim.metadata.deletion_timestamp.is_none() {
            ctx.delete(&claim).await?;
        }
    }
    Ok(Action::await_change())
}

async fn scaled(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 2).await?;
    change(&cluster, json!({"replicas": 1})).await?;
    delete(&cluster).await
}

#[test]
fn a_decommission_by_difference_is_found() {
    crate::finds("decommissions", &[Oracle::SameEnd, Oracle::Left], |cluster| {
        scaled(cluster, || {
            Controller::new("scales", decommissions).owns::<StatefulSet>().reads::<PersistentVolumeClaim>()
        })
    });
}
