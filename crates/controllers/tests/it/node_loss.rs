//! Nodes that fail, are tainted or deleted, and what becomes of their pods.

use std::time::Duration;

use evenkeel_cluster::Cluster;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::{Value, json};

use crate::world::{deployment, is_ready, object, with_nodes};

fn pod(name: &str, spec: Value) -> Pod {
    let mut full = json!({"containers": [{"name": "c", "image": "i"}], "nodeName": "node-1"});
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": full}))
}

fn tolerates(key: &str, seconds: Value) -> Value {
    json!({"tolerations": [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]})
}

async fn taint(cluster: &Cluster, taints: Value) -> kube::Result<()> {
    cluster.patch::<Node>("node-1", json!({"spec": {"taints": taints}})).await.map(drop)
}

fn evict() -> Value {
    json!([{"key": "evict", "value": "yes", "effect": "NoExecute"}])
}

async fn names(cluster: &Cluster) -> kube::Result<Vec<String>> {
    crate::world::pod_names(cluster).await
}

/// Returns reason, reporter and message of the events about an object.
async fn events(cluster: &Cluster, name: &str) -> kube::Result<Vec<String>> {
    let events = cluster.list::<Event>().await?;
    let about = events.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
    let line = |event: Event| {
        let [reason, by, text] =
            [event.reason, event.reporting_component, event.message].map(Option::unwrap_or_default);
        format!("{reason} {by} {text}")
    };
    Ok(about.map(line).collect())
}

fn condition(pod: &Pod, kind: &str) -> Option<(String, String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|it| it.type_ == kind)?.clone();
    Some((found.status, found.reason.unwrap_or_default(), found.message.unwrap_or_default()))
}

#[test]
fn a_taint_evicts_those_that_do_not_tolerate_it() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("plain", json!({}))).await?;
        let mut held = pod("held", json!({}));
        held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
        cluster.apply(held).await?;
        cluster.apply(pod("tolerant", tolerates("evict", Value::Null))).await?;
        cluster.settled().await;
        taint(&cluster, evict()).await?;
        cluster.settled().await;
        assert_eq!(names(&cluster).await?, ["held", "tolerant"]);
        let held = cluster.get::<Pod>("held").await?;
        let why = ("True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        assert_eq!(condition(&held, "DisruptionTarget"), Some((why.0.into(), why.1.into(), why.2.into())));
        let marked = "TaintManagerEviction taint-eviction-controller Marking for deletion Pod default/plain";
        assert!(events(&cluster, "plain").await?.contains(&marked.to_owned()));
        assert!(is_ready(&cluster.get::<Pod>("tolerant").await?));
        Ok(())
    });
}

#[test]
fn a_pod_stays_as_long_as_it_tolerates_the_taint() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("short", tolerates("evict", json!(5)))).await?;
        cluster.apply(pod("long", tolerates("evict", json!(3600)))).await?;
        cluster.settled().await;
        let begin = cluster.env().now();
        taint(&cluster, evict()).await?;
        // Five seconds are work, for which a test waits; an hour is upkeep.
        cluster.settled().await;
        assert_eq!(names(&cluster).await?, ["long"]);
        let passed = cluster.env().now().duration_since(begin).as_secs();
        assert!((5..20).contains(&passed), "{passed}");
        cluster.advance(Duration::from_secs(3590)).await;
        assert_eq!(names(&cluster).await?, ["long"]);
        cluster.advance(Duration::from_secs(30)).await;
        cluster.settled().await;
        assert!(names(&cluster).await?.is_empty());
        Ok(())
    });
}

#[test]
fn a_taint_that_is_removed_cancels_the_eviction() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", tolerates("evict", json!(600)))).await?;
        cluster.settled().await;
        taint(&cluster, evict()).await?;
        cluster.advance(Duration::from_secs(300)).await;
        taint(&cluster, Value::Null).await?;
        cluster.advance(Duration::from_secs(900)).await;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        let cancelled = "TaintManagerEviction taint-eviction-controller Cancelling deletion of Pod default/a";
        assert!(events(&cluster, "a").await?.contains(&cancelled.to_owned()));
        Ok(())
    });
}

#[test]
fn of_several_taints_the_shortest_toleration_counts() {
    with_nodes(1, |cluster| async move {
        let both = json!({"tolerations": [
            {"key": "evict", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 900},
            {"key": "soon", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120}]});
        cluster.apply(pod("a", both)).await?;
        cluster.settled().await;
        let taints = json!([{"key": "evict", "effect": "NoExecute"}, {"key": "soon", "effect": "NoExecute"}]);
        taint(&cluster, taints).await?;
        cluster.advance(Duration::from_secs(100)).await;
        assert_eq!(names(&cluster).await?, ["a"]);
        cluster.advance(Duration::from_secs(30)).await;
        cluster.settled().await;
        assert!(names(&cluster).await?.is_empty());
        Ok(())
    });
}

/// The whole story of a machine that loses power and comes back.
#[test]
fn a_node_that_stops_loses_its_pods() {
    with_nodes(2, |cluster| async move {
        let web: Deployment = object(deployment("web", 2, "i"));
        cluster.apply(web).await?;
        cluster.settled().await;
        cluster.stop_node("node-1").await?;
        cluster.advance(Duration::from_secs(40)).await;
        assert_eq!(ready_pods(&cluster).await?, 2, "the lease is still valid");
        cluster.advance(Duration::from_secs(20)).await;
        let node = serde_json::to_value(cluster.get::<Node>("node-1").await?)?;
        let taints: Vec<_> =
            node["spec"]["taints"].as_array().unwrap().iter().map(|it| it["effect"].clone()).collect();
        assert_eq!(taints, ["NoSchedule", "NoExecute"]);
        assert_eq!(ready_pods(&cluster).await?, 1, "the pod of the lost node is not ready");
        let told = events(&cluster, "node-1").await?;
        assert!(
            told.contains(&"NodeNotReady node-controller Node node-1 status is now: NodeNotReady".to_owned()),
            "{told:?}"
        );
        // Every pod tolerates that for five minutes.
        cluster.advance(Duration::from_secs(310)).await;
        cluster.settled().await;
        assert_eq!((ready_pods(&cluster).await?, names(&cluster).await?.len()), (2, 3));
        // The lost pod is being deleted, and nobody is there who could end it.
        cluster.start_node("node-1").await?;
        cluster.advance(Duration::from_secs(15)).await;
        cluster.settled().await;
        assert_eq!((ready_pods(&cluster).await?, names(&cluster).await?.len()), (2, 2));
        let node = serde_json::to_value(cluster.get::<Node>("node-1").await?)?;
        assert!(node["spec"]["taints"].is_null(), "{}", node["spec"]);
        Ok(())
    });
}

async fn ready_pods(cluster: &Cluster) -> kube::Result<usize> {
    let pods = cluster.list::<Pod>().await?;
    Ok(pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_ready(pod)).count())
}

#[test]
fn a_node_that_comes_back_in_time_keeps_its_pods() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", json!({}))).await?;
        cluster.settled().await;
        cluster.patch_status::<Node>("node-1", json!({"status": {"capacity": {"example.com/foo": "5"}, "allocatable": {"example.com/foo": "5"}}})).await?;
        cluster.stop_node("node-1").await?;
        cluster.advance(Duration::from_secs(120)).await;
        assert!(!is_ready(&cluster.get::<Pod>("a").await?));
        cluster.start_node("node-1").await?;
        cluster.advance(Duration::from_secs(600)).await;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        let node = serde_json::to_value(cluster.get::<Node>("node-1").await?)?;
        assert_eq!(node["status"]["allocatable"]["example.com/foo"], "5", "what others have added stays");
        Ok(())
    });
}

#[test]
fn a_deleted_node_stays_deleted_and_its_pods_go() {
    with_nodes(2, |cluster| async move {
        let web: Deployment = object(deployment("web", 2, "i"));
        cluster.apply(web).await?;
        let mut held = pod("held", json!({}));
        held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
        cluster.apply(held).await?;
        cluster.settled().await;
        cluster.delete::<Node>("node-1").await?;
        cluster.settled().await;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.settled().await;
        assert_eq!(cluster.list::<Node>().await?.len(), 1);
        let held = cluster.get::<Pod>("held").await?;
        assert_eq!(held.status.as_ref().unwrap().phase.as_deref(), Some("Failed"));
        let why = ("True", "DeletionByPodGC", "PodGC: node no longer exists");
        assert_eq!(condition(&held, "DisruptionTarget"), Some((why.0.into(), why.1.into(), why.2.into())));
        assert_eq!(ready_pods(&cluster).await?, 2);
        let nodes: Vec<_> = cluster
            .list::<Pod>()
            .await?
            .into_iter()
            .filter(|pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none())
            .map(|pod| pod.spec.unwrap().node_name.unwrap())
            .collect();
        assert_eq!(nodes, ["node-2", "node-2"]);
        let told = events(&cluster, "node-1").await?;
        let removed = "RemovingNode node-controller Node node-1 event: Removing Node node-1 from Controller";
        assert!(told.contains(&removed.to_owned()), "{told:?}");
        Ok(())
    });
}

#[test]
fn pods_on_a_node_that_is_out_of_service_go() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", json!({}))).await?;
        cluster.settled().await;
        cluster.stop_node("node-1").await?;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.delete::<Pod>("a").await?;
        cluster.advance(Duration::from_secs(60)).await;
        cluster.settled().await;
        assert_eq!(names(&cluster).await?, ["a"], "nobody is there to end it");
        let node = serde_json::to_value(cluster.get::<Node>("node-1").await?)?;
        let mut taints = node["spec"]["taints"].as_array().unwrap().clone();
        taints.push(json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}));
        taint(&cluster, json!(taints)).await?;
        cluster.settled().await;
        assert!(names(&cluster).await?.is_empty());
        Ok(())
    });
}
