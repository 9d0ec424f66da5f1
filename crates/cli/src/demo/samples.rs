//! The operators of the demo, their samples, and what must stand after each act.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use database::{Database, DatabaseSpec, NoBackup};
use evenkeel::Cluster;
use evenkeel::cluster::Place;
use evenkeel::k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use evenkeel::k8s_openapi::api::core::v1::{Pod, Secret, Service};
use evenkeel::kube::{self, CustomResourceExt, Resource, ResourceExt};
use futures::TryStreamExt as _;
use kube::api::{WatchEvent, WatchParams};
use my_resource::{MyResource, MyResourceSpec, Phase};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::story::{self, Line};

/// The names of the operators' controllers.
pub(super) const OPERATORS: [&str; 2] = ["my-resource", "database"];

/// The names of the samples.
const WEB: &str = "web";
const ORDERS: &str = "orders";

/// Declares the custom resources.
pub(super) async fn declare(cluster: &Cluster) -> kube::Result<()> {
    cluster.apply(MyResource::crd()).await?;
    cluster.apply(Database::crd()).await?;
    Ok(())
}

/// Starts the operators.
pub(super) fn run_operators(cluster: &Cluster) {
    cluster.run(my_resource::controller);
    cluster.run(|| database::controller(Arc::new(NoBackup)));
}

/// Applies a sample of each.
pub(super) async fn apply(cluster: &Cluster) -> kube::Result<()> {
    let web = MyResourceSpec { image: "nginx:1.29".into(), memory: "64Mi".into() };
    cluster.apply(MyResource::new(WEB, web)).await?;
    let orders = DatabaseSpec {
        version: "18".into(),
        storage: "1Gi".into(),
        storage_class: None,
        replicas: 2,
        database_name: "orders".into(),
    };
    cluster.apply(Database::new(ORDERS, orders)).await?;
    Ok(())
}

/// What keeps a sample from being as declared.
pub(super) async fn unready(cluster: &Cluster) -> kube::Result<Vec<String>> {
    let mut failures = Vec::new();
    let web = cluster.get::<MyResource>(WEB).await?;
    let phase = web.status.map(|status| status.phase);
    if phase != Some(Phase::Ready) {
        failures.push(format!("myresources/{WEB}: its phase is {phase:?}, not Ready"));
    }
    let orders = cluster.get::<Database>(ORDERS).await?;
    let phase = orders.status.map(|status| status.phase);
    if phase != Some(database::Phase::Running) {
        failures.push(format!("databases/{ORDERS}: its phase is {phase:?}, not Running"));
    }
    let pods = cluster.list::<Pod>().await?;
    let ready = pods.iter().filter(|pod| story::is_ready(pod)).count();
    if ready != 3 || pods.len() != 3 {
        failures.push(format!("pods: {ready} of {} are ready, not 3 of 3", pods.len()));
    }
    Ok(failures)
}

/// The uids of the children that the drift will take.
pub(super) async fn children(cluster: &Cluster) -> kube::Result<BTreeMap<&'static str, Option<String>>> {
    Ok(BTreeMap::from([
        ("deployments/web", cluster.get_opt::<Deployment>(WEB).await?.and_then(|child| child.uid())),
        ("services/orders", cluster.get_opt::<Service>(ORDERS).await?.and_then(|child| child.uid())),
    ]))
}

/// Deletes a child of each sample.
pub(super) async fn drift(cluster: &Cluster) -> kube::Result<()> {
    cluster.delete::<Deployment>(WEB).await?;
    cluster.delete::<Service>(ORDERS).await
}

/// The children that are still the old ones, or are not there.
pub(super) async fn not_replaced(
    cluster: &Cluster,
    before: &BTreeMap<&'static str, Option<String>>,
) -> kube::Result<Vec<String>> {
    let now = children(cluster).await?;
    let failed = now.iter().filter(|(name, uid)| uid.is_none() || before.get(*name) == Some(*uid));
    Ok(failed.map(|(name, _)| format!("{name}: it was not made anew")).collect())
}

/// Deletes the samples.
pub(super) async fn delete(cluster: &Cluster) -> kube::Result<()> {
    cluster.delete::<MyResource>(WEB).await?;
    cluster.delete::<Database>(ORDERS).await
}

/// What is left of the samples.
pub(super) async fn left(cluster: &Cluster) -> kube::Result<Vec<String>> {
    let mut left = names::<MyResource>(cluster).await?;
    left.extend(names::<Database>(cluster).await?);
    left.extend(names::<Deployment>(cluster).await?);
    left.extend(names::<ReplicaSet>(cluster).await?);
    left.extend(names::<StatefulSet>(cluster).await?);
    left.extend(names::<Secret>(cluster).await?);
    left.extend(names::<Pod>(cluster).await?);
    left.extend(names::<Service>(cluster).await?.into_iter().filter(|name| !name.ends_with("/kubernetes")));
    Ok(left.into_iter().map(|name| format!("{name}: it is still there")).collect())
}

async fn names<K>(cluster: &Cluster) -> kube::Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug,
    K::Scope: Place,
{
    let all = cluster.list::<K>().await?;
    Ok(all.iter().map(|object| format!("{}/{}", K::plural(&()), object.name_any())).collect())
}

/// Follows the pods, and says of each when it has become ready.
pub(super) async fn follow_pods(cluster: Cluster, start: Instant, to: Sender<Line>) {
    let mut ready = std::collections::BTreeSet::new();
    let pods = cluster.api::<Pod>();
    let Ok(events) = pods.watch(&WatchParams::default(), "0").await else { return };
    let mut events = std::pin::pin!(events);
    while let Ok(Some(event)) = events.try_next().await {
        if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
            && story::is_ready(&pod)
            && ready.insert(pod.uid())
        {
            // It fails only when the printer has ended, which ends the demo.
            let _ = to.send(story::of_ready_pod(start.elapsed(), &pod)).await;
        }
    }
}
