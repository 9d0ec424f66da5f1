//! Webhooks that are served in this process, in virtual time.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_cluster::{Cluster, WebhookAddress, WebhookFault};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::BoxError;

/// Answers a review; names that begin with `bad` are denied.
async fn review(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, BoxError> {
    let review: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let name = review["request"]["name"].as_str().unwrap_or_default();
    assert_ne!(name, "panic", "the webhook panics");
    let response = json!({"uid": review["request"]["uid"], "allowed": !name.starts_with("bad")});
    let answer = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
    Ok(Response::new(Full::new(answer.to_string().into())))
}

async fn start(config: Value) -> Cluster {
    let cluster = Cluster::builder().controllers(false).start().await.expect("a cluster in memory starts");
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "hooks"},
        "webhooks": [{
            "name": "hooks.example.com", "clientConfig": config, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}],
        }],
    }))
    .expect("it is one");
    cluster.apply(configuration).await.expect("it is valid");
    cluster
}

async fn create(cluster: &Cluster, name: &str) -> Result<(), String> {
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).expect("it is one");
    cluster.apply(map).await.map(drop).map_err(|error| error.to_string())
}

/// An admission webhook used to time out at once in paused time.
#[tokio::test(start_paused = true)]
async fn a_webhook_is_called_by_url_and_by_service() {
    let by_url = json!({"url": "https://hooks.example.com/validate"});
    let by_service = json!({"service": {"namespace": "operators", "name": "hooks", "path": "/validate"}});
    let places = [
        (by_url, WebhookAddress::url("https://hooks.example.com")),
        (by_service, WebhookAddress::service("operators", "hooks", 443)),
    ];
    for (config, address) in places {
        let cluster = start(config).await;
        let served = cluster.serve_webhook(address, tower::service_fn(review));
        let began = Instant::now();
        create(&cluster, "good").await.expect("it is allowed");
        let refused = create(&cluster, "bad").await.expect_err("it is denied");
        assert!(refused.contains("denied the request"), "{refused}");
        let broken = create(&cluster, "panic").await.expect_err("the webhook panics");
        assert!(broken.contains("validate?timeout=10s\": EOF"), "{broken}");
        drop(served);
        let refused = create(&cluster, "next").await.expect_err("nobody listens any more");
        assert!(refused.contains(":443: connect: connection refused"), "{refused}");
        assert_eq!(began.elapsed(), Duration::ZERO, "no call has waited");
        let timeline = cluster.timeline();
        assert!(timeline.contains("validate?timeout=10s (CREATE configmaps/good) → 200"), "{timeline}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_down_slow_or_talks_nonsense() {
    let cluster = start(json!({"url": "https://hooks.example.com/validate"})).await;
    let address = WebhookAddress::url("https://hooks.example.com");
    let _served = cluster.serve_webhook(address, tower::service_fn(review));
    let faults = [
        (WebhookFault::Down, "dial tcp hooks.example.com:443: connect: connection refused"),
        (WebhookFault::Slow(Duration::from_secs(11)), "context deadline exceeded"),
        (WebhookFault::Nonsense, "json parse error"),
    ];
    for (fault, expected) in faults {
        cluster.fail_webhook("hooks.example.com", fault, 1);
        cluster.fail_webhook("elsewhere", WebhookFault::Down, 1);
        let error = create(&cluster, "a").await.expect_err("the webhook fails");
        assert!(error.contains(expected), "{fault:?}: {error}");
        assert!(cluster.timeline().contains("injected"), "{}", cluster.timeline());
    }
    cluster.fail_webhook("/validate", WebhookFault::Slow(Duration::from_secs(9)), 1);
    let began = Instant::now();
    create(&cluster, "a").await.expect("nine seconds are soon enough");
    assert_eq!(began.elapsed(), Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn the_replicas_of_a_webhook_take_turns() {
    let cluster = start(json!({"service": {"namespace": "default", "name": "hooks"}})).await;
    let address = WebhookAddress::service("default", "hooks", 443);
    let _first = cluster.serve_webhook(address.clone(), tower::service_fn(review));
    let second = tower::service_fn(|_| async { Err::<Response<Full<Bytes>>, BoxError>("second".into()) });
    let second = cluster.serve_webhook(address, second);
    create(&cluster, "a").await.expect("the first replica allows it");
    let error = create(&cluster, "b").await.expect_err("the second one fails");
    assert!(error.contains("second"), "{error}");
    drop(second);
    create(&cluster, "c").await.expect("only the first is left");
    create(&cluster, "d").await.expect("only the first is left");
}
