//! The second version: nothing gets lost between the versions, in an upgrade, and in its rollback.

use std::sync::Arc;

use database::{Database, NAME, NoBackup, add_to, controller, v2};
use evenkeel::prelude::*;
use evenkeel::testing::{self, Release, UpgradeStage};

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
    assert!(runs > 0, "the new release writes when a server is added");
}
