use serde_json::{Value, json};

use crate::api::Api;

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}, "versions": [version]}})
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_discovered_described_and_printed() {
    let api = Api::start().await;
    let made = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let resources = api.get("/apis/example.com/v1").await.body;
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
    assert_eq!(resources["resources"][1]["name"], "widgets/status");
    assert_eq!(resources["resources"][1]["kind"], "Widget");
    let document = api.get("/openapi/v3/apis/example.com/v1").await.body;
    let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["size"]["type"], "integer");
    let widgets = "/apis/example.com/v1/namespaces/a/widgets";
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}});
    assert_eq!(api.post(widgets, widget).await.status, 201);
    let table = api.table(widgets).await;
    assert_eq!(table["rows"][0]["cells"], json!(["w", 3]));
    let refused = api.get("/apis/other.example.com/v1").await;
    assert_eq!((refused.status, refused.body), (404, json!("404 page not found\n")));
}

#[tokio::test(start_paused = true)]
async fn the_index_leads_to_documents_by_their_hash() {
    let api = Api::start().await;
    let index = api.get("/openapi/v3").await.body;
    let index: Value = match index {
        Value::String(text) => serde_json::from_str(&text).expect("the index is JSON"),
        index => index,
    };
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("an address");
    let document = api.get(url).await;
    assert_eq!(document.body["openapi"], "3.0.0");
    assert_eq!(api.get("/openapi/v3/apis/apps/v1?hash=0").await.status, 301);
    assert_eq!(api.get("/openapi/v3/apis/none/v1").await.status, 404);
}
