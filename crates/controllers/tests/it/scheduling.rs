//! The scheduler: where pods are placed, and why they are unschedulable.

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::world::{is_ready, object, with_nodes};

fn pod(name: &str, extra: Value) -> Pod {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}))
}

fn wants(name: &str, cpu: &str) -> Pod {
    pod(name, json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}))
}

fn scheduled(pod: &Pod) -> (String, String) {
    let condition = pod
        .status
        .as_ref()
        .unwrap()
        .conditions
        .as_ref()
        .unwrap()
        .iter()
        .find(|one| one.type_ == "PodScheduled");
    let condition = condition.expect("the scheduler has spoken").clone();
    (condition.status, condition.message.unwrap_or_default())
}

#[test]
fn pods_spread_over_the_nodes() {
    with_nodes(2, |cluster| async move {
        for name in ["a", "b"] {
            cluster.apply(wants(name, "1")).await?;
        }
        cluster.settled().await;
        let pods = cluster.list::<Pod>().await?;
        let mut nodes: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        nodes.sort();
        assert_eq!(nodes, ["node-1", "node-2"]);
        assert!(pods.iter().all(is_ready));
        let addresses: std::collections::BTreeSet<_> =
            pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect();
        assert_eq!(addresses.len(), 2);
        Ok(())
    });
}

#[test]
fn a_pod_that_fits_nowhere_says_why_and_waits_for_room() {
    with_nodes(1, |cluster| async move {
        cluster.apply(wants("big", "20")).await?;
        cluster.apply(wants("more", "20")).await?;
        cluster.settled().await;
        let waiting = cluster.get::<Pod>("more").await?;
        assert_eq!(
            scheduled(&waiting),
            (
                "False".to_owned(),
                "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: \
                 1 No preemption victims found for incoming pod."
                    .to_owned()
            )
        );
        cluster.delete::<Pod>("big").await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("more").await?));
        Ok(())
    });
}

#[test]
fn selectors_and_taints_are_honoured() {
    with_nodes(2, |cluster| async move {
        cluster.patch::<Node>("node-2", json!({"metadata": {"labels": {"disk": "fast"}}})).await?;
        let taint = json!({"spec": {"taints": [{"key": "own", "value": "yes", "effect": "NoSchedule"}]}});
        cluster.patch::<Node>("node-1", taint).await?;
        cluster.settled().await;
        cluster.apply(pod("picky", json!({"nodeSelector": {"disk": "fast"}}))).await?;
        cluster
            .apply(pod(
                "tolerant",
                json!({"nodeName": null, "nodeSelector": {"kubernetes.io/hostname": "node-1"},
            "tolerations": [{"key": "own", "operator": "Exists"}]}),
            ))
            .await?;
        cluster.apply(pod("lost", json!({"nodeSelector": {"disk": "slow"}}))).await?;
        cluster.settled().await;
        let picky = cluster.get::<Pod>("picky").await?.spec.unwrap().node_name;
        let tolerant = cluster.get::<Pod>("tolerant").await?.spec.unwrap().node_name;
        assert_eq!(picky.as_deref(), Some("node-2"));
        assert_eq!(tolerant.as_deref(), Some("node-1"));
        let (_, message) = scheduled(&cluster.get::<Pod>("lost").await?);
        assert!(message.starts_with("0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)."), "{message}");
        Ok(())
    });
}

#[test]
fn a_cordoned_node_takes_no_more_pods() {
    with_nodes(1, |cluster| async move {
        cluster.patch::<Node>("node-1", json!({"spec": {"unschedulable": true}})).await?;
        cluster.settled().await;
        cluster.apply(pod("a", json!({}))).await?;
        cluster.settled().await;
        assert_eq!(scheduled(&cluster.get::<Pod>("a").await?).0, "False");
        cluster.patch::<Node>("node-1", json!({"spec": {"unschedulable": null}})).await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}

#[test]
fn without_nodes_pods_wait() {
    with_nodes(0, |cluster| async move {
        cluster.apply(pod("a", json!({}))).await?;
        cluster.settled().await;
        let (status, message) = scheduled(&cluster.get::<Pod>("a").await?);
        assert_eq!((status.as_str(), message.as_str()), ("False", "no nodes available to schedule pods"));
        Ok(())
    });
}
