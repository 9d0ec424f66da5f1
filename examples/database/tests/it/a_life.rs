//! A life of a database: a crash at any write of it changes nothing, and it goes within the rules of the manifests.

use std::sync::Arc;

use database::{Database, NAME, NoBackup, controller, operator};
use evenkeel::k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use evenkeel::prelude::*;
use evenkeel::{Manifests, testing};

use crate::{GROWS, class, condition, growing};

/// Made, updated and grown, deleted, and what stood in between.
async fn a_life(cluster: Cluster) -> Vec<String> {
    let play = async {
        cluster.apply(Database::crd()).await?;
        cluster.apply(class(GROWS, true)).await?;
        cluster.apply(growing("17", 1, "1Gi")).await?;
        cluster.settled().await;
        cluster.apply(growing("18", 1, "2Gi")).await?;
        cluster.settled().await;
        let mut end = vec![condition(&cluster, "Ready").await?];
        for pod in cluster.list::<Pod>().await? {
            end.push(format!("{:?} {:?}", pod.metadata.name, pod.spec.unwrap().containers[0].image));
        }
        for claim in cluster.list::<PersistentVolumeClaim>().await? {
            end.push(format!("{:?}", claim.spec.unwrap().resources));
        }
        let (secrets, services) =
            (cluster.list::<Secret>().await?.len(), cluster.list::<Service>().await?.len());
        end.push(format!("{secrets} secrets, {services} services"));
        cluster.delete::<Database>("orders").await?;
        cluster.settled().await;
        let left = cluster.list::<PersistentVolumeClaim>().await?.len() + cluster.list::<Pod>().await?.len();
        end.push(format!("left: {left}"));
        Ok::<_, evenkeel::kube::Error>(end)
    };
    play.await.expect("the scenario's own requests succeed")
}

#[evenkeel::test(embedded = "a run for each write takes a minute")]
fn a_crash_at_any_write_changes_nothing() {
    let runs = testing::crash_everywhere(NAME, start, a_life);
    assert!(runs >= 36, "{runs} runs");
}

fn start(cluster: &Cluster) {
    cluster.run(|| controller(Arc::new(NoBackup)));
}

fn manifests() -> Manifests {
    operator().manifests("operators").unwrap()
}

#[test]
fn it_runs_as_its_account_within_its_rules() {
    testing::assert_file("verbs.txt", &testing::as_service_account(manifests, start, a_life));
}

#[evenkeel::test(embedded = "a rule of the whole cluster is taken away")]
fn it_needs_each_of_its_rules() {
    let spare = testing::unused_rules(manifests, start, a_life);
    let expected = [
        "persistentvolumeclaims: list",
        "secrets: list",
        "services: list",
        "statefulsets.apps: list",
        "events.events.k8s.io: patch",
        "databases.example.com: get",
        "databases.example.com: list",
        "databases.example.com/finalizers: update",
    ];
    // For a server that streams no lists, for an event that comes again, for a cache that is behind, for OpenShift.
    assert_eq!(spare, expected);
}
