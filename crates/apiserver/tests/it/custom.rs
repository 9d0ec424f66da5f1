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

fn holder() -> Value {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});
    let replicas = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"template": embedded, "replicas": replicas}}}});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"scale": scale},
        "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "widgets", "kind": "Widget"},
    }})
}

#[tokio::test(start_paused = true)]
async fn metadata_is_typed_wherever_it_is() {
    let api = Api::start().await;
    api.post(DEFINITIONS, holder()).await;
    let template =
        |metadata: Value| json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}});
    let made = api.post(WIDGETS, widget(template(json!({"name": "x", "bogus": 1})))).await;
    assert_eq!((made.status, &made.body["spec"]["template"]["metadata"]), (201, &json!({"name": "x"})));
    assert_eq!(made.warnings, [r#"299 - "unknown field \"spec.template.metadata.bogus\"""#]);
    let wrong = template(json!({"labels": {"a": 1}}));
    let refused = api.post(WIDGETS, widget(wrong.clone())).await;
    let message = r#"Widget in version "v1" cannot be handled as a Widget: spec.template.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#;
    assert_eq!((refused.status, refused.body["message"].as_str()), (400, Some(message)));
    for patch in [json!({"spec": wrong}), json!({"metadata": {"labels": {"a": 1}}})] {
        let refused = api.merge(&format!("{WIDGETS}/w"), patch).await;
        let told = refused.body["message"].as_str().unwrap_or_default();
        assert_eq!(refused.status, 422, "{told}");
        assert!(
            told.contains("json: cannot unmarshal number into Go struct field ObjectMeta.labels"),
            "{told}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_scale_of_a_custom_resource_cannot_be_applied_and_never_becomes_nothing() {
    let api = Api::start().await;
    api.post(DEFINITIONS, holder()).await;
    api.post(WIDGETS, widget(json!({}))).await;
    let path = format!("{WIDGETS}/w/scale");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"},
        "spec": {"replicas": 2}});
    let apply = [("content-type", "application/apply-patch+yaml")];
    let url = format!("{path}?fieldManager=m");
    let answer = api.send("PATCH", &url, &apply, scale.to_string().into_bytes()).await;
    assert_eq!(answer.status(), 500);
    let refused = api.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    let message = r#"the spec replicas field ".spec.replicas" cannot be empty"#;
    assert_eq!((refused.status, refused.body["message"].as_str()), (400, Some(message)));
    let refused = api.merge(&path, json!({"spec": {"replicas": -1}})).await;
    assert_eq!((refused.status, &refused.body["details"]["kind"]), (422, &json!("Widget")));
    assert_eq!(api.merge(&path, json!({"spec": {"replicas": 3}})).await.status, 200);
}
