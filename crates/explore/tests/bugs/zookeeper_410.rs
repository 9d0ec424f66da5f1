//! After pravega/zookeeper-operator 410: a crash before the metadata was made blocks every later change.
//!
//! When all servers are ready, the operator makes a node with metadata. To scale, it demands that the node exists. If it
//! crashes before it has made the node and the user scales meanwhile, each reconcile fails at the demand, and none comes
//! to the line that makes the node.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Error, Result};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, prepare, stateful_set};

/// The node with the metadata of an ensemble. Here it is a ConfigMap; there it is in the ensemble itself.
fn node(ensemble: &Ensemble) -> ConfigMap {
    let mut node = ConfigMap::default();
    node.metadata.name = Some(ensemble.name_any());
    node
}

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    let name = ensemble.name_any();
    let node_exists = ctx.fetch::<ConfigMap>(&name).await?.is_some();
    if let Some(set) = ctx.get::<StatefulSet>(&name)?
        && set.spec.as_ref().and_then(|spec| spec.replicas) != Some(ensemble.spec.replicas)
        && !node_exists
    {
        if !is_fixed {
            return Err(Error::message("the node of the ensemble does not exist"));
        }
        ctx.get_or_create(node(&ensemble)).await?;
    }
    let set = ctx.apply(stateful_set(&ensemble)).await?;
    let ready = set.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    if ready == ensemble.spec.replicas && !node_exists {
        ctx.get_or_create(node(&ensemble)).await?;
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
    cluster.run(move || match is_fixed {
        true => Controller::new("zookeeper", fixed).owns::<StatefulSet>(),
        false => Controller::new("zookeeper", buggy).owns::<StatefulSet>(),
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"replicas": 2})).await
}

#[test]
fn zookeeper_410_is_found() {
    crate::finds("zookeeper_410", &[Oracle::Rest], |cluster| life(cluster, false));
}

#[test]
fn zookeeper_410_fixed_passes() {
    crate::passes("zookeeper_410_fixed", |cluster| life(cluster, true));
}
