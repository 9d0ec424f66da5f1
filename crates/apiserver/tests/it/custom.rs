use serde_json::{Value, json};

use crate::api::Api;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/a/widgets";

fn definition() -> Value {
    let size = json!({"type": "integer", "default": 1, "minimum": 0});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "default": {}, "properties": {"size": size}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "widgets", "kind": "Widget"},
    }})
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_when_it_was_answered() {
    let api = Api::start().await;
    assert_eq!(api.get(WIDGETS).await.status, 404);
    let made = api.post(DEFINITIONS, definition()).await;
    assert_eq!((made.status, &made.body["status"]["conditions"]), (201, &Value::Null));
    let now = api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.body;
    assert_eq!(now["status"]["conditions"][1]["type"], "Established");
    assert_eq!(api.get(WIDGETS).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_is_pruned_defaulted_and_validated() {
    let api = Api::start().await;
    api.post(DEFINITIONS, definition()).await;
    let made = api.post(WIDGETS, widget(json!({"color": "red"}))).await;
    assert_eq!((made.status, &made.body["spec"]), (201, &json!({"size": 1})));
    assert_eq!(made.warnings, [r#"299 - "unknown field \"spec.color\"""#]);
    let refused = api.merge(&format!("{WIDGETS}/w"), json!({"spec": {"size": -1}})).await;
    assert_eq!((refused.status, &refused.body["details"]["causes"][0]["field"]), (422, &json!("spec.size")));
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let answer = api.send("PATCH", &format!("{WIDGETS}/w"), &strategic, b"{}".to_vec()).await;
    assert_eq!(answer.status(), 415);
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_by_its_own_endpoint() {
    let api = Api::start().await;
    api.post(DEFINITIONS, definition()).await;
    let mut object = widget(json!({"size": 2}));
    object["status"] = json!({"ready": true});
    let made = api.post(WIDGETS, object).await.body;
    assert_eq!(made.get("status"), None);
    let path = format!("{WIDGETS}/w/status");
    let patch = json!({"spec": {"size": 9}, "status": {"ready": true}});
    let written = api.merge(&path, patch).await.body;
    assert_eq!((&written["spec"]["size"], &written["status"]["ready"]), (&json!(2), &json!(true)));
    assert_eq!(written["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_definition_takes_its_resources_with_it() {
    let api = Api::start().await;
    api.post(DEFINITIONS, definition()).await;
    let mut held = widget(json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.post(WIDGETS, held).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    api.delete(&path).await;
    let waiting = api.get(&path).await.body;
    assert_eq!(waiting["status"]["conditions"][2]["reason"], "InstanceDeletionInProgress");
    api.merge(&format!("{WIDGETS}/w"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(api.get(&path).await.status, 404);
    assert_eq!(api.get(WIDGETS).await.status, 404);
}
