//! Conversion webhooks that are served in this process, in virtual time.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_cluster::{Cluster, ServedWebhook, WebhookAddress, WebhookFault};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::BoxError;

/// Converts between `spec.size` in v1 and `spec.amount` in v2.
async fn convert(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, BoxError> {
    let review: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let desired = review["request"]["desiredAPIVersion"].as_str().unwrap_or_default();
    let converted =
        review["request"]["objects"].as_array().into_iter().flatten().cloned().map(|mut object| {
            let (from, to) = if desired.ends_with("/v1") { ("amount", "size") } else { ("size", "amount") };
            object["apiVersion"] = desired.into();
            object["spec"] = json!({to: object["spec"][from]});
            object
        });
    let response = json!({"uid": review["request"]["uid"], "result": {"status": "Success"},
        "convertedObjects": converted.collect::<Vec<_>>()});
    let answer =
        json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response});
    Ok(Response::new(Full::new(answer.to_string().into())))
}

fn things(cluster: &Cluster, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", version, "Thing"));
    Api::namespaced_with(cluster.client(), "default", &resource)
}

async fn start(config: Value, address: WebhookAddress) -> (Cluster, ServedWebhook) {
    let cluster = Cluster::builder().controllers(false).start().await.expect("a cluster in memory starts");
    let version = |name: &str, field: &str| {
        let spec = json!({"type": "object", "properties": {field: {"type": "integer"}}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": spec}}}})
    };
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [version("v1", "size"), version("v2", "amount")],
        "conversion": {"strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}}}});
    let definition: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
        serde_json::from_value(definition).expect("it is one");
    cluster.apply(definition).await.expect("it is valid");
    let served = cluster.serve_webhook(address, tower::service_fn(convert));
    (cluster, served)
}

async fn create(cluster: &Cluster, version: &str, name: &str, field: &str) -> Result<DynamicObject, String> {
    let object = json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing",
        "metadata": {"name": name}, "spec": {field: 3}});
    let object = serde_json::from_value(object).expect("it is one");
    things(cluster, version).create(&PostParams::default(), &object).await.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn objects_are_converted_by_url_and_by_service() {
    let by_url = json!({"url": "https://hooks.example.com/convert"});
    let by_service = json!({"service": {"namespace": "operators", "name": "hooks", "path": "/convert"}});
    let places = [
        (by_url, WebhookAddress::url("https://hooks.example.com")),
        (by_service, WebhookAddress::service("operators", "hooks", 443)),
    ];
    for (config, address) in places {
        let (cluster, _served) = start(config, address).await;
        let began = Instant::now();
        create(&cluster, "v2", "a", "amount").await.expect("the webhook converts it");
        let stored = things(&cluster, "v1").get("a").await.expect("it is there");
        assert_eq!(stored.data["spec"], json!({"size": 3}));
        let listed = things(&cluster, "v2").list(&ListParams::default()).await.expect("it is converted");
        assert_eq!(listed.items[0].data["spec"], json!({"amount": 3}));
        assert_eq!(began.elapsed(), Duration::ZERO, "no call has waited");
        let timeline = cluster.timeline();
        assert!(timeline.contains("convert?timeout=30s (converts 1 to example.com/v1) → 200"), "{timeline}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conversion_webhook_is_down_slow_or_talks_nonsense() {
    let address = WebhookAddress::url("https://hooks.example.com");
    let (cluster, _served) = start(json!({"url": "https://hooks.example.com/convert"}), address).await;
    create(&cluster, "v1", "a", "size").await.expect("the storage version needs no webhook");
    let faults = [
        (WebhookFault::Down, "dial tcp hooks.example.com:443: connect: connection refused"),
        (WebhookFault::Slow(Duration::from_secs(31)), "context deadline exceeded"),
        (WebhookFault::Nonsense, "json parse error"),
    ];
    for (fault, expected) in faults {
        cluster.fail_webhook("/convert", fault, 1);
        let error = things(&cluster, "v2").get("a").await.expect_err("the webhook fails").to_string();
        let told = error.contains("conversion webhook for example.com/v1, Kind=Thing failed: ");
        assert!(told && error.contains(expected), "{fault:?}: {error}");
        assert!(cluster.timeline().contains("injected"), "{}", cluster.timeline());
    }
    cluster.fail_webhook("/convert", WebhookFault::Slow(Duration::from_secs(29)), 1);
    let began = Instant::now();
    things(&cluster, "v2").get("a").await.expect("29 seconds are soon enough");
    assert_eq!(began.elapsed(), Duration::from_secs(29));
}
