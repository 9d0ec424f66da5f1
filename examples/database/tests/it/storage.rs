//! Storage grows while the servers keep running.

use std::sync::Arc;

use database::{Database, NoBackup, controller, v2};
use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use evenkeel::k8s_openapi::api::storage::v1::StorageClass;
use evenkeel::kube::Result;
use evenkeel::prelude::*;

use crate::{GROWS, class, condition, growing};

fn sized(storage: &str) -> Database {
    growing("17", 2, storage)
}

/// Creates the definition, runs the operator, and applies `orders` on storage of this class.
async fn started_on(cluster: &Cluster, class: StorageClass) -> Result<()> {
    cluster.apply(v2::definition()).await?;
    cluster.run(|| controller(Arc::new(NoBackup)));
    let mut database = sized("1Gi");
    database.spec.storage_class = class.metadata.name.clone();
    cluster.apply(class).await?;
    cluster.apply(database).await?;
    cluster.settled().await;
    Ok(())
}

fn requested(claim: &PersistentVolumeClaim) -> String {
    let requests = claim.spec.clone().unwrap().resources.unwrap().requests.unwrap();
    requests["storage"].0.clone()
}

async fn pod_uids(cluster: &Cluster) -> Result<Vec<Option<String>>> {
    Ok(cluster.list::<Pod>().await?.iter().map(ResourceExt::uid).collect())
}

#[evenkeel::test(embedded = "real volumes do not grow in this set-up")]
async fn storage_grows_and_no_server_is_restarted(cluster: Cluster) -> Result<()> {
    started_on(&cluster, class(GROWS, true)).await?;
    let (pods, servers) = (pod_uids(&cluster).await?, cluster.get::<StatefulSet>("orders").await?.uid());
    cluster.apply(sized("3Gi")).await?;
    cluster.settled().await;
    for claim in cluster.list::<PersistentVolumeClaim>().await? {
        assert_eq!(requested(&claim), "3Gi", "{}", claim.name_any());
        let status = claim.status.unwrap();
        assert_eq!(
            (status.phase.as_deref(), &*status.capacity.unwrap()["storage"].0),
            (Some("Bound"), "3Gi")
        );
    }
    let grown = cluster.get::<StatefulSet>("orders").await?;
    assert_ne!(grown.uid(), servers, "its template cannot be changed: it was made anew");
    assert_eq!(requested(&grown.spec.unwrap().volume_claim_templates.unwrap()[0]), "3Gi");
    assert_eq!(pod_uids(&cluster).await?, pods, "the pods were left alone, and adopted");
    for pod in cluster.list::<Pod>().await? {
        assert_eq!(Some(pod.metadata.owner_references.unwrap()[0].uid.clone()), grown.metadata.uid);
    }
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");
    Ok(())
}

#[evenkeel::test(embedded = "real volumes do not grow in this set-up")]
async fn a_new_server_gets_the_grown_storage(cluster: Cluster) -> Result<()> {
    started_on(&cluster, class(GROWS, true)).await?;
    let mut larger = sized("2Gi");
    larger.spec.replicas = 3;
    cluster.apply(larger).await?;
    cluster.settled().await;
    let sizes: Vec<_> = cluster.list::<PersistentVolumeClaim>().await?.iter().map(requested).collect();
    assert_eq!(sizes, ["2Gi", "2Gi", "2Gi"]);
    Ok(())
}

#[evenkeel::test]
async fn storage_does_not_shrink_but_may_be_written_otherwise(cluster: Cluster) -> Result<()> {
    started_on(&cluster, class(GROWS, true)).await?;
    let servers = cluster.get::<StatefulSet>("orders").await?.uid();
    cluster.apply(sized("512Mi")).await?;
    cluster.settled().await;
    let told = "False StorageShrinks: storage is 1Gi, and cannot shrink to 512Mi";
    assert_eq!(condition(&cluster, "Accepted").await?, told);

    cluster.apply(sized("1024Mi")).await?;
    cluster.settled().await;
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");
    assert_eq!(cluster.get::<StatefulSet>("orders").await?.uid(), servers);
    Ok(())
}

#[evenkeel::test]
async fn storage_that_may_not_grow_is_told(cluster: Cluster) -> Result<()> {
    const FIXED: &str = "evenkeel-fixed";
    started_on(&cluster, class(FIXED, false)).await?;
    let mut larger = sized("2Gi");
    larger.spec.storage_class = Some(FIXED.into());
    cluster.apply(larger).await?;
    // The cluster settles: the operator does not retry with a class that does not allow expansion.
    cluster.settled().await;
    let told = condition(&cluster, "Accepted").await?;
    assert!(told.starts_with("False Refused: patch PersistentVolumeClaim"), "{told}");
    assert!(told.contains("the storageclass that provisions the pvc must support resize"), "{told}");
    assert_eq!(condition(&cluster, "Ready").await?, "True ServersReady: 2 of 2 servers are ready");
    Ok(())
}
