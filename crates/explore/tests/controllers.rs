//! The built-in controllers of the cluster survive what operators have to survive: each is explored as one is.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

use std::fmt::Debug;
use std::time::Duration;

use evenkeel_cluster::{Cluster, testing};
use evenkeel_explore::explore;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, Secret, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, PropagationPolicy};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What a scenario returns: the step that is not as it should be is an error.
type Steps = Result<(), String>;

/// Explores the built-in controllers on this scenario, and asserts that nothing is found.
fn passes<F>(name: &str, scenario: impl Fn(Cluster) -> F + Send + Sync + 'static)
where
    F: Future<Output = Steps> + 'static,
{
    let report = explore(name, scenario).options(testing::options().nodes(2)).controllers().run();
    println!("{report}");
    assert!(report.runs() > 0, "{name}: nothing was played: {report}");
    assert!(report.is_clean(), "{name}: {report}");
}

fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn told<E: Debug>(error: E) -> String {
    format!("{error:?}")
}

/// Applies an object, and waits for rest.
async fn apply<K>(cluster: &Cluster, object: Value) -> Steps
where
    K: kube::Resource<DynamicType = ()> + serde::Serialize + DeserializeOwned + Clone + Debug,
    K::Scope: evenkeel_cluster::ApiScope,
{
    cluster.apply::<K>(read(object)).await.map_err(told)?;
    cluster.settled().await;
    Ok(())
}

async fn patch<K>(cluster: &Cluster, name: &str, patch: Value) -> Steps
where
    K: kube::Resource<DynamicType = ()> + serde::Serialize + DeserializeOwned + Clone + Debug,
    K::Scope: evenkeel_cluster::ApiScope,
{
    cluster.patch::<K>(name, patch).await.map_err(told)?;
    cluster.settled().await;
    Ok(())
}

async fn delete<K>(cluster: &Cluster, name: &str) -> Steps
where
    K: kube::Resource<DynamicType = ()> + serde::Serialize + DeserializeOwned + Clone + Debug,
    K::Scope: evenkeel_cluster::ApiScope,
{
    cluster.delete::<K>(name).await.map_err(told)?;
    cluster.settled().await;
    Ok(())
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

fn workload(replicas: i32, image: &str) -> Value {
    let selector = json!({"matchLabels": {"app": "web"}});
    json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas, "selector": selector, "template": template(image)}})
}

#[test]
fn deployments() {
    passes("deployments", |cluster| async move {
        apply::<Deployment>(&cluster, workload(2, "web:1")).await?;
        patch::<Deployment>(&cluster, "web", json!({"spec": {"template": template("web:2")}})).await?;
        patch::<Deployment>(&cluster, "web", json!({"spec": {"replicas": 1}})).await?;
        delete::<Deployment>(&cluster, "web").await
    });
}

#[test]
fn replica_sets() {
    passes("replica_sets", |cluster| async move {
        apply::<ReplicaSet>(&cluster, workload(2, "web:1")).await?;
        patch::<ReplicaSet>(&cluster, "web", json!({"spec": {"replicas": 3}})).await?;
        patch::<ReplicaSet>(&cluster, "web", json!({"spec": {"replicas": 1}})).await?;
        delete::<ReplicaSet>(&cluster, "web").await
    });
}

#[test]
fn stateful_sets() {
    passes("stateful_sets", |cluster| async move {
        let mut set = workload(2, "web:1");
        set["spec"]["serviceName"] = "web".into();
        set["spec"]["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }]);
        apply::<StatefulSet>(&cluster, set).await?;
        patch::<StatefulSet>(&cluster, "web", json!({"spec": {"template": template("web:2")}})).await?;
        patch::<StatefulSet>(&cluster, "web", json!({"spec": {"replicas": 1}})).await?;
        delete::<StatefulSet>(&cluster, "web").await
    });
}

#[test]
fn daemon_sets() {
    passes("daemon_sets", |cluster| async move {
        let selector = json!({"matchLabels": {"app": "web"}});
        let set = json!({"metadata": {"name": "web"}, "spec": {"selector": selector, "template": template("web:1")}});
        apply::<DaemonSet>(&cluster, set).await?;
        patch::<DaemonSet>(&cluster, "web", json!({"spec": {"template": template("web:2")}})).await?;
        delete::<DaemonSet>(&cluster, "web").await
    });
}

fn job(name: &str, ttl: Option<i32>) -> Value {
    let mut template = template("job:1");
    template["spec"]["restartPolicy"] = "Never".into();
    let mut spec = json!({"completions": 2, "parallelism": 1, "template": template});
    if let Some(ttl) = ttl {
        spec["ttlSecondsAfterFinished"] = ttl.into();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

#[test]
fn jobs() {
    passes("jobs", |cluster| async move {
        apply::<Job>(&cluster, job("once", None)).await?;
        let done = cluster.get::<Job>("once").await.map_err(told)?.status.and_then(|status| status.succeeded);
        if done != Some(2) {
            return Err(format!("the job has succeeded {done:?} times"));
        }
        delete::<Job>(&cluster, "once").await
    });
}

#[test]
fn jobs_that_expire() {
    passes("jobs_that_expire", |cluster| async move {
        apply::<Job>(&cluster, job("brief", Some(600))).await?;
        cluster.advance(Duration::from_secs(1200)).await;
        cluster.settled().await;
        match cluster.get_opt::<Job>("brief").await.map_err(told)? {
            Some(_) => Err("the job is still there".to_owned()),
            None => Ok(()),
        }
    });
}

#[test]
fn cron_jobs() {
    passes("cron_jobs", |cluster| async move {
        let mut template = template("job:1");
        template["spec"]["restartPolicy"] = "Never".into();
        let spec = json!({"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template}}});
        apply::<CronJob>(&cluster, json!({"metadata": {"name": "hourly"}, "spec": spec})).await?;
        cluster.advance(Duration::from_secs(3600)).await;
        cluster.settled().await;
        patch::<CronJob>(&cluster, "hourly", json!({"spec": {"suspend": true}})).await?;
        delete::<CronJob>(&cluster, "hourly").await
    });
}

#[test]
fn endpoints() {
    passes("endpoints", |cluster| async move {
        let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
        apply::<Service>(&cluster, json!({"metadata": {"name": "web"}, "spec": spec})).await?;
        apply::<Deployment>(&cluster, workload(2, "web:1")).await?;
        has_addresses(&cluster, 2).await?;
        patch::<Deployment>(&cluster, "web", json!({"spec": {"replicas": 1}})).await?;
        has_addresses(&cluster, 1).await?;
        delete::<Service>(&cluster, "web").await?;
        delete::<Deployment>(&cluster, "web").await
    });
}

async fn has_addresses(cluster: &Cluster, wanted: usize) -> Steps {
    let slices = cluster.list::<EndpointSlice>().await.map_err(told)?;
    let addresses = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let found = addresses.flat_map(|endpoint| &endpoint.addresses).count();
    if found == wanted { Ok(()) } else { Err(format!("{found} addresses instead of {wanted}")) }
}

/// A ConfigMap that owns a Secret.
async fn owner_and_dependent(cluster: &Cluster, name: &str) -> Steps {
    let owner = cluster.apply::<ConfigMap>(read(json!({"metadata": {"name": name}}))).await.map_err(told)?;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner.metadata.uid, "blockOwnerDeletion": true});
    let dependent = json!({"metadata": {"name": name, "ownerReferences": [reference]}});
    apply::<Secret>(cluster, dependent).await
}

#[test]
fn the_garbage_collector() {
    passes("the_garbage_collector", |cluster| async move {
        let policies = [
            ("background", PropagationPolicy::Background),
            ("foreground", PropagationPolicy::Foreground),
            ("orphan", PropagationPolicy::Orphan),
        ];
        for (name, policy) in policies {
            owner_and_dependent(&cluster, name).await?;
            let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
            cluster.api::<ConfigMap>().delete(name, &params).await.map_err(told)?;
            cluster.settled().await;
        }
        Ok(())
    });
}

#[test]
fn namespaces() {
    passes("namespaces", |cluster| async move {
        apply::<Namespace>(&cluster, json!({"metadata": {"name": "team"}})).await?;
        let team = cluster.namespaced("team");
        apply::<ConfigMap>(&team, json!({"metadata": {"name": "a"}})).await?;
        apply::<Deployment>(&team, workload(1, "web:1")).await?;
        delete::<Namespace>(&cluster, "team").await?;
        match cluster.get_opt::<Namespace>("team").await.map_err(told)? {
            Some(_) => Err("the namespace is still there".to_owned()),
            None => Ok(()),
        }
    });
}

#[test]
fn disruption_budgets() {
    passes("disruption_budgets", |cluster| async move {
        let selector = json!({"matchLabels": {"app": "web"}});
        let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": selector}});
        apply::<PodDisruptionBudget>(&cluster, budget).await?;
        apply::<Deployment>(&cluster, workload(2, "web:1")).await?;
        let budget = cluster.get::<PodDisruptionBudget>("web").await.map_err(told)?;
        let allowed = budget.status.map_or(0, |status| status.disruptions_allowed.unwrap_or_default());
        if allowed != 1 {
            return Err(format!("{allowed} disruptions are allowed instead of 1"));
        }
        delete::<Deployment>(&cluster, "web").await
    });
}

#[test]
fn quotas() {
    passes("quotas", |cluster| async move {
        let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "3", "configmaps": "5"}}});
        apply::<ResourceQuota>(&cluster, quota).await?;
        apply::<Deployment>(&cluster, workload(2, "web:1")).await?;
        used(&cluster, "2").await?;
        delete::<Deployment>(&cluster, "web").await?;
        // The quota is counted again after five minutes at the latest.
        cluster.advance(Duration::from_secs(600)).await;
        used(&cluster, "0").await
    });
}

async fn used(cluster: &Cluster, wanted: &str) -> Steps {
    let quota = cluster.get::<ResourceQuota>("few").await.map_err(told)?;
    let used = quota.status.and_then(|status| status.used?.get("pods").cloned());
    match used {
        Some(used) if used.0 == wanted => Ok(()),
        other => Err(format!("{other:?} pods are used instead of {wanted}")),
    }
}

#[test]
fn volumes() {
    passes("volumes", |cluster| async move {
        let spec = json!({
            "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"},
        });
        apply::<PersistentVolume>(&cluster, json!({"metadata": {"name": "disk"}, "spec": spec})).await?;
        let spec = json!({
            "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
            "resources": {"requests": {"storage": "1Gi"}},
        });
        apply::<PersistentVolumeClaim>(&cluster, json!({"metadata": {"name": "data"}, "spec": spec})).await?;
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        apply::<PersistentVolumeClaim>(&cluster, json!({"metadata": {"name": "made"}, "spec": spec})).await?;
        let claim = |name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let pod = json!({"metadata": {"name": "user"}, "spec": {
            "containers": [{"name": "main", "image": "web:1"}], "volumes": [claim("data"), claim("made")],
        }});
        apply::<Pod>(&cluster, pod).await?;
        delete::<PersistentVolumeClaim>(&cluster, "data").await?;
        delete::<Pod>(&cluster, "user").await?;
        delete::<PersistentVolumeClaim>(&cluster, "made").await
    });
}
