//! Why `ensure` compares as it does: a comparison of whole specs, which everybody writes first, never ends.
//!
//! The API server fills in defaults, so that an object is never read back as it was written. An operator that compares
//! whole specs finds a difference each time and writes again, here as on Kubernetes.

use std::sync::Arc;
use std::time::Duration;

use database::ensure::ensure;
use evenkeel::Source;
use evenkeel::cluster::Exchange;
use evenkeel::k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, PodTemplateSpec};
use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use evenkeel::kube::Result;
use evenkeel::prelude::*;

/// The desired state of both versions: a minimal StatefulSet.
fn desired(owner: &ConfigMap) -> StatefulSet {
    let labels = Some([("app".to_owned(), owner.name_any())].into());
    let container =
        Container { name: "main".into(), image: Some("postgres:18".into()), ..Default::default() };
    StatefulSet {
        metadata: ObjectMeta { name: owner.metadata.name.clone(), ..Default::default() },
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            selector: LabelSelector { match_labels: labels.clone(), ..Default::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels, ..Default::default() }),
                spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
            },
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Updates the StatefulSet if the specs differ, and then checks again.
async fn naive(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action, evenkeel::Error> {
    let desired = desired(&map);
    let actual = ctx.get_or_create(desired.clone()).await?;
    if actual.spec == desired.spec {
        return Ok(Action::await_change());
    }
    let update = StatefulSet { spec: desired.spec, ..actual };
    ctx.update(&update).await?;
    Ok(Action::requeue(Duration::from_secs(1)))
}

/// Updates the StatefulSet with the comparison of this operator.
async fn ours(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action, evenkeel::Error> {
    ensure(&ctx, desired(&map)).await?;
    Ok(Action::await_change())
}

/// How often the operator of this name wrote the StatefulSet.
fn sent(cluster: &Cluster, operator: &str) -> usize {
    let requests = cluster.requests();
    let of_it = |request: &&Exchange| &*request.by == operator && request.path.contains("/statefulsets");
    requests.iter().filter(of_it).filter(|request| request.method != "GET").count()
}

fn wish() -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("wish".into());
    map
}

#[evenkeel::test(embedded = "a loop that never ends runs for a minute")]
async fn comparing_whole_specs_never_ends(cluster: Cluster) -> Result<()> {
    cluster.run(|| Controller::new_with("naive", wishes(), naive).owns::<StatefulSet>());
    cluster.apply(wish()).await?;
    let unsettled = cluster.try_settled().await;
    assert!(unsettled.is_err(), "it came to rest");
    assert!(sent(&cluster, "naive") > 50, "it was sent {} times in a minute", sent(&cluster, "naive"));
    let read = cluster.get::<StatefulSet>("wish").await?.spec.unwrap();
    assert_eq!(read.pod_management_policy.as_deref(), Some("OrderedReady"), "which nobody wrote");
    Ok(())
}

#[evenkeel::test]
async fn asking_whether_all_that_is_wanted_is_there_ends(cluster: Cluster) -> Result<()> {
    cluster.run(|| Controller::new_with("ours", wishes(), ours).owns::<StatefulSet>());
    cluster.apply(wish()).await?;
    cluster.settled().await;
    assert_eq!(sent(&cluster, "ours"), 1);
    cluster.restart("ours");
    cluster.settled().await;
    assert_eq!(sent(&cluster, "ours"), 1);
    Ok(())
}

/// Only the ConfigMap `wish`: every namespace has another one, `kube-root-ca.crt`.
fn wishes() -> Source<ConfigMap> {
    Source::new().fields("metadata.name=wish")
}
