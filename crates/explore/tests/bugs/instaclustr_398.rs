//! instaclustr/cassandra-operator 398: the claim of a server stays if the operator misses that its pod terminates.
//!
//! After scaling down, the operator deletes the claims of pods that it sees with a deletion timestamp. A pod that is gone
//! before it looks is not seen, and its claim stays for ever.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, Trigger};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, ordinal, prepare, stateful_set};

/// The claims of pods that are being deleted.
fn of_deleted_pods(ctx: &Ctx) -> Result<Vec<Arc<PersistentVolumeClaim>>> {
    let deleted = ctx.list::<Pod>()?.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
    let names: Vec<String> = deleted.map(|pod| format!("data-{}", pod.name_any())).collect();
    let claims = ctx.list::<PersistentVolumeClaim>()?.into_iter();
    Ok(claims.filter(|claim| names.contains(&claim.name_any())).collect())
}

/// The claims that no server of the spec has.
fn beyond_spec(ensemble: &Ensemble, ctx: &Ctx) -> Result<Vec<Arc<PersistentVolumeClaim>>> {
    let claims = ctx.list::<PersistentVolumeClaim>()?.into_iter();
    Ok(claims.filter(|claim| ordinal(claim) >= ensemble.spec.replicas).collect())
}

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    ctx.apply(stateful_set(&ensemble)).await?;
    let orphans = if is_fixed { beyond_spec(&ensemble, &ctx)? } else { of_deleted_pods(&ctx)? };
    for claim in orphans.into_iter().filter(|claim| ordinal(claim) >= ensemble.spec.replicas) {
        let live = ctx.fetch::<Ensemble>(&ensemble.name_any()).await?;
        if live.is_none_or(|live| live.metadata.generation != ensemble.metadata.generation) {
            return Ok(Action::requeue_with_backoff());
        }
        if claim.metadata.deletion_timestamp.is_none() {
            ctx.delete(&claim).await?;
        }
    }
    Ok(Action::await_change())
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
            true => Controller::new("cassandra", fixed),
            false => Controller::new("cassandra", buggy),
        };
        let by_label = Trigger::map(|pod: &Pod| {
            let namespace = pod.namespace().unwrap_or_default();
            pod.labels().get("app").map(|name| Request::namespaced(namespace, name.as_str()))
        });
        controller.owns::<StatefulSet>().watches(by_label).reads::<PersistentVolumeClaim>()
    });
    create(&cluster, 2).await?;
    change(&cluster, json!({"replicas": 1})).await
}

#[test]
fn instaclustr_398_is_found() {
    crate::finds("instaclustr_398", &[Oracle::SameEnd], |cluster| life(cluster, false));
}

#[test]
fn instaclustr_398_fixed_passes() {
    crate::passes("instaclustr_398_fixed", |cluster| life(cluster, true));
}
