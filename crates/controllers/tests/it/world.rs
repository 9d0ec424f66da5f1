//! A cluster for each test, and the objects that the tests use.

use evenkeel_cluster::{Builder, Cluster, testing};
use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The result of a test.
pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Runs a test on a new cluster with this many nodes.
pub(crate) fn with_nodes<F: Future<Output = Outcome>>(nodes: usize, test: impl FnOnce(Cluster) -> F) {
    with(testing::options().nodes(nodes), test);
}

/// Runs a test on a new cluster.
pub(crate) fn with<F: Future<Output = Outcome>>(options: Builder, test: impl FnOnce(Cluster) -> F) {
    let outcome = testing::run(options, |cluster| async {
        cluster.settled().await;
        test(cluster).await.map_err(|error| error.to_string())
    });
    outcome.expect("the test's requests are answered");
}

/// Reads an object from JSON.
pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("the test writes a valid object")
}

/// Returns a pod template with the label `app: NAME`.
pub(crate) fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// Returns a Deployment with this many replicas.
pub(crate) fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name, image)},
    })
}

/// Whether the condition `Ready` is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// Returns the names of the pods, sorted.
pub(crate) async fn pod_names(cluster: &Cluster) -> kube::Result<Vec<String>> {
    let pods = cluster.list::<Pod>().await?;
    Ok(pods.into_iter().filter_map(|pod| pod.metadata.name).collect())
}
