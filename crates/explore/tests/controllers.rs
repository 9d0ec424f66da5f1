//! The built-in controllers of the cluster survive what operators have to survive: each is explored as one is.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

use std::fmt::Debug;
use std::time::Duration;

use evenkeel_cluster::{Cluster, testing};
use evenkeel_explore::explore;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
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
