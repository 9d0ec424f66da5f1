//! After instaclustr/cassandra-operator 400: a deletion that was interrupted is never finished.
//!
//! On deletion, the operator deletes the claims of all servers, one for each ordinal, and then gives the datacenter free.
//! After a crash in between, a claim of its list is gone: each further attempt fails there.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Error, Result};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, create, delete, prepare};

const FINALIZER: &str = "example.com/claims";

fn claim(ensemble: &Ensemble, ordinal: i32) -> PersistentVolumeClaim {
    let claim = json!({
        "metadata": {"name": format!("data-{}-{ordinal}", ensemble.name_any()), "namespace": ensemble.namespace()},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "wide", "resources": {"requests": {"storage": "1Gi"}}},
    });
    serde_json::from_value(claim).unwrap()
}

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    let is_deleted = ensemble.metadata.deletion_timestamp.is_some();
    if !is_deleted {
        // The finalizer comes first: what has a claim is never deleted without it.
        guard(&ensemble, &ctx, vec![FINALIZER.to_owned()]).await?;
        for ordinal in 0..ensemble.spec.replicas {
            ctx.apply_unowned(claim(&ensemble, ordinal)).await?;
        }
    } else if !ensemble.finalizers().is_empty() {
        for ordinal in 0..ensemble.spec.replicas {
            let existed = ctx.delete(&claim(&ensemble, ordinal)).await?;
            if !existed && !is_fixed {
                return Err(Error::message(format!("the claim of server {ordinal} does not exist")));
            }
        }
        guard(&ensemble, &ctx, vec![]).await?;
    }
    Ok(Action::await_change())
}

/// Sets the finalizers, if they are others.
async fn guard(ensemble: &Ensemble, ctx: &Ctx, finalizers: Vec<String>) -> Result<()> {
    if ensemble.finalizers() != finalizers {
        let mut changed = ensemble.clone();
        changed.metadata.finalizers = Some(finalizers);
        ctx.update(&changed).await?;
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
        true => Controller::new("cassandra", fixed).reads::<PersistentVolumeClaim>(),
        false => Controller::new("cassandra", buggy).reads::<PersistentVolumeClaim>(),
    });
    create(&cluster, 2).await?;
    delete(&cluster).await
}

#[test]
fn instaclustr_400_is_found() {
    crate::finds("instaclustr_400", &[Oracle::Rest], |cluster| life(cluster, false));
}

#[test]
fn instaclustr_400_fixed_passes() {
    crate::passes("instaclustr_400_fixed", |cluster| life(cluster, true));
}
