//! A database is created, changed, disturbed and deleted.

use std::sync::Arc;

use database::{
    Backup, BackupError, Database, FINALIZER, NAME, NoBackup, Phase, SAMPLE, add_to, controller, v2,
};
use evenkeel::cluster::{Fault, Matcher};
use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use evenkeel::kube::Result;
use evenkeel::prelude::*;
use evenkeel::yaml;
use parking_lot::Mutex;
use serde_json::json;

use crate::{GROWS, class, condition, growing, orders, password, started};

/// A storage of backups that can be full.
#[derive(Default)]
struct Shelf {
    full: Mutex<bool>,
    taken: Mutex<Vec<String>>,
}

impl Backup for Shelf {
    async fn take(&self, _: &Client, database: &Database) -> Result<(), BackupError> {
        if *self.full.lock() {
            return Err(BackupError("the shelf is full".into()));
        }
        self.taken.lock().push(evenkeel::Request::of(database).to_string());
        Ok(())
    }
}

#[evenkeel::test]
async fn a_database_becomes_its_children_and_runs(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    let database = cluster.get::<Database>("orders").await?;
    let status = database.status.clone().unwrap();
    assert_eq!((status.phase, status.ready_replicas), (Phase::Running, 2));
    assert_eq!(status.endpoint.as_deref(), Some(&*format!("orders.{}.svc:5432", cluster.namespace())));
    assert_eq!(status.observed_generation, database.metadata.generation);
    assert_eq!(condition(&cluster, "Accepted").await?, "True Valid: the spec can be carried out");
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");
    assert_eq!(database.finalizers(), [FINALIZER]);

    assert_eq!(password(&cluster).await?.len(), 24);
    assert_eq!(cluster.get::<Service>("orders").await?.spec.unwrap().cluster_ip.as_deref(), Some("None"));
    let pods: Vec<_> = cluster.list::<Pod>().await?.iter().map(ResourceExt::name_any).collect();
    assert_eq!(pods, ["orders-0", "orders-1"]);
    for claim in cluster.list::<PersistentVolumeClaim>().await? {
        assert_eq!(claim.status.unwrap().phase.as_deref(), Some("Bound"));
    }
    Ok(())
}

#[evenkeel::test]
async fn the_sample_works_and_the_definition_is_that_of_the_type(cluster: Cluster) -> Result<()> {
    let written = yaml::parse(include_str!("../../crd.yaml")).unwrap();
    let written = serde_json::to_value(&written[0]).unwrap();
    assert_eq!(
        written,
        serde_json::to_value(v2::definition()).unwrap(),
        "make crd.yaml anew: see the README"
    );
    cluster.apply(v2::definition()).await?;
    cluster.run(|| controller(Arc::new(NoBackup)));
    cluster.apply_yaml(SAMPLE).await.unwrap();
    cluster.settled().await;
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");
    Ok(())
}

#[evenkeel::test(nodes = 0, embedded = "there must be no node")]
async fn it_does_not_run_before_its_servers_do(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    assert_eq!(cluster.get::<Database>("orders").await?.status.unwrap().phase, Phase::Creating);
    assert_eq!(condition(&cluster, "Ready").await?, "False ServersStarting: 0 of 2 servers are ready");
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

    let stolen = cluster.patch::<Secret>("orders", json!({"stringData": {"password": "mine"}})).await;
    let error = stolen.unwrap_err().to_string();
    assert!(error.contains("field is immutable when `immutable` is set"), "{error}");
    Ok(())
}

#[evenkeel::test]
async fn a_second_reconcile_writes_nothing_and_asks_for_nothing(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    cluster.mark();
    let asked = cluster.requests().len();
    cluster.restart(NAME);
    cluster.settled().await;
    cluster.assert_no_writes();
    let requests = cluster.requests().split_off(asked);
    let writes = requests.iter().filter(|request| &*request.by == NAME && request.method != "GET");
    assert_eq!(writes.count(), 0, "what is equal is not even sent");
    Ok(())
}

#[evenkeel::test]
async fn drift_on_every_child_is_corrected(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
    cluster.patch::<StatefulSet>("orders", json!({"spec": {"replicas": 5}})).await?;
    let astray = json!({"spec": {"selector": {"example.com/database": "other"}}});
    cluster.patch::<Service>("orders", astray).await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<StatefulSet>("orders").await?.spec.unwrap().replicas, Some(2));
    let selector = cluster.get::<Service>("orders").await?.spec.unwrap().selector.unwrap();
    assert_eq!(selector["example.com/database"], "orders");

    // Each child alone: the drift of another one would trigger the same reconcile.
    cluster.delete::<Secret>("orders").await?;
    cluster.settled().await;
    cluster.get::<Secret>("orders").await?;
    cluster.delete::<Service>("orders").await?;
    cluster.settled().await;
    cluster.get::<Service>("orders").await?;
    cluster.delete::<StatefulSet>("orders").await?;
    cluster.settled().await;
    assert_eq!(cluster.get::<Database>("orders").await?.status.unwrap().phase, Phase::Running);
    assert_eq!(cluster.list::<Pod>().await?.len(), 2);
    Ok(())
}

#[evenkeel::test]
async fn a_transient_error_is_retried(cluster: Cluster) -> Result<()> {
    let servers = || Matcher::writes().by(NAME).kind::<StatefulSet>();
    cluster.fail(servers(), Fault::InternalError, 2);
    cluster.fail(servers(), Fault::TooManyRequests, 1);
    cluster.fail(servers(), Fault::LostAnswer, 1);
    started(&cluster, Arc::new(NoBackup)).await?;
    assert_eq!(cluster.get::<Database>("orders").await?.status.unwrap().phase, Phase::Running);
    Ok(())
}

#[evenkeel::test]
async fn the_finalizer_holds_the_database_until_the_backup_is_taken(cluster: Cluster) -> Result<()> {
    let shelf = Arc::new(Shelf::default());
    *shelf.full.lock() = true;
    started(&cluster, shelf.clone()).await?;
    cluster.delete::<Database>("orders").await?;
    cluster.idle().await;
    assert!(cluster.get::<Database>("orders").await?.metadata.deletion_timestamp.is_some());
    assert_eq!(cluster.list::<Pod>().await?.len(), 2);

    *shelf.full.lock() = false;
    cluster.eventually_gone::<StatefulSet>("orders").await;
    cluster.eventually_gone::<Secret>("orders").await;
    cluster.settled().await;
    assert_eq!(*shelf.taken.lock(), [format!("{}/orders", cluster.namespace())], "one, and once");
    assert_eq!(cluster.list::<Database>().await?.len(), 0);
    assert_eq!(cluster.list::<StatefulSet>().await?.len(), 0);
    assert_eq!(cluster.get_opt::<Service>("orders").await?, None);
    assert_eq!(cluster.list::<Secret>().await?.len(), 0);
    assert_eq!(cluster.list::<Pod>().await?.len(), 0);
    assert_eq!(cluster.list::<PersistentVolumeClaim>().await?.len(), 0);
    Ok(())
}

#[evenkeel::explore]
async fn a_life(cluster: Cluster) -> Result<()> {
    cluster.apply(v2::definition()).await?;
    cluster.apply(class(GROWS, true)).await?;
    cluster.run_manager(NAME, |manager| add_to(manager, Arc::new(NoBackup)));
    cluster.apply(growing("17", 1, "1Gi")).await?;
    cluster.settled().await;
    cluster.apply(growing("18", 2, "2Gi")).await?;
    cluster.settled().await;
    cluster.delete::<Database>("orders").await?;
    cluster.settled().await;
    Ok(())
}
