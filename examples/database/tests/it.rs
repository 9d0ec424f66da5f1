//! The operator on a cluster of its own, in virtual time.

#![expect(clippy::unwrap_used, reason = "what a test unwraps wrongly fails it, as it should")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;

use database::{
    Backup, BackupError, Database, DatabaseSpec, FINALIZER, NoBackup, PASSWORD, Phase, controller,
};
use evenkeel::conditions;
use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::k8s_openapi::api::core::v1::{Pod, Secret, Service};
use evenkeel::kube::Result;
use evenkeel::prelude::*;
use evenkeel::testing;
use serde_json::json;

fn orders(version: &str, replicas: i32) -> Database {
    let spec = DatabaseSpec { version: version.into(), replicas, database_name: "orders".into() };
    Database::new("orders", spec)
}

/// Declares the kind, runs the operator, and has `orders` made and running.
async fn started<B: Backup>(cluster: &Cluster, backup: Arc<B>) -> Result<()> {
    cluster.apply(Database::crd()).await?;
    cluster.settled().await;
    cluster.run(move || controller(backup.clone()));
    cluster.apply(orders("17", 2)).await?;
    cluster.settled().await;
    Ok(())
}

async fn password(cluster: &Cluster) -> Result<Vec<u8>> {
    Ok(cluster.get::<Secret>("orders").await?.data.unwrap()[PASSWORD].0.clone())
}

/// A place for backups that can be full.
#[derive(Default)]
struct Shelf {
    full: Mutex<bool>,
    taken: Mutex<BTreeSet<String>>,
}

impl Backup for Shelf {
    async fn take(&self, database: &str) -> Result<(), BackupError> {
        if *self.full.lock().unwrap() {
            return Err(BackupError("the shelf is full".into()));
        }
        self.taken.lock().unwrap().insert(database.to_owned());
        Ok(())
    }
}

#[evenkeel::test]
async fn a_database_becomes_its_children_and_runs(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    let database = cluster.get::<Database>("orders").await?;
    let status = database.status.clone().unwrap();
    assert_eq!((status.phase, status.ready_replicas), (Phase::Running, 2));
    assert_eq!(status.endpoint.as_deref(), Some("orders.default.svc:5432"));
    assert_eq!(status.observed_generation, database.metadata.generation);
    assert!(conditions::is_true(&status.conditions, "Ready"));
    assert_eq!(database.finalizers(), [FINALIZER]);

    assert_eq!(password(&cluster).await?.len(), 24);
    assert_eq!(cluster.get::<Service>("orders").await?.spec.unwrap().cluster_ip.as_deref(), Some("None"));
    let pods: Vec<_> = cluster.list::<Pod>().await?.iter().map(ResourceExt::name_any).collect();
    assert_eq!(pods, ["orders-0", "orders-1"]);
    Ok(())
}

#[evenkeel::test]
async fn an_update_follows_and_the_password_stays(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    let before = password(&cluster).await?;
    cluster.apply(orders("18", 3)).await?;
    cluster.settled().await;
    let images: Vec<_> = cluster
        .list::<Pod>()
        .await?
        .into_iter()
        .map(|pod| pod.spec.unwrap().containers[0].image.clone())
        .collect();
    assert_eq!(images, vec![Some("postgres:18".to_owned()); 3]);
    assert_eq!(cluster.get::<Database>("orders").await?.status.unwrap().ready_replicas, 3);
    assert_eq!(password(&cluster).await?, before);
    Ok(())
}

#[evenkeel::test]
async fn a_second_reconcile_writes_nothing_and_triggers_nothing(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    cluster.mark();
    let asked = cluster.requests().len();
    cluster.restart("database");
    cluster.settled().await;
    assert_eq!(testing::lines(&cluster.writes()), Vec::<String>::new());
    let writes = cluster.requests().split_off(asked);
    let writes = writes.iter().filter(|request| &*request.by == "database" && request.method != "GET");
    assert_eq!(writes.count(), 0, "what is equal is not even sent");
    Ok(())
}

#[evenkeel::test]
async fn drift_on_every_child_is_corrected(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    cluster.patch::<StatefulSet>("orders", json!({"spec": {"replicas": 5}})).await?;
    cluster
        .patch::<Service>("orders", json!({"spec": {"selector": {"example.com/database": "other"}}}))
        .await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<StatefulSet>("orders").await?.spec.unwrap().replicas, Some(2));
    let selector = cluster.get::<Service>("orders").await?.spec.unwrap().selector.unwrap();
    assert_eq!(selector["example.com/database"], "orders");

    cluster.delete::<StatefulSet>("orders").await?;
    cluster.delete::<Service>("orders").await?;
    cluster.delete::<Secret>("orders").await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<Database>("orders").await?.status.unwrap().phase, Phase::Running);
    assert_eq!(cluster.list::<Pod>().await?.len(), 2);
    cluster.get::<Service>("orders").await?;
    cluster.get::<Secret>("orders").await?;
    Ok(())
}

#[evenkeel::test]
async fn a_transient_error_is_retried(cluster: Cluster) -> Result<()> {
    cluster.fail(Matcher::writes().by("database").kind::<StatefulSet>(), Fault::InternalError, 3);
    started(&cluster, Arc::new(NoBackup)).await?;
    assert_eq!(cluster.get::<Database>("orders").await?.status.unwrap().phase, Phase::Running);
    Ok(())
}

#[evenkeel::test]
async fn a_permanent_error_is_shown_and_healed_by_the_user(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    cluster.apply(orders("9", 2)).await?;
    cluster.settled().await;
    let status = cluster.get::<Database>("orders").await?.status.unwrap();
    assert_eq!(status.phase, Phase::Rejected);
    let accepted = conditions::find(&status.conditions, "Accepted").unwrap();
    assert_eq!((accepted.status.as_str(), accepted.reason.as_str()), ("False", "Unsupported"));
    assert_eq!(accepted.message, r#"version "9" is not one of 16, 17, 18"#);
    assert_eq!(cluster.list::<Pod>().await?.len(), 2, "what runs goes on running");

    cluster.apply(orders("18", 2)).await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<Database>("orders").await?.status.unwrap().phase, Phase::Running);
    Ok(())
}

#[evenkeel::test]
async fn the_finalizer_holds_the_database_until_the_backup_is_taken(cluster: Cluster) -> Result<()> {
    let shelf = Arc::new(Shelf::default());
    *shelf.full.lock().unwrap() = true;
    started(&cluster, shelf.clone()).await?;
    cluster.delete::<Database>("orders").await?;
    cluster.idle().await;
    assert!(cluster.get::<Database>("orders").await?.metadata.deletion_timestamp.is_some());
    assert_eq!(cluster.list::<Pod>().await?.len(), 2);

    *shelf.full.lock().unwrap() = false;
    cluster.settled().await;
    assert!(shelf.taken.lock().unwrap().contains("orders"));
    assert_eq!(cluster.list::<Database>().await?.len(), 0);
    assert_eq!(cluster.list::<StatefulSet>().await?.len(), 0);
    assert_eq!(
        cluster.list::<Service>().await?.iter().filter(|service| service.name_any() == "orders").count(),
        0
    );
    assert_eq!(cluster.list::<Secret>().await?.len(), 0);
    assert_eq!(cluster.list::<Pod>().await?.len(), 0);
    Ok(())
}

/// Made, changed, deleted, and what stood in between.
async fn a_life(cluster: Cluster) -> Vec<String> {
    let play = async {
        cluster.apply(Database::crd()).await?;
        cluster.apply(orders("17", 2)).await?;
        cluster.settled().await;
        cluster.apply(orders("18", 2)).await?;
        cluster.settled().await;
        let status = cluster.get::<Database>("orders").await?.status.unwrap();
        let mut end = vec![format!("{:?} {} {:?}", status.phase, status.ready_replicas, status.endpoint)];
        for pod in cluster.list::<Pod>().await? {
            end.push(format!("{:?} {:?}", pod.metadata.name, pod.spec.unwrap().containers[0].image));
        }
        end.push(format!(
            "{} secrets, {} services",
            cluster.list::<Secret>().await?.len(),
            cluster.list::<Service>().await?.len()
        ));
        cluster.delete::<Database>("orders").await?;
        cluster.settled().await;
        let left = (cluster.list::<Pod>().await?.len(), cluster.list::<Secret>().await?.len());
        end.push(format!("left: {left:?}"));
        Ok::<_, evenkeel::kube::Error>(end)
    };
    play.await.expect("the scenario's own requests succeed")
}

#[test]
fn a_crash_at_any_write_changes_nothing() {
    let start = |cluster: &Cluster| cluster.run(|| controller(Arc::new(NoBackup)));
    let runs = testing::crash_everywhere("database", start, a_life);
    assert!(runs >= 18, "{runs} runs");
}
