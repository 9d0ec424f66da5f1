//! A crash at any write changes nothing.

use std::sync::Arc;

use database::{Database, NAME, NoBackup, controller};
use evenkeel::k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use evenkeel::prelude::*;
use evenkeel::testing;

use crate::{condition, orders};

/// Made, updated and grown, deleted, and what stood in between.
async fn a_life(cluster: Cluster) -> Vec<String> {
    let play = async {
        cluster.apply(Database::crd()).await?;
        cluster.apply(orders("17", 1)).await?;
        cluster.settled().await;
        let mut changed = orders("18", 1);
        changed.spec.storage = "2Gi".into();
        cluster.apply(changed).await?;
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

#[test]
fn a_crash_at_any_write_changes_nothing() {
    let why = "a run for each write takes a minute";
    if testing::skip::<()>(concat!(module_path!(), "::a_crash_at_any_write_changes_nothing"), why).is_some() {
        return;
    }
    let start = |cluster: &Cluster| cluster.run(|| controller(Arc::new(NoBackup)));
    let runs = testing::crash_everywhere(NAME, start, a_life);
    assert!(runs >= 36, "{runs} runs");
}
