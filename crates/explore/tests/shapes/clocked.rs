//! Lives in which time matters: things that expire, and scenarios that wait by the clock.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, ensemble, prepare};
use crate::map;

const LIFE: i64 = 120;

/// Keeps a note for two minutes after the ensemble was made.
async fn expires(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(map("config", &ensemble.spec.config)).await?;
    let made = ensemble.creation_timestamp().map_or(0, |at| at.0.as_second());
    let left = made + LIFE - ctx.now().as_second();
    if left > 0 {
        ctx.apply(map("note", "")).await?;
        return Ok(Action::requeue(Duration::from_secs(left.unsigned_abs())));
    }
    let mut note = map("note", "");
    note.metadata.namespace = ensemble.namespace();
    if ctx.get::<ConfigMap>("note")?.is_some() {
        ctx.delete(&note).await?;
    }
    Ok(Action::await_change())
}

/// Has a timer in its memory that removes the note.
async fn has_a_timer(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(map("config", &ensemble.spec.config)).await?;
    if ensemble.status.as_ref().is_none_or(|status| status.phase.is_none()) {
        ctx.apply(map("note", "")).await?;
        ctx.status(&ensemble, json!({"phase": "Noted"})).await?;
        let (client, namespace) = (ctx.client().clone(), ensemble.namespace().unwrap_or_default());
        let cancelled = ctx.cancelled().clone();
        tokio::spawn(async move {
            tokio::select! {
                () = cancelled.cancelled() => {}
                () = tokio::time::sleep(Duration::from_secs(LIFE.unsigned_abs())) => {
                    let maps = kube::Api::<ConfigMap>::namespaced(client, &namespace);
                    let _ = maps.delete("note", &kube::api::DeleteParams::default()).await;
                }
            }
        });
    }
    Ok(Action::await_change())
}

async fn life(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    cluster.advance(Duration::from_secs(60)).await;
    change(&cluster, json!({"config": "two"})).await?;
    cluster.advance(Duration::from_secs(180)).await;
    change(&cluster, json!({"config": "three"})).await?;
    delete(&cluster).await
}

#[test]
fn a_note_that_expires_passes() {
    crate::passes("expires", |cluster| {
        life(cluster, || Controller::new("expires", expires).owns::<ConfigMap>())
    });
}

#[test]
fn a_timer_in_memory_is_found() {
    crate::finds("timer", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("timer", has_a_timer).owns::<ConfigMap>())
    });
}

async fn copies(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(map("config", &ensemble.spec.config)).await?;
    ctx.status(&ensemble, json!({"phase": ensemble.spec.config})).await?;
    Ok(Action::await_change())
}

/// Waits until it sees what it waits for, or for some seconds, and not for rest.
async fn by_looking(cluster: Cluster) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(|| Controller::new("looked-at", copies).owns::<ConfigMap>());
    cluster.apply(ensemble(1)).await?;
    cluster.eventually::<ConfigMap>("config", |map| map.data.is_some()).await;
    cluster.patch::<Ensemble>("zoo", json!({"spec": {"config": "two"}})).await?;
    cluster.advance(Duration::from_secs(5)).await;
    let map = cluster.get::<ConfigMap>("config").await?;
    assert_eq!(map.data.unwrap()["value"], "two");
    cluster.settled().await;
    cluster.delete::<Ensemble>("zoo").await?;
    cluster.eventually_gone::<ConfigMap>("config").await;
    Ok(())
}

#[test]
fn a_scenario_that_waits_by_looking_passes() {
    crate::passes("by_looking", by_looking);
}
