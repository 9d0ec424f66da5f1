//! rabbitmq/cluster-operator 648: a stale deletion timestamp lets the operator delete the StatefulSet of a new cluster.
//!
//! A cluster is deleted and made again under its name. The operator restarts, and a lagging API server shows it the old
//! cluster with its deletion timestamp. It deletes the StatefulSet by its name, which is that of the new cluster.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Preconditions};

use crate::ensemble::{Ensemble, create, delete, prepare, stateful_set};

const FINALIZER: &str = "example.com/servers";

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    if ensemble.metadata.deletion_timestamp.is_some() {
        tear_down(&ensemble, &ctx, is_fixed).await?;
        if !ensemble.finalizers().is_empty() {
            let mut done = (*ensemble).clone();
            done.metadata.finalizers = None;
            ctx.update(&done).await?;
        }
        return Ok(Action::await_change());
    }
    if ensemble.finalizers().is_empty() {
        let mut guarded = (*ensemble).clone();
        guarded.metadata.finalizers = Some(vec![FINALIZER.into()]);
        ctx.update(&guarded).await?;
    }
    ctx.apply(stateful_set(&ensemble)).await?;
    Ok(Action::await_change())
}

async fn tear_down(ensemble: &Ensemble, ctx: &Ctx, is_fixed: bool) -> Result<()> {
    let name = ensemble.name_any();
    if !is_fixed {
        ctx.delete_with(&stateful_set(ensemble), &DeleteParams::default()).await?;
        return Ok(());
    }
    // Only the StatefulSet of this very cluster, by uid.
    let Some(set) = ctx.fetch::<StatefulSet>(&name).await? else { return Ok(()) };
    if set.owner_references().iter().any(|owner| Some(&owner.uid) == ensemble.metadata.uid.as_ref()) {
        let preconditions = Some(Preconditions { uid: set.uid(), resource_version: None });
        ctx.delete_with(&set, &DeleteParams { preconditions, ..DeleteParams::default() }).await?;
    }
    Ok(())
}

async fn buggy(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    reconcile(ensemble, ctx, false).await
}

async fn fixed(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    reconcile(ensemble, ctx, true).await
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || match is_fixed {
        true => Controller::new("rabbit", fixed).owns::<StatefulSet>(),
        false => Controller::new("rabbit", buggy).owns::<StatefulSet>(),
    });
    create(&cluster, 1).await?;
    delete(&cluster).await?;
    create(&cluster, 1).await
}

#[test]
fn rabbitmq_648_is_found() {
    crate::finds("rabbitmq_648", &[Oracle::Kept], |cluster| life(cluster, false));
}

#[test]
fn rabbitmq_648_fixed_passes() {
    crate::passes("rabbitmq_648_fixed", |cluster| life(cluster, true));
}
