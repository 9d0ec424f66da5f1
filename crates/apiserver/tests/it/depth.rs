//! Deeply nested objects: whatever is stored can be parsed again, and nothing overflows the stack.

use serde_json::{Value, json};

use crate::api::Api;

const MAPS: &str = "/api/v1/namespaces/a/configmaps";
const TREES: &str = "/apis/x.io/v1/namespaces/a/trees";
const JSON_PATCH: &str = "application/json-patch+json";

/// A server with a custom resource that preserves unknown fields in its `spec`.
async fn with_trees() -> Api {
    let api = Api::start().await;
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let versions =
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let definition = json!({"metadata": {"name": "trees.x.io"}, "spec": {"group": "x.io", "scope": "Namespaced",
        "names": {"plural": "trees", "kind": "Tree"}, "versions": versions}});
    let made = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    assert_eq!(made.status, 201, "{made:?}");
    api
}

/// Builds nested maps with this many levels. The innermost map has a field, so that managedFields reach the
/// same depth.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({"a": "text"}), |inner, _| json!({ "a": inner }))
}

/// Ten copies of `/data` into its own innermost map, each of which doubles the depth, made an object of
/// 100,000 levels out of a body of 410 KB. Dropping that object overflowed the stack and ended the process.
#[tokio::test(start_paused = true)]
async fn copies_of_a_json_patch_cannot_nest_without_bound() {
    let api = Api::start().await;
    assert_eq!(api.post(MAPS, json!({"metadata": {"name": "c"}})).await.status, 201);
    let mut levels = 100;
    let mut operations = vec![json!({"op": "add", "path": "/data", "value": nested(levels)})];
    for _ in 0..10 {
        let path = format!("/data{}", "/a".repeat(levels));
        operations.push(json!({"op": "copy", "from": "/data", "path": path}));
        levels *= 2;
    }
    let body = Value::from(operations).to_string();
    assert!(body.len() < 420_000, "{}", body.len());
    let refused = api.patch(&format!("{MAPS}/c"), JSON_PATCH, body.into_bytes()).await;
    assert_eq!((refused.status, refused.body["reason"].as_str()), (422, Some("Invalid")), "{refused:?}");
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(message.contains("exceeded max depth"), "{message}");
    assert_eq!(api.get(&format!("{MAPS}/c")).await.status, 200);
}

/// managedFields are nested deeper than the object itself. An object of 121 levels was stored with 126 levels
/// and could no longer be parsed in a list; from 123 levels on it could not be parsed at all.
#[tokio::test(start_paused = true)]
async fn what_is_stored_can_be_read_back() {
    let api = with_trees().await;
    let mut taken = Vec::new();
    for levels in 100..130 {
        let name = format!("t{levels}");
        let path = format!("{TREES}/{name}");
        let object = json!({"apiVersion": "x.io/v1", "kind": "Tree", "metadata": {"name": name},
            "spec": nested(levels - 1)});
        let dry = api.post(&format!("{TREES}?dryRun=All"), object.clone()).await;
        let made = api.post(TREES, object.clone()).await;
        assert_eq!(dry.status, made.status, "{levels} levels");
        if made.status != 201 {
            assert!(matches!(made.status, 400 | 422), "{levels} levels: {made:?}");
            let applied = api.apply(&format!("{path}?fieldManager=m"), object).await;
            assert!(matches!(applied.status, 400 | 422), "{levels} levels: {applied:?}");
            continue;
        }
        taken.push(levels);
        assert_eq!(api.get(&path).await.body["spec"], nested(levels - 1), "{levels} levels");
        let patched = api.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(patched.status, 200, "{levels} levels: {patched:?}");
        let applied = api.apply(&format!("{path}?fieldManager=m&force=true"), object).await;
        assert_eq!(applied.status, 200, "{levels} levels: {applied:?}");
    }
    let deepest = evenkeel_schema::depth::DEPTH_MAX - evenkeel_schema::depth::MANAGED_LEVELS;
    assert_eq!(taken, (100..=deepest).collect::<Vec<_>>());
    let listed = api.get(TREES).await;
    assert_eq!(listed.body["items"].as_array().map(Vec::len), Some(taken.len()), "the list is parsed");
    let rows = api.table(&format!("{TREES}?includeObject=Object")).await;
    assert_eq!(rows["rows"].as_array().map(Vec::len), Some(taken.len()), "the table is parsed");
}

/// Each way to make an object deeper than the request that changes it.
#[tokio::test(start_paused = true)]
async fn every_write_is_held_to_the_bound() {
    let api = with_trees().await;
    let deep = evenkeel_schema::depth::DEPTH_MAX - evenkeel_schema::depth::MANAGED_LEVELS;
    let path = format!("{TREES}/t");
    let tree = |levels: usize| json!({"apiVersion": "x.io/v1", "kind": "Tree", "metadata": {"name": "t"}, "spec": nested(levels - 1)});
    assert_eq!(api.post(TREES, tree(deep)).await.status, 201);
    let add =
        json!([{"op": "add", "path": format!("/spec{}", "/a".repeat(deep - 1)), "value": {"a": "text"}}]);
    let longer = deep + 1;
    let answers = [
        api.patch(&path, JSON_PATCH, add.to_string().into_bytes()).await,
        api.merge(&path, json!({"spec": nested(longer - 1)})).await,
        api.apply(&format!("{path}?fieldManager=m&force=true"), tree(longer)).await,
        api.put(&path, versioned(&api, tree(longer)).await).await,
    ];
    for (index, answer) in answers.iter().enumerate() {
        assert_eq!(answer.status, 422, "{index}: {answer:?}");
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("exceeded max depth"), "{index}: {message}");
    }
    assert_eq!(api.get(&path).await.body["spec"], nested(deep - 1), "nothing was written");
}

/// Sets the current resourceVersion, which updates of custom resources need.
async fn versioned(api: &Api, mut object: Value) -> Value {
    let stored = api.get(&format!("{TREES}/t")).await.body;
    object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    object
}
