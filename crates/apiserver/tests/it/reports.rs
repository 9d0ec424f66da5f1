//! Conditions that the server itself reports, and the pages about the server.

use serde_json::{Value, json};

use crate::api::Api;

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

fn condition<'a>(object: &'a Value, kind: &str) -> [&'a str; 2] {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|it| it["type"] == kind).unwrap();
    ["status", "reason"].map(|field| found[field].as_str().unwrap())
}

fn managers(object: &Value) -> Vec<(&str, &str)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let of_status = entries.iter().filter(|it| it["subresource"] == "status");
    of_status.map(|it| (it["manager"].as_str().unwrap(), it["operation"].as_str().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_flow_schema_says_whether_its_level_exists() {
    let api = Api::start().await;
    let spec = json!({"priorityLevelConfiguration": {"name": "new"}, "matchingPrecedence": 1000});
    assert_eq!(api.post(SCHEMAS, json!({"metadata": {"name": "s"}, "spec": spec})).await.status, 201);
    let path = format!("{SCHEMAS}/s");
    let schema = api.get(&path).await.body;
    assert_eq!(condition(&schema, "Dangling"), ["True", "NotFound"]);
    assert_eq!(managers(&schema), [("api-priority-and-fairness-config-consumer-v1", "Apply")]);
    let limited = json!({"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}});
    let level = json!({"metadata": {"name": "new"}, "spec": {"type": "Limited", "limited": limited}});
    assert_eq!(api.post(LEVELS, level).await.status, 201);
    assert_eq!(condition(&api.get(&path).await.body, "Dangling"), ["False", "Found"]);
    let version = api.get(&path).await.body["metadata"]["resourceVersion"].clone();
    api.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    let merged = api.get(&path).await.body;
    assert_eq!(condition(&merged, "Dangling"), ["False", "Found"]);
    assert_ne!(merged["metadata"]["resourceVersion"], version);
    api.delete(&format!("{LEVELS}/new")).await;
    assert_eq!(condition(&api.get(&path).await.body, "Dangling"), ["True", "NotFound"]);
}

#[tokio::test(start_paused = true)]
async fn an_api_service_says_whether_it_is_available() {
    let api = Api::start().await;
    let spec = |service: Value| {
        json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": service, "insecureSkipTLSVerify": true})
    };
    let service = json!({"name": "s", "namespace": "a", "port": 443});
    let object = json!({"metadata": {"name": "v1.example.com"}, "spec": spec(service)});
    assert_eq!(api.post(SERVICES, object).await.status, 201);
    let made = api.get(&format!("{SERVICES}/v1.example.com")).await.body;
    assert_eq!(condition(&made, "Available"), ["False", "ServiceNotFound"]);
    assert_eq!(made["status"]["conditions"][0]["message"], r#"service/s in "a" is not present"#);
    assert_eq!(managers(&made), [("kube-apiserver", "Update")]);
}

#[tokio::test(start_paused = true)]
async fn the_server_manages_the_status_of_definitions() {
    let api = Api::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let spec = json!({
        "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    });
    api.post(definitions, json!({"metadata": {"name": "things.example.com"}, "spec": spec})).await;
    let made = api.get(&format!("{definitions}/things.example.com")).await.body;
    assert_eq!(managers(&made), [("kube-apiserver", "Update")]);
    let entries = made["metadata"]["managedFields"].as_array().unwrap();
    let own = entries.iter().find(|it| it["manager"] == "kube-apiserver").unwrap();
    let status = &own["fieldsV1"]["f:status"];
    assert!(status["f:acceptedNames"]["f:kind"].is_object(), "{own}");
    assert!(status["f:conditions"][r#"k:{"type":"Established"}"#]["f:status"].is_object(), "{own}");
}

#[tokio::test(start_paused = true)]
async fn pages_about_the_server_are_text_and_objects() {
    let api = Api::start().await;
    api.get("/api/v1/namespaces/a/pods/none").await;
    let text = |page: &'static str, accept: &'static str| {
        let api = &api;
        async move {
            let answer = api.send("GET", page, &[("accept", accept)], Vec::new()).await;
            let status = answer.status().as_u16();
            (status, String::from_utf8(answer.into_body().whole().unwrap().to_vec()).unwrap())
        }
    };
    let (status, metrics) = text("/metrics", "*/*").await;
    assert_eq!(status, 200);
    let labels = r#"component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1""#;
    assert!(metrics.contains(&format!("apiserver_request_total{{code=\"404\",{labels}}} 1\n")), "{metrics}");
    assert!(metrics.contains("apiserver_resource_objects{group=\"\",resource=\"namespaces\"} "), "{metrics}");
    for (page, kind) in [("/statusz", "Statusz"), ("/flagz", "Flagz")] {
        let (status, page_text) = text(page, "text/plain").await;
        assert_eq!(status, 200);
        assert!(
            page_text.starts_with(&format!("\napiserver {}\nWarning:", page.trim_start_matches('/'))),
            "{page_text}"
        );
        let accept: &'static str = match kind {
            "Statusz" => "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz",
            _ => "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz",
        };
        let (status, object) = text(page, accept).await;
        let object: Value = serde_json::from_str(&object).unwrap();
        assert_eq!((status, &object["kind"]), (200, &json!(kind)));
        assert_eq!(text(page, "application/json").await.0, 406);
    }
    let secret = api.act("alice", "GET", "/metrics", Value::Null).await;
    assert_eq!(secret.status, 403);
}
