//! The largest object that can be stored: as large as etcd accepts.

use serde_json::{Value, json};

use crate::api::{Answer, Api};

const BLOBS: &str = "/apis/x.io/v1/namespaces/a/blobs";
/// etcd's default limit for a request.
const LIMIT: usize = 1536 * 1024;

/// A server with a custom resource that preserves unknown fields.
async fn with_blobs() -> Api {
    let api = Api::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}}]);
    let definition = json!({"metadata": {"name": "blobs.x.io"}, "spec": {"group": "x.io", "scope": "Namespaced",
        "names": {"plural": "blobs", "kind": "Blob"}, "versions": versions}});
    let made = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.status, 201, "{made:?}");
    api
}

fn blob(name: &str, bytes: usize) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Blob", "metadata": {"name": name}, "spec": {"text": "x".repeat(bytes)}})
}

/// Asserts the error that Kubernetes returns for an object that etcd refuses.
fn too_large(what: &str, answer: &Answer) {
    assert_eq!(answer.status, 500, "{what}: {}", answer.body["message"]);
    assert_eq!(answer.body["message"], "etcdserver: request is too large", "{what}");
    assert!(answer.body.get("reason").is_none(), "{what}");
}

#[tokio::test(start_paused = true)]
async fn an_object_above_the_limit_of_etcd_is_refused_by_every_write() {
    let api = with_blobs().await;
    too_large("create", &api.post(BLOBS, blob("b", LIMIT)).await);
    assert_eq!(api.get(&format!("{BLOBS}/b")).await.status, 404, "nothing was written");
    too_large("apply", &api.apply(&format!("{BLOBS}/b?fieldManager=m"), blob("b", LIMIT)).await);
    let dry = api.post(&format!("{BLOBS}?dryRun=All"), blob("b", LIMIT)).await;
    assert_eq!(dry.status, 201, "a dry run does not reach etcd");

    assert_eq!(api.post(BLOBS, blob("b", LIMIT / 2)).await.status, 201);
    let path = format!("{BLOBS}/b");
    let before = api.get(&path).await.body;
    let half = "y".repeat(LIMIT / 2);
    // Each patch is well below the limit of a request; the resulting object is not.
    too_large("merge", &api.merge(&path, json!({"more": half})).await);
    let copy = json!([{"op": "copy", "from": "/spec/text", "path": "/spec/again"}]).to_string();
    too_large("copy", &api.patch(&path, "application/json-patch+json", copy.into_bytes()).await);
    let mut update = blob("b", LIMIT);
    update["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    too_large("update", &api.put(&path, update).await);
    let applied = api.apply(&format!("{path}?fieldManager=m&force=true"), blob("b", LIMIT)).await;
    too_large("apply", &applied);
    too_large("status", &api.merge(&format!("{path}/status"), json!({"status": {"more": half}})).await);
    assert_eq!(api.get(&path).await.body, before, "nothing was written");
}

/// Kubernetes drops the managedFields of an object if it is too large only because of them.
#[tokio::test(start_paused = true)]
async fn managed_fields_are_forgotten_where_they_make_an_object_too_large() {
    let api = with_blobs().await;
    let mut object = blob("b", 0);
    let fields: serde_json::Map<String, Value> =
        (0..40_000).map(|n| (format!("field-{n:05}"), json!("0123456789"))).collect();
    object["fields"] = fields.into();
    let sealed = object.to_string().len();
    object["pad"] = "x".repeat(LIMIT - sealed - 20_000).into();
    let made = api.post(BLOBS, object.clone()).await;
    assert_eq!(made.status, 201, "{}", made.body["message"]);
    assert!(made.body["metadata"].get("managedFields").is_none());
    assert!(api.get(&format!("{BLOBS}/b")).await.body["metadata"].get("managedFields").is_none());
    too_large("apply", &{
        object["metadata"]["name"] = "c".into();
        api.apply(&format!("{BLOBS}/c?fieldManager=m"), object).await
    });
}

#[tokio::test(start_paused = true)]
async fn the_limit_is_that_of_the_stored_bytes() {
    let api = with_blobs().await;
    let made = api.post(BLOBS, blob("b", 1000)).await.body;
    let version =
        made["metadata"]["resourceVersion"].as_str().unwrap().len() + r#""resourceVersion":"","#.len();
    let overhead = made.to_string().len() - version - 1000;
    assert_eq!(api.post(BLOBS, blob("c", LIMIT - overhead)).await.status, 201);
    let path = format!("{BLOBS}/d");
    let config = |bytes| blob("d", bytes);
    assert_eq!(
        api.apply(&format!("{path}?fieldManager=it"), config(LIMIT - overhead - 100)).await.status,
        201
    );
}
