//! Rollouts of Deployments, checked at every revision.

use std::collections::BTreeMap;

use evenkeel_cluster::Cluster;
use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};

use crate::world::{deployment, is_ready, object, with_nodes};

/// Returns all changes of pods since a revision, in order.
async fn pod_changes(cluster: &Cluster, since: &str) -> kube::Result<Vec<WatchEvent<Pod>>> {
    let newest = cluster.api::<Pod>().list(&Default::default()).await?.metadata.resource_version.unwrap();
    let stream = cluster.api::<Pod>().watch(&WatchParams::default(), since).await?;
    let mut stream = std::pin::pin!(stream);
    let mut changes = Vec::new();
    // The watch ends at the marker, which is written after everything is settled.
    let last: u64 = newest.parse().expect("our revisions are numbers");
    while let Some(event) = stream.next().await {
        let event = event?;
        let version = match &event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                pod.metadata.resource_version.clone()
            }
            _ => None,
        };
        let version: u64 = version.and_then(|version| version.parse().ok()).unwrap_or(0);
        changes.push(event);
        if version >= last {
            break;
        }
    }
    Ok(changes)
}

/// Replays the changes and calls `check` with the active pods after each.
fn replay(changes: Vec<WatchEvent<Pod>>, before: Vec<Pod>, check: impl Fn(&BTreeMap<String, Pod>)) {
    let mut pods: BTreeMap<String, Pod> =
        before.into_iter().map(|pod| (pod.metadata.name.clone().unwrap(), pod)).collect();
    for change in changes {
        match change {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod)
                if pod.metadata.deletion_timestamp.is_none() =>
            {
                pods.insert(pod.metadata.name.clone().unwrap(), pod);
            }
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                pods.remove(pod.metadata.name.as_ref().unwrap());
            }
            _ => {}
        }
        check(&pods);
    }
}

fn rollout(strategy: Value, replicas: i32, surge: usize, unavailable: usize) {
    with_nodes(2, |cluster| async move {
        let version = |image: &str| {
            let mut value = deployment("web", replicas, image);
            value["spec"]["strategy"] = strategy.clone();
            object::<Deployment>(value)
        };
        cluster.apply(version("i:1")).await?;
        cluster.settled().await;
        let start = cluster.api::<Pod>().list(&Default::default()).await?;
        cluster.apply(version("i:2")).await?;
        cluster.settled().await;
        // The marker is the last change.
        let last = cluster.list::<Pod>().await?.remove(0).metadata.name.unwrap();
        cluster.patch::<Pod>(&last, json!({"metadata": {"labels": {"last": "yes"}}})).await?;
        let changes = pod_changes(&cluster, start.metadata.resource_version.as_deref().unwrap()).await?;
        assert!(changes.len() > 5, "{changes:#?}");
        let wanted = usize::try_from(replicas)?;
        replay(changes, start.items, |pods| {
            assert!(pods.len() <= wanted + surge, "{} pods", pods.len());
            let ready = pods.values().filter(|pod| is_ready(pod)).count();
            assert!(ready + unavailable >= wanted, "{ready} ready pods");
        });
        let pods = cluster.list::<Pod>().await?;
        assert_eq!(pods.len(), wanted);
        assert!(
            pods.iter().all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("i:2"))
        );
        Ok(())
    });
}

#[test]
fn surge_and_unavailability_hold_at_every_revision() {
    let rolling = |surge: Value, unavailable: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    rollout(rolling(json!(1), json!(0)), 3, 1, 0);
    rollout(rolling(json!(0), json!(1)), 3, 0, 1);
    rollout(rolling(json!("50%"), json!("25%")), 4, 2, 1);
}

#[test]
fn recreate_never_runs_two_versions() {
    with_nodes(1, |cluster| async move {
        let version = |image: &str| {
            let mut value = deployment("web", 2, image);
            value["spec"]["strategy"] = json!({"type": "Recreate"});
            object::<Deployment>(value)
        };
        cluster.apply(version("i:1")).await?;
        cluster.settled().await;
        let start = cluster.api::<Pod>().list(&Default::default()).await?;
        cluster.apply(version("i:2")).await?;
        cluster.settled().await;
        let last = cluster.list::<Pod>().await?.remove(0).metadata.name.unwrap();
        cluster.patch::<Pod>(&last, json!({"metadata": {"labels": {"last": "yes"}}})).await?;
        let changes = pod_changes(&cluster, start.metadata.resource_version.as_deref().unwrap()).await?;
        let mut alive: BTreeMap<String, String> = BTreeMap::new();
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        for pod in &start.items {
            alive.insert(pod.metadata.name.clone().unwrap(), image(pod));
        }
        for change in changes {
            match change {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    alive.insert(pod.metadata.name.clone().unwrap(), image(&pod));
                }
                WatchEvent::Deleted(pod) => {
                    alive.remove(pod.metadata.name.as_ref().unwrap());
                }
                _ => {}
            }
            let versions: std::collections::BTreeSet<_> = alive.values().collect();
            assert!(versions.len() <= 1, "{alive:?}");
        }
        assert_eq!(alive.len(), 2);
        Ok(())
    });
}

#[test]
fn going_back_reuses_the_old_replicaset() {
    with_nodes(1, |cluster| async move {
        for image in ["i:1", "i:2", "i:1"] {
            cluster.apply::<Deployment>(object(deployment("web", 1, image))).await?;
            cluster.settled().await;
        }
        let sets = cluster.list::<ReplicaSet>().await?;
        assert_eq!(sets.len(), 2);
        let revision = |set: &ReplicaSet| {
            set.metadata.annotations.as_ref().unwrap()["deployment.kubernetes.io/revision"].clone()
        };
        let mut revisions: Vec<_> = sets.iter().map(revision).collect();
        revisions.sort();
        assert_eq!(revisions, ["2", "3"]);
        let web = cluster.get::<Deployment>("web").await?;
        assert_eq!(web.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "3");
        Ok(())
    });
}

#[test]
fn a_broken_version_gets_stuck_and_says_so() {
    with_nodes(1, |cluster| async move {
        cluster.apply::<Deployment>(object(deployment("web", 2, "i:1"))).await?;
        cluster.settled().await;
        let mut broken = deployment("web", 2, "i:2");
        broken["spec"]["progressDeadlineSeconds"] = json!(60);
        broken["spec"]["template"]["metadata"]["annotations"] =
            json!({"node.evenkeel.dev/behaviour": "never-ready"});
        cluster.apply::<Deployment>(object(broken)).await?;
        cluster.settled().await;
        let ready = cluster.list::<Pod>().await?.iter().filter(|pod| is_ready(pod)).count();
        assert_eq!(ready, 2, "the old pods stay");
        cluster.advance(std::time::Duration::from_secs(70)).await;
        let status = cluster.get::<Deployment>("web").await?.status.unwrap();
        let progressing = status
            .conditions
            .unwrap()
            .into_iter()
            .find(|condition| condition.type_ == "Progressing")
            .unwrap();
        assert_eq!(
            (progressing.status.as_str(), progressing.reason.as_deref()),
            ("False", Some("ProgressDeadlineExceeded"))
        );
        Ok(())
    });
}
