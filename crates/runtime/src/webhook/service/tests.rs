use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};

use super::*;
use crate::webhook::{Admission, Endpoint, FieldErrors, Mutation, Verdict};
use crate::{Error, Result};

async fn check(map: Arc<ConfigMap>, request: Admission<ConfigMap, String>) -> Result<Verdict> {
    let value = map.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str);
    Ok(match value {
        "warn" => Verdict::allow().warn(format!("by {}", request.state())).audit_annotation("k", "v"),
        "deny" => Verdict::deny(format!("no {:?} of {:?}", request.operation(), request.old().is_some())),
        "invalid" => {
            let mut errors = FieldErrors::default();
            errors.invalid("data.value", value, "must not be so");
            errors.into()
        }
        "error" => return Err(Error::message("the disk is full")),
        "panic" => panic!("planned"),
        "slow" => std::future::pending().await,
        _ => Verdict::allow(),
    })
}

async fn label(mut map: ConfigMap, request: Admission<ConfigMap>) -> Result<Mutation<ConfigMap>> {
    let user = request.user().username.clone().unwrap_or_default();
    map.metadata.labels.get_or_insert_default().insert("by".into(), user);
    Ok(Mutation::new(map))
}

async fn dynamic(object: Arc<DynamicObject>, _: Admission<DynamicObject>) -> Result<Verdict> {
    Ok(Verdict::deny(object.data["spec"]["size"].to_string()))
}

fn webhooks() -> (Webhooks, Metrics) {
    let sites = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Site"));
    let hooks = vec![
        Webhook::validate(check).state("state".to_owned()),
        Webhook::mutate(label),
        Webhook::validate_with(&sites, dynamic),
    ];
    let metrics = Metrics::new();
    (Webhooks::new(hooks, Vec::new(), metrics.clone()).unwrap(), metrics)
}

fn review(operation: &str, object: Value, old: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u1", "operation": operation, "name": "m", "namespace": "default",
            "kind": { "group": "", "version": "v1", "kind": "ConfigMap" },
            "resource": { "group": "", "version": "v1", "resource": "configmaps" },
            "userInfo": { "username": "ada" }, "object": object, "oldObject": old, "dryRun": false,
        },
    })
}

fn map(value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m" }, "data": { "value": value }, "newer": 1 })
}

async fn post(webhooks: &Webhooks, path: &str, body: impl Into<Bytes>) -> (u16, Value) {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    let response = webhooks.answer(request.body(body.into()).unwrap()).await;
    (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap())
}

const VALIDATE: &str = "/validate--v1-configmap?timeout=5s";

async fn validated(value: &str) -> (u16, Value) {
    post(&webhooks().0, VALIDATE, review("CREATE", map(value), Value::Null).to_string()).await
}

#[tokio::test(start_paused = true)]
async fn verdicts_reach_the_api_server() {
    let (code, answer) = validated("fine").await;
    let wanted = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": { "uid": "u1", "allowed": true },
    });
    assert_eq!((code, answer), (200, wanted));
    let response = validated("warn").await.1["response"].clone();
    assert_eq!(
        (&response["warnings"], &response["auditAnnotations"]),
        (&json!(["by state"]), &json!({ "k": "v" }))
    );
    let response = validated("deny").await.1["response"].clone();
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    assert_eq!(response["status"]["message"], "no Create of false");
    let status = validated("invalid").await.1["response"]["status"].clone();
    let message = "ConfigMap \"m\" is invalid: data.value: Invalid value: \"invalid\": must not be so";
    assert_eq!((&status["code"], &status["message"]), (&json!(422), &json!(message)));
    assert_eq!(status["details"]["causes"][0]["field"], "data.value");
    // On a deletion, the function receives the deleted object.
    let review = review("DELETE", Value::Null, map("deny")).to_string();
    let (_, answer) = post(&webhooks().0, VALIDATE, review).await;
    assert_eq!(answer["response"]["status"]["message"], "no Delete of true");
}

/// An error, a panic and a function that never returns all get a response, so that the webhook's failure policy
/// applies.
#[tokio::test(start_paused = true)]
async fn a_function_that_fails_is_a_clear_500() {
    let (code, status) = validated("error").await;
    assert_eq!(
        (code, &status["kind"], &status["message"]),
        (500, &json!("Status"), &json!("the disk is full"))
    );
    let (code, status) = validated("panic").await;
    assert_eq!((code, &status["message"]), (500, &json!("the webhook panicked: planned")));
    let (code, status) = validated("slow").await;
    assert_eq!((code, &status["message"]), (504, &json!("the webhook gave no verdict within 5s")));
}

#[tokio::test]
async fn a_mutation_is_a_patch_of_what_was_received() {
    let webhooks = webhooks().0;
    let path = "/mutate--v1-configmap";
    let (_, answer) = post(&webhooks, path, review("CREATE", map("x"), Value::Null).to_string()).await;
    let patch = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        answer["response"]["patch"].as_str().unwrap(),
    );
    let patch: Value = serde_json::from_slice(&patch.unwrap()).unwrap();
    assert_eq!(patch, json!([{ "op": "add", "path": "/metadata/labels", "value": { "by": "ada" } }]));
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    // An object that already has the label needs no patch, and a deletion cannot have one.
    let mut labelled = map("x");
    labelled["metadata"]["labels"] = json!({ "by": "ada" });
    for (operation, object, old) in [("CREATE", labelled, Value::Null), ("DELETE", Value::Null, map("x"))] {
        let (_, answer) = post(&webhooks, path, review(operation, object, old).to_string()).await;
        assert_eq!(answer["response"], json!({ "uid": "u1", "allowed": true }), "{operation}");
    }
}

#[tokio::test]
async fn a_kind_may_be_known_at_run_time_only() {
    let site =
        json!({ "apiVersion": "example.com/v1", "kind": "Site", "metadata": {}, "spec": { "size": 3 } });
    let review = review("CREATE", site, Value::Null).to_string();
    let (_, answer) = post(&webhooks().0, "/validate-example-com-v1-site", review).await;
    assert_eq!(answer["response"]["status"]["message"], "3");
}

#[tokio::test]
async fn bad_input_gets_a_clear_answer() {
    let webhooks = webhooks().0;
    let good = review("CREATE", map("x"), Value::Null).to_string();
    let v1beta1 = good.replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1");
    let bodies = [
        (String::new(), 400, "the request has no body"),
        (good[..good.len() - 9].to_owned(), 400, "the body is not a review: EOF"),
        ("[]".to_owned(), 400, "and got kind \"\""),
        (v1beta1, 400, "expected AdmissionReview of admission.k8s.io/v1, and got kind \"AdmissionReview\""),
        (good.replace("AdmissionReview", "Pod"), 400, "and got kind \"Pod\""),
        (good.replace("request", "nothing"), 400, "the AdmissionReview has no request"),
        (good.replace("CREATE", "EAT"), 400, "unknown variant `EAT`"),
        (good.replace("\"m\"", "7"), 400, "invalid type: integer `7`"),
        (review("CREATE", Value::Null, Value::Null).to_string(), 400, "neither object nor oldObject"),
        (" ".repeat(10_000_000), 413, "the review is larger than 7340032 bytes"),
    ];
    for (body, code, message) in bodies {
        let shown = body.chars().take(60).collect::<String>();
        let (found, status) = post(&webhooks, VALIDATE, body).await;
        let text = status["message"].as_str().unwrap_or_default();
        assert!(found == code && text.contains(message), "{shown}: {found} {status}");
    }
    assert_eq!(post(&webhooks, "/else", good.clone()).await.0, 404);
    assert_eq!(post(&webhooks, CONVERT_PATH, good.clone()).await.0, 404, "there is no conversion");
    let get = Request::get("/validate--v1-configmap").body(Bytes::new()).unwrap();
    assert_eq!(webhooks.answer(get).await.status(), 405);
    let plain = Request::post("/validate--v1-configmap").body(good.into()).unwrap();
    assert_eq!(webhooks.answer(plain).await.status(), 415);
}

#[cfg(feature = "metrics")]
#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_path_and_code() {
    let (webhooks, metrics) = webhooks();
    for value in ["fine", "deny", "error", "panic"] {
        post(&webhooks, VALIDATE, review("CREATE", map(value), Value::Null).to_string()).await;
    }
    let text = metrics.encode();
    for line in [
        "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/validate--v1-configmap\"} 2",
        "controller_runtime_webhook_requests_total{code=\"500\",webhook=\"/validate--v1-configmap\"} 2",
        "controller_runtime_webhook_requests_in_flight{webhook=\"/validate--v1-configmap\"} 0",
        "controller_runtime_webhook_latency_seconds_count{webhook=\"/validate--v1-configmap\"} 4",
        "controller_runtime_webhook_panics_total 1",
        "controller_runtime_conversion_webhook_panics_total 0",
    ] {
        assert!(text.lines().any(|found| found.replace(".0", "") == line), "{line} in\n{text}");
    }
}

#[test]
fn two_webhooks_that_cannot_be_told_apart_are_refused() {
    let two = || vec![Webhook::mutate(label), Webhook::mutate(label)];
    let error = Webhooks::new(two(), Vec::new(), Metrics::new()).unwrap_err().to_string();
    assert!(error.contains("the name mutate.configmaps.core"), "{error}");
    let mut named = two();
    named[0] = Webhook::mutate(label).name("other.example.com");
    let error = Webhooks::new(named, Vec::new(), Metrics::new()).unwrap_err().to_string();
    assert!(error.contains("the path /mutate--v1-configmap"), "{error}");
}

#[test]
fn configurations_say_what_to_call_and_spare_the_operators_namespace() {
    let hook = Webhook::mutate(label)
        .subresources(["status"])
        .failure_policy(crate::webhook::FailurePolicy::Ignore)
        .match_condition("not-nodes", "!('system:nodes' in request.userInfo.groups)")
        .timeout(Duration::from_secs(99));
    let webhooks = Webhooks::new(vec![hook], Vec::new(), Metrics::new()).unwrap();
    let endpoint = Endpoint::service("ops", "op-webhook").ca_bundle("pem");
    let service =
        json!({ "namespace": "ops", "name": "op-webhook", "path": "/mutate--v1-configmap", "port": 443 });
    let spared = json!({ "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["ops"] });
    assert_eq!(
        webhooks.configurations("op", &endpoint),
        [json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": "op" },
            "webhooks": [{
                "name": "mutate.configmaps.core", "admissionReviewVersions": ["v1"],
                "clientConfig": { "service": service, "caBundle": "cGVt" },
                "failurePolicy": "Ignore", "matchPolicy": "Equivalent", "sideEffects": "None",
                "reinvocationPolicy": "Never", "timeoutSeconds": 30,
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "configmaps/status"],
                    "operations": ["CREATE", "UPDATE"], "scope": "*",
                }],
                "namespaceSelector": { "matchExpressions": [spared] },
                "matchConditions": [{
                    "name": "not-nodes", "expression": "!('system:nodes' in request.userInfo.groups)",
                }],
            }],
        })]
    );
    let by_url = webhooks.configurations("op", &Endpoint::url("https://192.0.2.1:9443/"));
    assert_eq!(
        by_url[0]["webhooks"][0]["clientConfig"]["url"],
        "https://192.0.2.1:9443/mutate--v1-configmap"
    );
    assert_eq!(by_url[0]["webhooks"][0]["namespaceSelector"], json!({}));
    // A custom resource cannot keep the operator from starting.
    let sites = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Site"));
    let hooks = vec![Webhook::validate_with(&sites, dynamic)];
    let webhooks = Webhooks::new(hooks, Vec::new(), Metrics::new()).unwrap();
    assert_eq!(webhooks.configurations("op", &endpoint)[0]["webhooks"][0]["namespaceSelector"], json!({}));
}
