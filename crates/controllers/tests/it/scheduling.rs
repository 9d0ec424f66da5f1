//! The scheduler: where pods are placed, and why they are unschedulable.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

use evenkeel_cluster::Cluster;

use crate::world::{is_ready, object, pod_names, with_nodes};

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

/// Creates priority classes, and an extended resource of which the first node has five.
async fn preparations(cluster: &Cluster) -> kube::Result<()> {
    for (name, value) in [("low", 1), ("medium", 100), ("high", 1000)] {
        cluster.apply(object::<PriorityClass>(json!({"metadata": {"name": name}, "value": value}))).await?;
    }
    let five = json!({"example.com/foo": "5"});
    let status = json!({"status": {"capacity": five, "allocatable": five}});
    cluster.patch_status::<Node>("node-1", status).await.map(drop)
}

/// Returns a pod with a priority class that requests an extended resource.
fn takes(name: &str, class: &str, amount: &str, extra: Value) -> Pod {
    let resources = json!({"requests": {"example.com/foo": amount}, "limits": {"example.com/foo": amount}});
    let mut spec = json!({"containers": [{"name": "c", "image": "i", "resources": resources}], "priorityClassName": class});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    pod(name, spec)
}

/// Returns a pod that stays after its deletion, so that a test can look at it.
fn held(mut pod: Pod) -> Pod {
    pod.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    pod
}

fn condition(pod: &Pod, kind: &str) -> Option<Value> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    Some(serde_json::to_value(conditions.iter().find(|it| it.type_ == kind)?).unwrap())
}

/// As in the conformance tests "basic preemption" and "pod disruption condition".
#[test]
fn a_pod_of_higher_priority_preempts_one_of_lower_priority() {
    with_nodes(1, |cluster| async move {
        preparations(&cluster).await?;
        cluster.apply(held(takes("low", "low", "2", json!({})))).await?;
        cluster.apply(takes("medium", "medium", "2", json!({}))).await?;
        cluster.settled().await;
        cluster.apply(takes("high", "high", "2", json!({}))).await?;
        cluster.settled().await;
        let victim = cluster.get::<Pod>("low").await?;
        assert!(victim.metadata.deletion_timestamp.is_some());
        let why = condition(&victim, "DisruptionTarget").unwrap();
        assert_eq!(why["reason"], "PreemptionByScheduler");
        assert_eq!(why["message"], "default-scheduler: preempting to accommodate a higher priority pod");
        let high = cluster.get::<Pod>("high").await?;
        let uid = high.metadata.uid.clone().unwrap();
        let events = cluster.list::<Event>().await?;
        let preempted = events.iter().find(|event| event.reason.as_deref() == Some("Preempted")).unwrap();
        let told = preempted.message.clone().unwrap();
        assert_eq!(told, format!("Preempted by pod {uid} on node node-1"));
        assert_eq!(preempted.reporting_component.as_deref(), Some("default-scheduler"));
        cluster.patch::<Pod>("low", json!({"metadata": {"finalizers": null}})).await?;
        cluster.settled().await;
        assert_eq!(pod_names(&cluster).await?, ["high", "medium"]);
        assert!(is_ready(&cluster.get::<Pod>("high").await?));
        Ok(())
    });
}

#[test]
fn room_is_kept_for_the_pod_for_which_it_was_made() {
    with_nodes(1, |cluster| async move {
        preparations(&cluster).await?;
        cluster.apply(takes("low", "low", "5", json!({}))).await?;
        cluster.settled().await;
        // The victim takes its time to stop.
        let slow = json!({"metadata": {"annotations": {"node.evenkeel.dev/stop-after": "20s"}}});
        cluster.patch::<Pod>("low", slow).await?;
        cluster.apply(takes("high", "high", "5", json!({}))).await?;
        cluster.advance(std::time::Duration::from_secs(5)).await;
        let high = cluster.get::<Pod>("high").await?;
        assert_eq!(high.status.as_ref().unwrap().nominated_node_name.as_deref(), Some("node-1"));
        let (_, message) = scheduled(&high);
        assert_eq!(message, "0/1 nodes are available: 1 Insufficient example.com/foo.");
        cluster.apply(takes("late", "medium", "1", json!({}))).await?;
        cluster.settled().await;
        let high = cluster.get::<Pod>("high").await?;
        assert!(is_ready(&high));
        assert_eq!(high.status.unwrap().nominated_node_name, None, "its placement fulfils the nomination");
        assert_eq!(pod_names(&cluster).await?, ["high", "late"]);
        let (status, message) = scheduled(&cluster.get::<Pod>("late").await?);
        assert_eq!(status, "False");
        assert!(message.ends_with("1 No preemption victims found for incoming pod."), "{message}");
        Ok(())
    });
}

#[test]
fn a_pod_that_must_not_preempt_waits() {
    with_nodes(1, |cluster| async move {
        preparations(&cluster).await?;
        let shy = json!({"metadata": {"name": "shy"}, "value": 2000, "preemptionPolicy": "Never"});
        cluster.apply(object::<PriorityClass>(shy)).await?;
        cluster.apply(takes("low", "low", "5", json!({}))).await?;
        cluster.settled().await;
        cluster.apply(takes("shy", "shy", "5", json!({}))).await?;
        cluster.settled().await;
        let (_, message) = scheduled(&cluster.get::<Pod>("shy").await?);
        assert_eq!(
            message,
            "0/1 nodes are available: 1 Insufficient example.com/foo. no new claims to deallocate, preemption: not eligible due \
             to preemptionPolicy=Never."
        );
        cluster.delete::<Pod>("low").await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("shy").await?));
        Ok(())
    });
}

/// As in the conformance test "lower priority pod preemption by critical pod".
#[test]
fn a_critical_pod_preempts() {
    with_nodes(1, |cluster| async move {
        preparations(&cluster).await?;
        cluster.apply(takes("low", "low", "3", json!({}))).await?;
        cluster.apply(takes("high", "high", "2", json!({}))).await?;
        cluster.settled().await;
        cluster.apply(takes("critical", "system-cluster-critical", "3", json!({}))).await?;
        cluster.settled().await;
        assert_eq!(pod_names(&cluster).await?, ["critical", "high"]);
        Ok(())
    });
}

/// As in the conformance test "runs ReplicaSets to verify preemption running path".
#[test]
fn replica_sets_of_higher_priority_push_others_out() {
    with_nodes(1, |cluster| async move {
        preparations(&cluster).await?;
        for (name, class, replicas) in
            [("one", "low", 2), ("two", "medium", 2), ("three", "high", 1), ("four", "high", 1)]
        {
            let template = serde_json::to_value(takes("t", class, "1", json!({})))?;
            let template = json!({"metadata": {"labels": {"app": name}}, "spec": template["spec"]});
            let set: ReplicaSet = object(json!({"metadata": {"name": name}, "spec": {"replicas": replicas,
                "selector": {"matchLabels": {"app": name}}, "template": template}}));
            cluster.apply(set).await?;
            cluster.settled().await;
        }
        let ready = |name: &'static str| {
            let cluster = cluster.clone();
            async move {
                cluster
                    .get::<ReplicaSet>(name)
                    .await
                    .map(|set| set.status.unwrap().ready_replicas.unwrap_or(0))
            }
        };
        assert_eq!(
            [ready("one").await?, ready("two").await?, ready("three").await?, ready("four").await?],
            [1, 2, 1, 1]
        );
        Ok(())
    });
}

#[test]
fn pods_apart_and_together() {
    with_nodes(2, |cluster| async move {
        let labelled = |name: &str, app: &str, kind: &str, other: &str| {
            let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": other}}});
            let mut pod = pod(
                name,
                json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
            );
            pod.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
            pod
        };
        cluster.apply(labelled("near", "web", "podAffinity", "db")).await?;
        cluster.settled().await;
        let (_, message) = scheduled(&cluster.get::<Pod>("near").await?);
        assert!(
            message.starts_with("0/2 nodes are available: 2 node(s) didn't match pod affinity rules."),
            "{message}"
        );
        for name in ["db-1", "db-2", "db-3"] {
            cluster.apply(labelled(name, "db", "podAntiAffinity", "db")).await?;
            cluster.settled().await;
        }
        let node = |name: &'static str| {
            let cluster = cluster.clone();
            async move { cluster.get::<Pod>(name).await.map(|pod| pod.spec.unwrap().node_name) }
        };
        assert_eq!(
            node("near").await?,
            node("db-1").await?,
            "the pod was tried again when its neighbour came"
        );
        assert_ne!(node("db-1").await?, node("db-2").await?);
        assert_eq!(node("db-3").await?, None);
        let (_, message) = scheduled(&cluster.get::<Pod>("db-3").await?);
        assert!(
            message.starts_with("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."),
            "{message}"
        );
        Ok(())
    });
}

#[test]
fn gated_pods_wait_for_their_gates() {
    with_nodes(1, |cluster| async move {
        cluster.apply(pod("a", json!({"schedulingGates": [{"name": "example.com/g"}]}))).await?;
        cluster.settled().await;
        let gated = cluster.get::<Pod>("a").await?;
        assert_eq!(condition(&gated, "PodScheduled").unwrap()["reason"], "SchedulingGated");
        cluster.patch::<Pod>("a", json!({"spec": {"schedulingGates": null}})).await?;
        cluster.settled().await;
        assert!(is_ready(&cluster.get::<Pod>("a").await?));
        Ok(())
    });
}
