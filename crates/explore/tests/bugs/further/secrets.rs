//! Passwords that an operator makes up: made anew where a view is old, and made twice where a crash comes between.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, prepare};

/// The length of a password.
const LENGTH: usize = 20;

fn secret(name: String, password: &str) -> Secret {
    let data = BTreeMap::from([("password".to_owned(), ByteString(password.as_bytes().to_vec()))]);
    let mut secret = Secret { data: Some(data), ..Secret::default() };
    secret.metadata.name = Some(name);
    secret
}

fn password(secret: &Secret) -> String {
    let data = secret.data.as_ref().and_then(|data| data.get("password"));
    data.map(|data| String::from_utf8_lossy(&data.0).into_owned()).unwrap_or_default()
}

/// What a server reads when it starts.
fn config(ensemble: &Ensemble, password: &str) -> ConfigMap {
    let data = BTreeMap::from([("url".to_owned(), password.to_owned())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(format!("{}-config", ensemble.name_any()));
    map
}

/// Applies a new password where the cache shows no Secret, and overwrites the one that is there.
async fn overwrites(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    if ctx.get::<Secret>(&ensemble.name_any())?.is_none() {
        ctx.apply(secret(ensemble.name_any(), &ctx.env().suffix(LENGTH))).await?;
    }
    ctx.status(&ensemble, json!({"phase": "Running"})).await?;
    Ok(Action::await_change())
}

/// Creates the Secret, which fails if there is one.
async fn creates(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.get_or_create(secret(ensemble.name_any(), &ctx.env().suffix(LENGTH))).await?;
    ctx.status(&ensemble, json!({"phase": "Running"})).await?;
    Ok(Action::await_change())
}

/// Tells the servers a password first, and keeps it in a Secret afterwards: after a crash in between, both exist, and
/// differ.
async fn tells_first(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let made_up = ctx.env().suffix(LENGTH);
    ctx.get_or_create(config(&ensemble, &made_up)).await?;
    ctx.get_or_create(secret(ensemble.name_any(), &made_up)).await?;
    Ok(Action::await_change())
}

/// Keeps the password first, and tells what is kept.
async fn keeps_first(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let kept = ctx.get_or_create(secret(ensemble.name_any(), &ctx.env().suffix(LENGTH))).await?;
    ctx.get_or_create(config(&ensemble, &password(&kept))).await?;
    Ok(Action::await_change())
}

async fn life(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await
}

#[test]
fn a_password_that_is_made_anew_is_found() {
    crate::finds("password_anew", &[Oracle::Kept], |cluster| {
        life(cluster, || Controller::new("password", overwrites).owns::<Secret>())
    });
}

#[test]
fn a_password_that_is_created_once_passes() {
    crate::passes("password_once", |cluster| {
        life(cluster, || Controller::new("password", creates).owns::<Secret>())
    });
}

#[test]
fn a_password_that_is_told_before_it_is_kept_is_found() {
    crate::finds("password_told", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("password", tells_first).owns::<Secret>().owns::<ConfigMap>())
    });
}

#[test]
fn a_password_that_is_kept_before_it_is_told_passes() {
    crate::passes("password_kept", |cluster| {
        life(cluster, || Controller::new("password", keeps_first).owns::<Secret>().owns::<ConfigMap>())
    });
}
