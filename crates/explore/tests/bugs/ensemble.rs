//! The custom resource that the operators of these tests look after: servers with storage.

use evenkeel_cluster::Cluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Ensemble", namespaced, status = "EnsembleStatus")]
pub(crate) struct EnsembleSpec {
    pub(crate) replicas: i32,
    /// The size of each server's storage, in GiB.
    pub(crate) storage: i32,
    #[serde(default)]
    pub(crate) config: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
pub(crate) struct EnsembleStatus {
    pub(crate) phase: Option<String>,
    pub(crate) replicas: Option<i32>,
    #[serde(default, rename = "observedGeneration")]
    pub(crate) observed_generation: Option<i64>,
}

pub(crate) fn ensemble(replicas: i32) -> Ensemble {
    Ensemble::new("zoo", EnsembleSpec { replicas, storage: 1, config: "one".into() })
}

/// Creates the definition and a storage class whose volumes can grow.
pub(crate) async fn prepare(cluster: &Cluster) -> kube::Result<()> {
    cluster.apply(Ensemble::crd()).await?;
    let class = json!({"metadata": {"name": "wide"}, "provisioner": "example.com/disk", "allowVolumeExpansion": true});
    let class: k8s_openapi::api::storage::v1::StorageClass = serde_json::from_value(class).unwrap();
    cluster.apply(class).await?;
    cluster.settled().await;
    Ok(())
}

pub(crate) async fn change(cluster: &Cluster, spec: serde_json::Value) -> kube::Result<()> {
    cluster.patch::<Ensemble>("zoo", json!({ "spec": spec })).await?;
    cluster.settled().await;
    Ok(())
}

pub(crate) async fn create(cluster: &Cluster, replicas: i32) -> kube::Result<()> {
    cluster.apply(ensemble(replicas)).await?;
    cluster.settled().await;
    Ok(())
}

pub(crate) async fn delete(cluster: &Cluster) -> kube::Result<()> {
    cluster.delete::<Ensemble>("zoo").await?;
    cluster.settled().await;
    Ok(())
}

/// The StatefulSet of an ensemble, with a claim for each server.
pub(crate) fn stateful_set(ensemble: &Ensemble) -> StatefulSet {
    let name = ensemble.name_any();
    let storage = format!("{}Gi", ensemble.spec.storage);
    let claim = json!({
        "metadata": {"name": "data", "labels": {"app": name}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "wide", "resources": {"requests": {"storage": storage}}},
    });
    let set = json!({
        "metadata": {"name": name, "namespace": ensemble.namespace()},
        "spec": {
            "replicas": ensemble.spec.replicas, "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "zoo:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]},
            },
            "volumeClaimTemplates": [claim],
        },
    });
    serde_json::from_value(set).unwrap()
}

/// The ordinal of a claim of the StatefulSet: 2 for `data-zoo-2`.
pub(crate) fn ordinal(claim: &PersistentVolumeClaim) -> i32 {
    claim.name_any().rsplit('-').next().and_then(|ordinal| ordinal.parse().ok()).unwrap_or_default()
}
