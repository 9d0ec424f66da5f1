//! Deployments and ReplicaSets from creation to Ready.

use evenkeel_cluster::testing;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::world::{deployment, is_ready, object, pod_names, template, with, with_nodes};

#[test]
fn a_deployment_becomes_ready_pods_and_then_rests() {
    with_nodes(2, |cluster| async move {
        cluster.apply::<Deployment>(object(deployment("web", 3, "i:1"))).await?;
        cluster.settled().await;
        let pods = cluster.list::<Pod>().await?;
        assert_eq!(pods.len(), 3);
        assert!(pods.iter().all(is_ready), "{pods:#?}");
        let web = cluster.get::<Deployment>("web").await?;
        let status = web.status.unwrap();
        assert_eq!(
            (status.ready_replicas, status.updated_replicas, status.observed_generation),
            (Some(3), Some(3), Some(1))
        );
        let reasons: Vec<_> =
            status.conditions.unwrap().into_iter().filter_map(|condition| condition.reason).collect();
        assert_eq!(reasons, ["MinimumReplicasAvailable", "NewReplicaSetAvailable"]);

        cluster.mark();
        cluster.patch::<Deployment>("web", json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
        cluster.settled().await;
        let writes = cluster.writes();
        assert_eq!(writes.len(), 1, "only the test itself wrote: {writes:#?}");
        Ok(())
    });
}

#[test]
fn a_deployment_is_scaled_down_to_nothing() {
    with_nodes(1, |cluster| async move {
        cluster.apply::<Deployment>(object(deployment("web", 3, "i:1"))).await?;
        cluster.settled().await;
        cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 0}})).await?;
        cluster.settled().await;
        assert_eq!(pod_names(&cluster).await?, [""; 0]);
        let status = cluster.get::<Deployment>("web").await?.status.unwrap();
        assert_eq!((status.replicas, status.observed_generation), (None, Some(2)));
        Ok(())
    });
}

#[test]
fn a_deleted_deployment_leaves_nothing() {
    with_nodes(1, |cluster| async move {
        cluster.apply::<Deployment>(object(deployment("web", 2, "i:1"))).await?;
        cluster.settled().await;
        cluster.delete::<Deployment>("web").await?;
        cluster.settled().await;
        assert_eq!(cluster.list::<ReplicaSet>().await?.len(), 0);
        assert_eq!(pod_names(&cluster).await?, [""; 0]);
        Ok(())
    });
}

#[test]
fn a_deleted_pod_is_made_again() {
    with_nodes(1, |cluster| async move {
        cluster.apply::<Deployment>(object(deployment("web", 1, "i:1"))).await?;
        cluster.settled().await;
        let before = pod_names(&cluster).await?;
        cluster.delete::<Pod>(&before[0]).await?;
        cluster.settled().await;
        let after = pod_names(&cluster).await?;
        assert_eq!(after.len(), 1);
        assert_ne!(before, after);
        Ok(())
    });
}

#[test]
fn a_replicaset_adopts_and_releases_by_labels() {
    with_nodes(0, |cluster| async move {
        let lone = json!({"metadata": {"name": "lone", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        cluster.api::<Pod>().create(&Default::default(), &object(lone)).await?;
        let set = json!({"metadata": {"name": "rs"}, "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "i")}});
        cluster.api::<ReplicaSet>().create(&Default::default(), &object(set)).await?;
        cluster.settled().await;
        assert_eq!(pod_names(&cluster).await?, ["lone"]);
        let owner = cluster.get::<Pod>("lone").await?.metadata.owner_references.unwrap().remove(0);
        assert_eq!(
            (owner.kind.as_str(), owner.controller, owner.block_owner_deletion),
            ("ReplicaSet", Some(true), Some(true))
        );

        cluster.patch::<Pod>("lone", json!({"metadata": {"labels": {"app": "free"}}})).await?;
        cluster.settled().await;
        assert_eq!(cluster.get::<Pod>("lone").await?.metadata.owner_references, None);
        assert_eq!(pod_names(&cluster).await?.len(), 2, "another one takes its place");
        Ok(())
    });
}

#[test]
fn the_controllers_can_crash_at_any_time() {
    for after in [1_u64, 3, 5, 8, 13, 21] {
        with(testing::options().nodes(1), |cluster| async move {
            cluster.apply::<Deployment>(object(deployment("web", 3, "i:1"))).await?;
            tokio::time::sleep(std::time::Duration::from_millis(after * 5)).await;
            cluster.restart("kube-controller-manager");
            cluster.settled().await;
            let pods = cluster.list::<Pod>().await?;
            assert_eq!(pods.len(), 3);
            assert!(pods.iter().all(is_ready));
            Ok(())
        });
    }
}
