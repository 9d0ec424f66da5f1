//! The largest object that can be stored: as large as etcd accepts.

use bytes::Bytes;
use evenkeel_apiserver::Header;
use evenkeel_store::{Expect, Header as _, Op, Write};
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

/// Stores an object with an annotation that makes it as large as allowed.
async fn store_largest(api: &Api, key: &str, mut object: Value) {
    object["metadata"]["annotations"] = json!({"pad": ""});
    let bare = object.to_string().len();
    object["metadata"]["annotations"]["pad"] = "x".repeat(LIMIT - bare).into();
    let bytes = Bytes::from(object.to_string());
    assert_eq!(bytes.len(), LIMIT);
    let header = Header::parse(key, &bytes).unwrap();
    api.store()
        .write(Write { key: key.into(), expect: Expect::Any, op: Op::Put(bytes, header) })
        .await
        .unwrap();
}

/// The usage of a quota used to be recorded even if that made the quota too large.
#[tokio::test(start_paused = true)]
async fn a_quota_that_cannot_grow_refuses_what_it_counts() {
    let api = Api::start().await;
    let key = "/registry/core/resourcequotas/a/q";
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "a"},
        "spec": {"hard": {"configmaps": "100"}},
        "status": {"hard": {"configmaps": "100"}, "used": {"configmaps": "9"}}});
    store_largest(&api, key, quota).await;
    let maps = "/api/v1/namespaces/a/configmaps";
    too_large("charge", &api.post(maps, json!({"metadata": {"name": "c"}})).await);
    assert_eq!(api.get(&format!("{maps}/c")).await.status, 404, "nothing was written");
    assert_eq!(api.store().get(key).unwrap().value.len(), LIMIT, "the quota was not charged");
}

/// The server used to store a CRD's status even if that made the CRD too large. In Kubernetes, the client
/// gets its response, and the controllers fail to establish the CRD.
#[tokio::test(start_paused = true)]
async fn a_definition_whose_status_has_no_room_is_not_established() {
    let api = Api::start().await;
    let categories: Vec<String> = (0..14_000).map(|n| format!("c{n:061}")).collect();
    let versions = json!([{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object"}}}]);
    let definition = json!({"metadata": {"name": "bigs.x.io"}, "spec": {"group": "x.io", "scope": "Namespaced",
        "names": {"plural": "bigs", "kind": "Big", "categories": categories}, "versions": versions}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = api.post(definitions, definition).await;
    assert_eq!(made.status, 201, "{}", made.body["message"]);
    let stored = api.get(&format!("{definitions}/bigs.x.io")).await.body;
    assert!(stored["status"]["conditions"].as_array().is_none_or(Vec::is_empty), "{}", stored["status"]);
    assert_eq!(api.get("/apis/x.io/v1/namespaces/a/bigs").await.status, 404, "it is not served");
    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/bigs.x.io";
    assert!(api.store().get(key).unwrap().value.len() <= LIMIT);
}

/// The deletion of a CRD marks its custom resources, which used to be stored even if that made them too
/// large.
#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_marked_holds_its_definition() {
    let api = with_blobs().await;
    let key = "/registry/x.io/blobs/a/b";
    let instance = json!({"apiVersion": "x.io/v1", "kind": "Blob", "metadata": {"name": "b", "namespace": "a",
        "finalizers": ["x.io/held"]}});
    store_largest(&api, key, instance).await;
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/blobs.x.io";
    assert_eq!(api.delete(definition).await.status, 200);
    assert_eq!(api.store().get(key).unwrap().value.len(), LIMIT);
    let conditions = api.get(definition).await.body["status"]["conditions"].clone();
    let terminating = conditions.as_array().unwrap().iter().find(|it| it["type"] == "Terminating").unwrap();
    assert_eq!(terminating["reason"], "InstanceDeletionInProgress", "{terminating}");
}
