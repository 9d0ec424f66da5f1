//! nifikop 49: a crash after the configuration was written leaves servers with the old one.
//!
//! The operator writes the new configuration, then notes in the status that servers have to restart, then restarts them.
//! After a crash between the first two, the configuration is as wanted, and no server restarts.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, prepare};

const CONFIG: &str = "config";

fn config(ensemble: &Ensemble) -> ConfigMap {
    let data = BTreeMap::from([(CONFIG.to_owned(), ensemble.spec.config.clone())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(ensemble.name_any());
    map
}

/// A server, which reads its configuration when it starts.
fn server(ensemble: &Ensemble) -> Pod {
    let pod = json!({
        "metadata": {"name": ensemble.name_any(), "annotations": {CONFIG: ensemble.spec.config}},
        "spec": {"containers": [{"name": "main", "image": "nifi:1"}]},
    });
    serde_json::from_value(pod).unwrap()
}

/// Makes the server if there is none.
async fn serve(ensemble: &Ensemble, ctx: &Ctx) -> Result<Action> {
    if ctx.get::<Pod>(&ensemble.name_any())?.is_none() {
        ctx.get_or_create(server(ensemble)).await?;
    }
    Ok(Action::await_change())
}

async fn buggy(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let current = ctx.get::<ConfigMap>(&ensemble.name_any())?;
    let differs = current.as_ref().is_some_and(|map| map.data != config(&ensemble).data);
    ctx.apply(config(&ensemble)).await?;
    if differs {
        ctx.status(&ensemble, json!({"phase": "OutOfSync"})).await?;
        return Ok(Action::await_change());
    }
    let out_of_sync =
        ensemble.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("OutOfSync"));
    if out_of_sync {
        if let Some(pod) = ctx.get::<Pod>(&ensemble.name_any())? {
            ctx.delete(&pod).await?;
        }
        ctx.status(&ensemble, json!({"phase": "InSync"})).await?;
        return Ok(Action::await_change());
    }
    serve(&ensemble, &ctx).await
}

/// Compares the server itself with what it should be.
async fn fixed(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(config(&ensemble)).await?;
    if let Some(pod) = ctx.get::<Pod>(&ensemble.name_any())?
        && pod.annotations().get(CONFIG) != Some(&ensemble.spec.config)
    {
        ctx.delete(&pod).await?;
        return Ok(Action::await_change());
    }
    serve(&ensemble, &ctx).await
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || {
        let controller = match is_fixed {
            true => Controller::new("nifi", fixed),
            false => Controller::new("nifi", buggy),
        };
        controller.owns::<ConfigMap>().owns::<Pod>()
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await
}

#[test]
fn nifikop_49_is_found() {
    crate::finds("nifikop_49", &[Oracle::SameEnd], |cluster| life(cluster, false));
}

#[test]
fn nifikop_49_fixed_passes() {
    crate::passes("nifikop_49_fixed", |cluster| life(cluster, true));
}
