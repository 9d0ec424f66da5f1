//! Storage grows under servers that go on running.

use std::sync::Arc;

use database::{Database, NoBackup};
use evenkeel::k8s_openapi::api::apps::v1::StatefulSet;
use evenkeel::k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use evenkeel::kube::Result;
use evenkeel::prelude::*;

use crate::{condition, orders, started};

fn sized(storage: &str) -> Database {
    let mut database = orders("17", 2);
    database.spec.storage = storage.into();
    database
}

fn requested(claim: &PersistentVolumeClaim) -> String {
    let requests = claim.spec.clone().unwrap().resources.unwrap().requests.unwrap();
    requests["storage"].0.clone()
}

async fn pod_uids(cluster: &Cluster) -> Result<Vec<Option<String>>> {
    Ok(cluster.list::<Pod>().await?.iter().map(ResourceExt::uid).collect())
}

#[evenkeel::test(embedded = "claims without a class do not grow elsewhere")]
async fn storage_grows_and_no_server_is_restarted(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
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

#[evenkeel::test(embedded = "claims without a class do not grow elsewhere")]
async fn a_new_server_gets_the_grown_storage(cluster: Cluster) -> Result<()> {
    started(&cluster, Arc::new(NoBackup)).await?;
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
    started(&cluster, Arc::new(NoBackup)).await?;
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
