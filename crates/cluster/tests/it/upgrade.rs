//! Upgrades of an operator and back.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_cluster::testing::{self, Release, UpgradeStage};
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

/// A box, as the new release knows it.
mod new {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v1", kind = "Crate", namespaced, status = "CrateStatus")]
    pub(super) struct CrateSpec {
        pub(super) size: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(super) color: Option<String>,
    }

    #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
    pub(super) struct CrateStatus {
        pub(super) release: String,
    }
}

/// The kind as the old release knows it: without colors.
mod old {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v1", kind = "Crate", namespaced, status = "CrateStatus")]
    pub(super) struct CrateSpec {
        pub(super) size: i32,
    }

    #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
    pub(super) struct CrateStatus {
        pub(super) release: String,
    }
}

async fn reconcile_new(object: Arc<new::Crate>, ctx: Ctx) -> Result<Action> {
    ctx.status(&*object, new::CrateStatus { release: "new".into() }).await?;
    Ok(Action::await_change())
}

async fn reconcile_old(object: Arc<old::Crate>, ctx: Ctx) -> Result<Action> {
    ctx.status(&*object, old::CrateStatus { release: "old".into() }).await?;
    Ok(Action::await_change())
}

/// Writes the whole object as this release knows it, and so removes what it does not know.
async fn reconcile_careless(object: Arc<old::Crate>, ctx: Ctx) -> Result<Action> {
    let object = ctx.update(&*object).await?;
    ctx.status(&object, old::CrateStatus { release: "old".into() }).await?;
    Ok(Action::await_change())
}

fn new_release() -> Release {
    Release::new("crates", |cluster| cluster.run(|| Controller::new("crates", reconcile_new)))
        .crd(new::Crate::crd())
}

/// The old release, which does not know colors; its definition does.
fn old_release(careless: bool) -> Release {
    let run = move |cluster: &Cluster| match careless {
        true => cluster.run(|| Controller::new("crates", reconcile_careless)),
        false => cluster.run(|| Controller::new("crates", reconcile_old)),
    };
    Release::new("crates", run).crd(new::Crate::crd())
}

fn painted(color: Option<&str>) -> new::Crate {
    new::Crate::new("a", new::CrateSpec { size: 3, color: color.map(str::to_owned) })
}

/// Creates a crate, paints it in the new release, and returns which release has seen it.
async fn scenario(cluster: Cluster, stage: UpgradeStage) -> String {
    let color = match stage {
        UpgradeStage::Old => Some(None),
        UpgradeStage::New => Some(Some("red")),
        _ => None,
    };
    if let Some(color) = color {
        cluster.apply(painted(color)).await.expect("it is valid");
    }
    cluster.settled().await;
    let found = cluster.get::<new::Crate>("a").await.expect("it exists");
    found.status.map(|status| status.release).unwrap_or_default()
}

#[test]
fn an_upgrade_and_its_rollback_survive_crashes() {
    let runs = testing::upgrade(&old_release(false), &new_release(), scenario);
    assert_eq!(runs, Some(6), "the status is written once by each release, with three crashes for each");
}

#[test]
#[should_panic(
    expected = "the rollback does not keep all objects as they are:\n  Crate default/a: loses spec.color"
)]
fn an_operator_that_loses_a_field_on_rollback_is_found() {
    testing::upgrade(&old_release(true), &new_release(), scenario);
}

/// A definition in which `v1` is served, and `v2` is stored.
fn with_second_version() -> CustomResourceDefinition {
    let mut definition = new::Crate::crd();
    let mut second = definition.spec.versions[0].clone();
    definition.spec.versions[0].storage = false;
    second.name = "v2".into();
    definition.spec.versions.push(second);
    definition
}

#[test]
#[should_panic(expected = "the rollback: the definition crates.example.com cannot be applied: ")]
fn a_version_that_is_stored_already_cannot_be_rolled_back() {
    let new = Release::new("crates", |cluster| cluster.run(|| Controller::new("crates", reconcile_new)))
        .crd(with_second_version());
    testing::upgrade(&old_release(false), &new, scenario);
}

/// A scenario whose end depends on whether the operator crashed.
async fn fragile(cluster: Cluster, stage: UpgradeStage) -> bool {
    scenario(cluster.clone(), stage).await;
    cluster.crashes("crates") > 0
}

#[test]
#[should_panic(expected = "the upgrade: a crash Before(1) changes the end")]
fn a_crash_that_changes_the_end_is_found() {
    testing::upgrade(&old_release(false), &new_release(), fragile);
}
