//! Tests of the operator, each on a cluster of its own in virtual time.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

mod admission;
mod backup;
mod life;
mod naive;
mod refusal;
mod scenario;
mod storage;
mod versions;

use std::sync::Arc;

use database::{Backup, Database, DatabaseSpec, PASSWORD, controller, v2};
use evenkeel::conditions;
use evenkeel::k8s_openapi::api::core::v1::Secret;
use evenkeel::k8s_openapi::api::storage::v1::StorageClass;
use evenkeel::kube::Result;
use evenkeel::prelude::*;

/// The StorageClass that allows expansion.
const GROWS: &str = "evenkeel-grows";

/// A database of this version with this number of servers.
fn orders(version: &str, replicas: i32) -> Database {
    let spec = DatabaseSpec {
        version: version.into(),
        storage: "1Gi".into(),
        storage_class: None,
        replicas,
        database_name: "orders".into(),
    };
    Database::new("orders", spec)
}

/// A database on storage of a class that allows expansion.
fn growing(version: &str, replicas: i32, storage: &str) -> Database {
    let mut database = orders(version, replicas);
    database.spec.storage = storage.into();
    database.spec.storage_class = Some(GROWS.into());
    database
}

/// A StorageClass that allows expansion or does not.
fn class(name: &str, grows: bool) -> StorageClass {
    let mut class = StorageClass { allow_volume_expansion: Some(grows), ..Default::default() };
    class.metadata.name = Some(name.into());
    class.provisioner = "example.com/disk".into();
    class
}

/// Creates the definition, runs the operator, applies `orders`, and waits until it runs.
async fn started<B: Backup>(cluster: &Cluster, backup: Arc<B>) -> Result<()> {
    cluster.apply(v2::definition()).await?;
    cluster.run(move || controller(backup.clone()));
    cluster.apply(orders("17", 2)).await?;
    cluster.settled().await;
    Ok(())
}

async fn password(cluster: &Cluster) -> Result<Vec<u8>> {
    Ok(cluster.get::<Secret>("orders").await?.data.unwrap()[PASSWORD].0.clone())
}

/// Status, reason and message of a condition of `orders`.
async fn condition(cluster: &Cluster, type_: &str) -> Result<String> {
    let status = cluster.get::<Database>("orders").await?.status.unwrap_or_default();
    let found = conditions::find(&status.conditions, type_);
    Ok(found.map(|it| format!("{} {}: {}", it.status, it.reason, it.message)).unwrap_or_default())
}
