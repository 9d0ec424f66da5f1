//! Invariants of the user are judged at every revision of every run.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::{Budget, Oracle, View, explore};
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;

/// Makes a Secret for each ConfigMap of the scenario, without an owner, and deletes it with a finalizer's help.
async fn copy(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    let mut secret = Secret::default();
    secret.metadata.name = Some(map.name_any());
    if map.name_any() != "kube-root-ca.crt" {
        ctx.apply(secret).await?;
    }
    Ok(Action::await_change())
}

async fn a_life(cluster: Cluster) -> kube::Result<()> {
    cluster.run(|| Controller::new("copy", copy).owns::<Secret>());
    let mut map = ConfigMap::default();
    map.metadata.name = Some("a".into());
    cluster.apply(map).await?;
    cluster.settled().await;
    Ok(())
}

/// Every Secret of the scenario belongs to a ConfigMap of the same name.
fn no_orphans(world: &View) -> bool {
    world.list::<Secret>().iter().all(|secret| world.get::<ConfigMap>(&secret.name_any()).is_some())
}

#[test]
fn an_invariant_holds_at_every_revision() {
    explore("a_life", a_life)
        .always("no Secret is without its ConfigMap", no_orphans)
        .eventually("there is a Secret", |world| !world.list::<Secret>().is_empty())
        .check();
}

#[test]
fn an_invariant_that_does_not_hold_is_a_finding() {
    let always = explore("a_life", a_life)
        .budget(Budget::Full)
        .always("there is no Secret", |world| world.list::<Secret>().is_empty())
        .run();
    assert_eq!(always.findings[0].oracle, Oracle::Invariant);
    assert!(always.findings[0].what.contains("which changed secrets/a"), "{}", always.findings[0].what);
    let eventually = explore("a_life", a_life)
        .budget(Budget::Full)
        .eventually("there are two Secrets", |world| world.list::<Secret>().len() == 2)
        .run();
    assert_eq!(eventually.findings[0].what, "there are two Secrets never came true");
}
