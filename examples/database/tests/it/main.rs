//! The operator on a cluster of its own, in virtual time.

#![expect(clippy::unwrap_used, reason = "what a test unwraps wrongly fails it, as it should")]

mod account;
mod crash;
mod life;
mod naive;
mod refusal;
mod storage;

use std::sync::Arc;

use database::{Backup, Database, DatabaseSpec, PASSWORD, controller};
use evenkeel::conditions;
use evenkeel::k8s_openapi::api::core::v1::Secret;
use evenkeel::kube::Result;
use evenkeel::prelude::*;

/// A database of this version, with so many servers.
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

/// Declares the kind, runs the operator, and has `orders` made and running.
async fn started<B: Backup>(cluster: &Cluster, backup: Arc<B>) -> Result<()> {
    cluster.apply(Database::crd()).await?;
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
