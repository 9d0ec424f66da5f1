//! The webhooks: they refuse what cannot be done, and note who asked for a database.

use std::sync::Arc;
use std::time::Duration;

use database::{Database, NAME, NoBackup, REQUESTED_BY, add_to, v2};
use evenkeel::cluster::{User, WebhookFault};
use evenkeel::kube::{Error, Result};
use evenkeel::prelude::*;
use serde_json::json;

use crate::{condition, orders};

/// Creates the definition, runs the operator with its webhooks, and applies `orders`.
async fn started(cluster: &Cluster) -> Result<()> {
    cluster.apply(v2::definition()).await?;
    cluster.run_manager(NAME, |manager| add_to(manager, Arc::new(NoBackup)));
    cluster.apply(orders("17", 2)).await?;
    cluster.settled().await;
    Ok(())
}

/// Applies a database that must be refused, and returns the status code, and the fields with their messages.
async fn causes(cluster: &Cluster, database: Database) -> (u16, Vec<String>) {
    match cluster.apply(database).await {
        Err(Error::Api(status)) => {
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            (status.code, causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect())
        }
        other => panic!("it was not refused: {other:?}"),
    }
}

#[evenkeel::test]
async fn storage_does_not_shrink_and_versions_do_not_go_back(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let mut smaller = orders("16", 2);
    smaller.spec.storage = "512Mi".into();
    let expected = [
        r#"spec.version: Invalid value: "16": cannot go back from 17"#,
        r#"spec.storage: Invalid value: "512Mi": cannot shrink from 1Gi"#,
    ];
    assert_eq!(causes(&cluster, smaller).await, (422, expected.map(str::to_owned).to_vec()));

    let mut same = orders("18", 2);
    same.spec.storage = "1024Mi".into();
    cluster.apply(same).await?;
    cluster.settled().await;
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");
    Ok(())
}

#[evenkeel::test]
async fn unknown_versions_and_changes_of_immutable_fields_are_refused(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let supported = r#"spec.version: Unsupported value: "99": supported values: "16", "17", "18""#;
    assert_eq!(causes(&cluster, orders("99", 2)).await, (422, vec![supported.to_owned()]));

    let mut moved = orders("17", 2);
    moved.spec.database_name = "sales".into();
    moved.spec.storage_class = Some("fast".into());
    let expected = [
        r#"spec.storageClass: Invalid value: "fast": field is immutable"#,
        r#"spec.databaseName: Invalid value: "sales": field is immutable"#,
    ];
    assert_eq!(causes(&cluster, moved).await, (422, expected.map(str::to_owned).to_vec()));
    Ok(())
}

#[evenkeel::test]
async fn who_asked_for_a_database_is_noted_and_stays(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let alice = cluster.acting_as(User::new("alice", ["system:masters"]));
    let mut mine = orders("17", 1);
    mine.metadata.name = Some("mine".into());
    mine.annotations_mut().insert(REQUESTED_BY.into(), "somebody else".into());
    let noted = |database: &Database| database.annotations().get(REQUESTED_BY).cloned();
    assert_eq!(noted(&alice.apply(mine).await?).as_deref(), Some("alice"));
    let claimed = json!({"metadata": {"annotations": {REQUESTED_BY: "bob"}}, "spec": {"replicas": 2}});
    assert_eq!(noted(&cluster.patch::<Database>("mine", claimed).await?).as_deref(), Some("alice"));
    let admin = noted(&cluster.get::<Database>("orders").await?);
    assert!(admin.is_some_and(|admin| admin.ends_with("admin")), "the user of this test");
    Ok(())
}

/// A request that a webhook cannot review fails. Another one succeeds when the webhook is there again.
#[evenkeel::test(embedded = "the calls of a remote API server cannot be made to fail")]
async fn without_its_webhooks_nothing_is_written_and_the_servers_run_on(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.fail_webhook("/mutate-example-com-v1-database", WebhookFault::Down, 1);
    let failed = cluster.apply(orders("18", 3)).await.unwrap_err().to_string();
    assert!(failed.contains("failed calling webhook \"mutate.databases.example.com\""), "{failed}");
    let late = WebhookFault::Slow(Duration::from_secs(11));
    cluster.fail_webhook("/validate-example-com-v1-database", late, 1);
    let failed = cluster.apply(orders("18", 3)).await.unwrap_err().to_string();
    assert!(failed.contains("context deadline exceeded"), "{failed}");
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");

    cluster.restart(NAME);
    cluster.settled().await;
    cluster.apply(orders("18", 3)).await?;
    cluster.settled().await;
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 3 of 3 servers are ready");
    Ok(())
}
