//! A spec that cannot be fulfilled is refused at once or shown in a condition, and not retried forever.

use std::sync::Arc;

use database::{Database, NAME, NoBackup, Phase};
use evenkeel::k8s_openapi::api::core::v1::Pod;
use evenkeel::kube::Result;
use evenkeel::prelude::*;

use crate::{condition, orders, started};

/// Applies a database, and returns the error of the API server.
async fn refusal(cluster: &Cluster, database: Database) -> String {
    match cluster.apply(database).await {
        Ok(_) => "it was taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[evenkeel::test]
async fn the_schema_refuses_at_once(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    let mut tiny = orders("17", 2);
    tiny.spec.storage = "lots".into();
    let told = refusal(&cluster, tiny).await;
    assert!(told.contains("spec.storage in body should match '^[1-9][0-9]*(Mi|Gi|Ti)$'"), "{told}");
    let told = refusal(&cluster, orders("17", 9)).await;
    assert!(told.contains("spec.replicas in body should be less than or equal to 5"), "{told}");
    let mut reserved = orders("17", 2);
    reserved.spec.database_name = "postgres".into();
    let told = refusal(&cluster, reserved).await;
    assert!(
        told.contains(r#"spec.databaseName: Invalid value: "postgres": PostgreSQL keeps this name"#),
        "{told}"
    );
    Ok(())
}

#[evenkeel::test]
async fn the_rule_in_cel_refuses_at_once(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    for name in ["postgres", "pg_catalog"] {
        let mut reserved = orders("17", 2);
        reserved.spec.database_name = name.into();
        let told = refusal(&cluster, reserved).await;
        assert!(told.contains("spec.databaseName: Invalid value: "), "{told}");
        assert!(told.contains("PostgreSQL keeps this name for itself"), "{told}");
    }
    Ok(())
}

#[evenkeel::test]
async fn a_permanent_error_is_shown_once_and_healed_by_the_user(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    cluster.apply(orders("99", 2)).await?;
    cluster.settled().await;
    let status = cluster.get::<Database>("orders").await?.status.unwrap();
    assert_eq!(status.phase, Phase::Rejected);
    let told = "False UnsupportedVersion: version 99 is not one of 16, 17, 18";
    assert_eq!(condition(&cluster, "Accepted").await?, told);
    assert_eq!(cluster.list::<Pod>().await?.len(), 2, "what runs goes on running");
    let warned = cluster.events().await?;
    let warned: Vec<_> =
        warned.iter().filter(|event| event.reason.as_deref() == Some("UnsupportedVersion")).collect();
    assert_eq!(warned.len(), 1);

    cluster.apply(orders("18", 2)).await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<Database>("orders").await?.status.unwrap().phase, Phase::Running);
    Ok(())
}

#[evenkeel::test]
async fn an_immutable_field_is_a_condition_and_no_endless_error(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    let mut renamed = orders("17", 2);
    renamed.spec.database_name = "sales".into();
    cluster.apply(renamed).await?;
    // The cluster settles: nothing is retried.
    cluster.settled().await;
    let told =
        "False ImmutableField: databaseName was orders when the database was made, and cannot become sales";
    assert_eq!(condition(&cluster, "Accepted").await?, told);

    let mut moved = orders("17", 2);
    moved.spec.storage_class = Some("fast".into());
    cluster.apply(moved).await?;
    cluster.settled().await;
    let told = "False ImmutableField: storageClass was the default when the database was made, and cannot become fast";
    assert_eq!(condition(&cluster, "Accepted").await?, told);

    cluster.apply(orders("17", 2)).await?;
    cluster.settled().await;
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");
    Ok(())
}

#[evenkeel::test]
async fn what_the_server_refuses_is_a_condition_too(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    // A name that is too long for a label.
    let mut long = orders("17", 1);
    long.metadata.name = Some("n".repeat(70));
    cluster.apply(long).await?;
    cluster.settled().await;
    let status = cluster.get::<Database>(&"n".repeat(70)).await?.status.unwrap();
    let accepted = evenkeel::conditions::find(&status.conditions, "Accepted").unwrap();
    assert_eq!(accepted.reason, "Refused");
    assert!(accepted.message.contains("must be no more than 63"), "{}", accepted.message);
    let tried = cluster.requests().into_iter().filter(|request| {
        &*request.by == NAME && request.method == "POST" && request.path.contains("/secrets")
    });
    assert_eq!(tried.count(), 2, "once for each database");
    Ok(())
}
