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

#[tokio::test(start_paused = true)]
async fn answers_have_the_type_that_kubernetes_gives_them() {
    let api = Api::start().await;
    let asked = async |method: &str, path: &str, accept: &str| {
        let answer = api.send(method, path, &[("accept", accept)], Vec::new()).await;
        let kind = answer.headers().get("content-type").map(|it| it.to_str().unwrap().to_owned());
        (answer.status().as_u16(), kind)
    };
    let json = Some("application/json".to_owned());
    assert_eq!(asked("GET", "/openapi/v3/apis/none/v1", "*/*").await, (404, None));
    // Kubernetes knows no HEAD of objects.
    assert_eq!(asked("HEAD", "/api/v1/namespaces/a/pods/none", "*/*").await, (405, json.clone()));
    let keys = "/openid/v1/jwks";
    assert_eq!(asked("GET", keys, "*/*").await, (200, Some("application/jwk-set+json".to_owned())));
    assert_eq!(asked("GET", keys, "application/json").await, (406, json));
}
