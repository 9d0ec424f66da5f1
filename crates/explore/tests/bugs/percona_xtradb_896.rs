//! After K8SPXC-896: a crash between two certificates leaves the second one unmade.
//!
//! The operator makes two Secrets with certificates, and skips both if the first exists.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, create, prepare};

fn certificate(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"tls.crt": "certificate"}}))
        .unwrap()
}

async fn buggy(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let name = ensemble.name_any();
    if ctx.get::<Secret>(&format!("{name}-ssl"))?.is_some() {
        return Ok(Action::await_change());
    }
    ctx.create(certificate(&format!("{name}-ssl"))).await?;
    ctx.create(certificate(&format!("{name}-ssl-internal"))).await?;
    Ok(Action::await_change())
}

async fn fixed(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let name = ensemble.name_any();
    ctx.get_or_create(certificate(&format!("{name}-ssl"))).await?;
    ctx.get_or_create(certificate(&format!("{name}-ssl-internal"))).await?;
    Ok(Action::await_change())
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || match is_fixed {
        true => Controller::new("xtradb", fixed).owns::<Secret>(),
        false => Controller::new("xtradb", buggy).owns::<Secret>(),
    });
    create(&cluster, 1).await
}

#[test]
fn percona_xtradb_896_is_found() {
    crate::finds("percona_xtradb_896", &[Oracle::SameEnd], |cluster| life(cluster, false));
}

#[test]
fn percona_xtradb_896_fixed_passes() {
    crate::passes("percona_xtradb_896_fixed", |cluster| life(cluster, true));
}
