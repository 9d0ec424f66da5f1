//! StatefulSets: order, identity, updates.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use crate::world::{is_ready, object, pod_names, template, with_nodes};

fn set(replicas: i32, image: &str, extra: Value) -> StatefulSet {
    let mut spec = json!({
        "replicas": replicas, "serviceName": "dbs", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", image),
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    object(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}))
}

#[test]
fn pods_come_in_order_and_go_in_reverse() {
    with_nodes(1, |cluster| async move {
        cluster.apply(set(3, "i:1", json!({}))).await?;
        cluster.settled().await;
        assert_eq!(pod_names(&cluster).await?, ["db-0", "db-1", "db-2"]);
        let pods = cluster.list::<Pod>().await?;
        assert!(pods.iter().all(is_ready));
        let created: Vec<u64> = pods.iter().map(|pod| order(&cluster, pod)).collect();
        assert!(created.is_sorted(), "{created:?}");
        let status = cluster.get::<StatefulSet>("db").await?.status.unwrap();
        assert_eq!((status.replicas, status.ready_replicas, status.current_replicas), (3, Some(3), Some(3)));
        assert_eq!(status.current_revision, status.update_revision);

        cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await?;
        cluster.settled().await;
        assert_eq!(pod_names(&cluster).await?, ["db-0"]);
        cluster.mark();
        cluster.patch::<StatefulSet>("db", json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
        cluster.settled().await;
        assert_eq!(cluster.writes().len(), 1, "{:#?}", cluster.writes());
        Ok(())
    });
}

/// Returns the position of the pod's creation among all requests of the cluster.
fn order(cluster: &evenkeel_cluster::Cluster, pod: &Pod) -> u64 {
    let name = pod.metadata.name.as_deref().unwrap();
    let needle = format!("\"name\":\"{name}\"");
    let made = |exchange: &evenkeel_cluster::Exchange| {
        exchange.method == "POST"
            && exchange.path.contains("/pods?")
            && String::from_utf8_lossy(&exchange.body).contains(&needle)
    };
    cluster.requests().iter().position(made).map_or(u64::MAX, |at| at as u64)
}

#[test]
fn an_update_rolls_from_the_highest_down_to_the_partition() {
    with_nodes(1, |cluster| async move {
        let partition = |at: i32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": at}}});
        cluster.apply(set(3, "i:1", partition(0))).await?;
        cluster.settled().await;
        cluster.apply(set(3, "i:2", partition(2))).await?;
        cluster.settled().await;
        let images = |pods: Vec<Pod>| {
            pods.into_iter()
                .map(|pod| pod.spec.unwrap().containers[0].image.clone().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(images(cluster.list::<Pod>().await?), ["i:1", "i:1", "i:2"]);
        let status = cluster.get::<StatefulSet>("db").await?.status.unwrap();
        assert_ne!(status.current_revision, status.update_revision);
        cluster.apply(set(3, "i:2", partition(0))).await?;
        cluster.settled().await;
        assert_eq!(images(cluster.list::<Pod>().await?), ["i:2", "i:2", "i:2"]);
        let status = cluster.get::<StatefulSet>("db").await?.status.unwrap();
        assert_eq!(status.current_revision, status.update_revision);
        assert_eq!(cluster.list::<ControllerRevision>().await?.len(), 2);
        Ok(())
    });
}

#[test]
fn every_pod_has_its_claim_and_keeps_it() {
    with_nodes(1, |cluster| async move {
        let claims = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]});
        cluster.apply(set(2, "i:1", claims)).await?;
        cluster.settled().await;
        let names = |claims: Vec<PersistentVolumeClaim>| {
            claims.into_iter().filter_map(|claim| claim.metadata.name).collect::<Vec<_>>()
        };
        assert_eq!(names(cluster.list::<PersistentVolumeClaim>().await?), ["data-db-0", "data-db-1"]);
        assert!(cluster.list::<Pod>().await?.iter().all(is_ready));
        cluster.delete::<StatefulSet>("db").await?;
        cluster.settled().await;
        assert_eq!(pod_names(&cluster).await?, [""; 0]);
        assert_eq!(names(cluster.list::<PersistentVolumeClaim>().await?), ["data-db-0", "data-db-1"]);
        Ok(())
    });
}
