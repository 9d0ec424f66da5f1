//! The second version: nothing gets lost between the versions, in an upgrade, and in its rollback.

use std::sync::Arc;

use database::{Database, NAME, NoBackup, add_to, add_webhooks, controller, v2};
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::kube::Result;
use evenkeel::prelude::*;
use evenkeel::testing::{self, Release, UpgradeStage};

use serde_json::json;

use crate::{condition, orders};

#[test]
fn nothing_is_lost_between_the_versions() {
    assert_eq!(testing::round_trips(&v2::conversion()), 200);
}

/// Creates a database in the old release, adds a server in the new one, and returns what the status tells.
async fn grow(cluster: Cluster, stage: UpgradeStage) -> String {
    let servers = match stage {
        UpgradeStage::Old => 1,
        _ => 2,
    };
    cluster.apply(orders("17", servers)).await.expect("it is valid");
    cluster.settled().await;
    condition(&cluster, "Ready").await.expect("it can be read")
}

#[test]
fn the_release_with_two_versions_and_webhooks_can_be_rolled_back() {
    let old = Release::new(NAME, |cluster| cluster.run(|| controller(Arc::new(NoBackup))));
    let new = Release::new(NAME, |cluster| {
        cluster.run_manager(NAME, |manager| add_to(manager, Arc::new(NoBackup)));
    });
    let runs = testing::upgrade(&old.crd(Database::crd()), &new.crd(v2::definition()), grow);
    assert_ne!(runs, Some(0), "the new release writes when a server is added");
}

/// The next release: it stores the second version, and migrates what is stored in the first.
fn run_next(cluster: &Cluster) {
    cluster.run_manager(NAME, |manager| {
        add_webhooks(manager.controller(controller(Arc::new(NoBackup))), v2::migration())
    });
}

#[test]
fn the_release_that_migrates_the_stored_databases_can_be_rolled_back() {
    let now = Release::new(NAME, |cluster| {
        cluster.run_manager(NAME, |manager| add_to(manager, Arc::new(NoBackup)));
    });
    let next = Release::new(NAME, run_next);
    let runs = testing::upgrade(&now.crd(v2::definition()), &next.crd(v2::next_definition()), grow);
    assert_ne!(runs, Some(0), "the new release writes every database");
}

#[evenkeel::test(embedded = "the migration waits until all API servers know the definition")]
async fn databases_are_migrated_to_the_second_version(cluster: Cluster) -> Result<()> {
    cluster.apply(v2::definition()).await?;
    cluster.run_manager(NAME, |manager| add_to(manager, Arc::new(NoBackup)));
    cluster.apply(orders("17", 1)).await?;
    cluster.settled().await;
    let before = cluster.get::<Database>("orders").await?;
    let versions = async || {
        let definition = cluster.get::<CustomResourceDefinition>("databases.example.com").await?;
        Ok::<_, evenkeel::kube::Error>(definition.status.unwrap().stored_versions.unwrap_or_default())
    };
    assert_eq!(versions().await?, ["v1"]);

    cluster.apply(v2::next_definition()).await?;
    assert_eq!(versions().await?, ["v1", "v2"], "the database is still stored in the first version");
    run_next(&cluster);
    cluster.settled().await;
    assert_eq!(versions().await?, ["v2"]);
    let after = cluster.get::<Database>("orders").await?;
    assert_eq!((&after.spec, &after.status), (&before.spec, &before.status), "nothing else has changed");
    assert_ne!(after.metadata.resource_version, before.metadata.resource_version, "it was stored again");
    Ok(())
}

#[evenkeel::test]
async fn a_database_is_read_written_and_refused_in_both_versions(cluster: Cluster) -> Result<()> {
    cluster.apply(v2::definition()).await?;
    cluster.run_manager(NAME, |manager| add_to(manager, Arc::new(NoBackup)));
    cluster.apply(orders("17", 1)).await?;
    cluster.settled().await;
    let read = cluster.get::<v2::Database>("orders").await?;
    assert_eq!(read.spec.storage, v2::Storage { size: "1Gi".into(), class: None });

    cluster.patch::<v2::Database>("orders", json!({"spec": {"replicas": 2}})).await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<Database>("orders").await?.spec.replicas, 2);
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");

    // The webhook reviews the first version. The API server converts the request to it.
    let smaller = json!({"spec": {"storage": {"size": "1Mi"}}});
    let refused = cluster.patch::<v2::Database>("orders", smaller).await.unwrap_err().to_string();
    assert!(refused.contains("cannot shrink from 1Gi"), "{refused}");
    Ok(())
}
