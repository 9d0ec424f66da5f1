//! pravega/zookeeper-operator 314: a stale spec lets the operator delete the claim of a server that runs.
//!
//! An ensemble is scaled from two to one and back. The operator restarts, and a lagging API server shows it the spec with
//! one server. It deletes the claims of all others.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, ordinal, prepare, stateful_set};

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    let set = ctx.apply(stateful_set(&ensemble)).await?;
    let ready = set.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    if ready == ensemble.spec.replicas {
        let orphans = ctx.list::<PersistentVolumeClaim>()?.into_iter();
        let orphans: Vec<_> = orphans.filter(|claim| ordinal(claim) >= ensemble.spec.replicas).collect();
        for claim in orphans {
            if is_fixed && !is_still_wanted(&ensemble, &ctx).await? {
                return Ok(Action::requeue_with_backoff());
            }
            ctx.delete(&claim).await?;
        }
    }
    Ok(Action::await_change())
}

/// Whether the spec is still the one that was seen: data is destroyed only by what the API server says now.
async fn is_still_wanted(ensemble: &Ensemble, ctx: &Ctx) -> Result<bool> {
    let live = ctx.fetch::<Ensemble>(&ensemble.name_any()).await?;
    Ok(live.is_some_and(|live| live.metadata.generation == ensemble.metadata.generation))
}

async fn buggy(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    reconcile(ensemble, ctx, false).await
}

async fn fixed(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    reconcile(ensemble, ctx, true).await
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || {
        let controller = match is_fixed {
            true => Controller::new("zookeeper", fixed),
            false => Controller::new("zookeeper", buggy),
        };
        controller.owns::<StatefulSet>().reads::<PersistentVolumeClaim>()
    });
    create(&cluster, 2).await?;
    change(&cluster, json!({"replicas": 1})).await?;
    change(&cluster, json!({"replicas": 2})).await
}

#[test]
fn zookeeper_314_is_found() {
    crate::finds("zookeeper_314", &[Oracle::Kept], |cluster| life(cluster, false));
}

#[test]
fn zookeeper_314_fixed_passes() {
    crate::passes("zookeeper_314_fixed", |cluster| life(cluster, true));
}
