//! A sweeper of orphans: it deletes what belongs to no resource that it knows, and knows only what its cache shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, ensemble, prepare};

const OF: &str = "example.com/of";

fn keys(of: &Ensemble) -> Secret {
    let data = BTreeMap::from([("key".to_owned(), ByteString(of.spec.config.clone().into_bytes()))]);
    let mut secret = Secret { data: Some(data), ..Secret::default() };
    secret.metadata.name = Some(format!("keys-{}", of.name_any()));
    secret.metadata.labels = Some(BTreeMap::from([(OF.to_owned(), of.name_any())]));
    secret
}

async fn sweep(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    if ensemble.metadata.deletion_timestamp.is_none() {
        ctx.apply_unowned(keys(&ensemble)).await?;
    }
    for secret in ctx.list::<Secret>()? {
        let Some(of) = secret.labels().get(OF) else { continue };
        let known = ctx.get::<Ensemble>(of)?.is_some();
        if !known && (!is_fixed || ctx.fetch::<Ensemble>(of).await?.is_none()) {
            ctx.delete(&secret).await?;
        }
    }
    Ok(Action::await_change())
}

async fn by_cache(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    sweep(ensemble, ctx, false).await
}

async fn by_server(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    sweep(ensemble, ctx, true).await
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || {
        let controller = match is_fixed {
            true => Controller::new("sweep", by_server),
            false => Controller::new("sweep", by_cache),
        };
        controller.reads::<Secret>()
    });
    cluster.apply(ensemble(1)).await?;
    cluster.settled().await;
    let mut second = ensemble(1);
    second.metadata.name = Some("farm".into());
    cluster.apply(second).await?;
    cluster.settled().await;
    cluster.patch::<Ensemble>("zoo", json!({"spec": {"config": "two"}})).await?;
    cluster.settled().await;
    Ok(())
}

#[test]
fn orphans_by_an_old_list_are_found() {
    crate::finds("sweep_cache", &[Oracle::Kept], |cluster| life(cluster, false));
}

#[test]
fn orphans_by_what_the_server_says_pass() {
    crate::passes_shortly("sweep_server", |cluster| life(cluster, true));
}
