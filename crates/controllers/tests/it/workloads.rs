//! Deployments and ReplicaSets from creation to Ready.

use evenkeel_cluster::testing;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Endpoints, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
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

#[test]
fn a_job_runs_to_its_end_and_its_pods_are_let_go() {
    with_nodes(1, |cluster| async move {
        let job = json!({"metadata": {"name": "j"}, "spec": {"completions": 3, "parallelism": 2, "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
        cluster.api::<Job>().create(&Default::default(), &object(job)).await?;
        cluster.settled().await;
        let status = cluster.get::<Job>("j").await?.status.unwrap();
        assert_eq!((status.succeeded, status.active, status.failed), (Some(3), None, None));
        let kinds: Vec<_> = status.conditions.unwrap().into_iter().map(|condition| condition.type_).collect();
        assert_eq!(kinds, ["SuccessCriteriaMet", "Complete"]);
        let pods = cluster.list::<Pod>().await?;
        assert_eq!(pods.len(), 3);
        assert!(pods.iter().all(|pod| pod.metadata.finalizers.is_none()));
        cluster.api::<Job>().delete("j", &kube::api::DeleteParams::background()).await?;
        cluster.settled().await;
        assert_eq!(pod_names(&cluster).await?, [""; 0]);
        Ok(())
    });
}

#[test]
fn a_daemonset_has_a_pod_on_every_node() {
    with_nodes(3, |cluster| async move {
        let set = |image: &str| {
            object::<DaemonSet>(
                json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
                "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", image)}}),
            )
        };
        cluster.apply(set("i:1")).await?;
        cluster.settled().await;
        let nodes = |pods: Vec<Pod>| {
            pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(nodes(cluster.list::<Pod>().await?).len(), 3);
        let status = cluster.get::<DaemonSet>("agent").await?.status.unwrap();
        assert_eq!(
            (status.desired_number_scheduled, status.number_ready, status.updated_number_scheduled),
            (3, 3, Some(3))
        );
        cluster.apply(set("i:2")).await?;
        cluster.settled().await;
        let pods = cluster.list::<Pod>().await?;
        assert!(
            pods.iter().all(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("i:2"))
        );
        assert_eq!(nodes(pods).len(), 3);
        Ok(())
    });
}

#[test]
fn a_service_follows_its_pods() {
    with_nodes(1, |cluster| async move {
        cluster.apply::<Deployment>(object(deployment("web", 2, "i:1"))).await?;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
            "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
        cluster.apply::<Service>(object(service)).await?;
        cluster.settled().await;
        let slices = cluster.list::<EndpointSlice>().await?;
        let ours: Vec<_> = slices
            .into_iter()
            .filter(|slice| slice.metadata.generate_name.as_deref() == Some("web-"))
            .collect();
        assert_eq!(ours.len(), 1);
        assert_eq!(ours[0].endpoints.as_ref().map(Vec::len), Some(2));
        let endpoints = cluster.get::<Endpoints>("web").await?.subsets.unwrap();
        assert_eq!(endpoints[0].addresses.as_ref().map(Vec::len), Some(2));
        cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 0}})).await?;
        cluster.settled().await;
        assert_eq!(cluster.get::<Endpoints>("web").await?.subsets, None);
        cluster.delete::<Service>("web").await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<Endpoints>("web").await?.is_none());
        Ok(())
    });
}

#[test]
fn a_claim_is_bound_at_once_and_its_volume_goes_with_it() {
    with_nodes(1, |cluster| async move {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        cluster.apply::<PersistentVolumeClaim>(object(claim)).await?;
        cluster.settled().await;
        let bound = cluster.get::<PersistentVolumeClaim>("data").await?;
        assert_eq!(bound.status.unwrap().phase.as_deref(), Some("Bound"));
        assert_eq!(cluster.list::<PersistentVolume>().await?.len(), 1);
        cluster.delete::<PersistentVolumeClaim>("data").await?;
        cluster.settled().await;
        assert!(cluster.get_opt::<PersistentVolumeClaim>("data").await?.is_none());
        assert_eq!(cluster.list::<PersistentVolume>().await?.len(), 0);
        Ok(())
    });
}

#[test]
fn a_cronjob_makes_jobs_by_the_clock_and_keeps_a_few() {
    with_nodes(1, |cluster| async move {
        let cron = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "* * * * *", "successfulJobsHistoryLimit": 2, "jobTemplate": {
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}});
        cluster.api::<CronJob>().create(&Default::default(), &object(cron)).await?;
        cluster.settled().await;
        assert_eq!(cluster.list::<Job>().await?.len(), 0, "nobody waits for the clock");
        for _ in 0..4 {
            cluster.advance(std::time::Duration::from_secs(60)).await;
            cluster.settled().await;
        }
        assert_eq!(cluster.list::<Job>().await?.len(), 2);
        let status = cluster.get::<CronJob>("tick").await?.status.unwrap();
        assert!(status.last_schedule_time.is_some() && status.last_successful_time.is_some());
        assert_eq!(status.active, None);
        Ok(())
    });
}

#[test]
fn a_quota_says_what_is_used() {
    with_nodes(0, |cluster| async move {
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5", "secrets": "3", "count/deployments.apps": "2"}}});
        cluster.api::<ResourceQuota>().create(&Default::default(), &object(quota)).await?;
        cluster.settled().await;
        let status = cluster.get::<ResourceQuota>("q").await?.status.unwrap();
        let used = serde_json::to_value(status.used).unwrap();
        assert_eq!(used, json!({"pods": "0", "secrets": "0", "count/deployments.apps": "0"}));
        Ok(())
    });
}
