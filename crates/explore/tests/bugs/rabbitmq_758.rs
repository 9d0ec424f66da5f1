//! rabbitmq/cluster-operator 758: an operator that misses a step scales down, although it refuses to.
//!
//! The operator never scales down. A user goes from one server to three and then to two: three are left. An operator that
//! was away over both changes sees one and then two, and scales to two.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, prepare, stateful_set};

/// Refuses to scale down by what it sees in the StatefulSet.
async fn buggy(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let set = ctx.get::<StatefulSet>(&ensemble.name_any())?;
    let current = set.and_then(|set| set.spec.as_ref()?.replicas).unwrap_or_default();
    if current <= ensemble.spec.replicas {
        ctx.apply(stateful_set(&ensemble)).await?;
    }
    Ok(Action::await_change())
}

async fn fixed(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(stateful_set(&ensemble)).await?;
    Ok(Action::await_change())
}

/// The API server refuses to scale down, so that no one has to see every step.
async fn forbid_scaling_down(cluster: &Cluster) -> kube::Result<()> {
    let rule =
        json!([{"rule": "self.replicas >= oldSelf.replicas", "message": "servers cannot be taken away"}]);
    let mut crd = serde_json::to_value(<Ensemble as kube::CustomResourceExt>::crd()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        rule;
    cluster.apply::<CustomResourceDefinition>(serde_json::from_value(crd).unwrap()).await?;
    Ok(())
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    if is_fixed {
        forbid_scaling_down(&cluster).await?;
    }
    cluster.run(move || match is_fixed {
        true => Controller::new("rabbit", fixed).owns::<StatefulSet>(),
        false => Controller::new("rabbit", buggy).owns::<StatefulSet>(),
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"replicas": 3})).await?;
    // The fixed form refuses this.
    let _ = change(&cluster, json!({"replicas": 2})).await;
    Ok(())
}

#[test]
fn rabbitmq_758_is_found() {
    crate::finds("rabbitmq_758", &[Oracle::SameEnd], |cluster| life(cluster, false));
}

#[test]
fn rabbitmq_758_fixed_passes() {
    crate::passes("rabbitmq_758_fixed", |cluster| life(cluster, true));
}
