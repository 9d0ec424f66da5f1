//! The deadline that a client sets with the query parameter `timeout`.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Options, WebhookAnswer, WebhookCaller, WebhookQuestion};
use evenkeel_env::Env;
use evenkeel_store::Store;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Answer, Api};

const MAPS: &str = "/api/v1/namespaces/a/configmaps";

/// A webhook that allows everything after ten seconds.
struct Slow;

impl WebhookCaller for Slow {
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let review: Value = serde_json::from_slice(&question.body).unwrap_or_default();
            let response = json!({"uid": review["request"]["uid"], "allowed": true});
            let body =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            Ok(WebhookAnswer { code: 200, content_type: String::new(), body: body.to_string().into() })
        })
    }
}

async fn with_slow_webhook() -> Api {
    let env = Env::seeded(1);
    let store = Store::memory(env.clone(), evenkeel_store::Options::default());
    let mut options = Options::default();
    options.webhooks = Some(Arc::new(Slow));
    let api = Api::over(ApiServer::new(store, env, options));
    assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await.status, 201);
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]});
    let hook = json!({"name": "slow.x.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/x"}, "rules": [rule], "timeoutSeconds": 30});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let made = api.post(path, json!({"metadata": {"name": "slow"}, "webhooks": [hook]})).await;
    assert_eq!(made.status, 201, "{made:?}");
    api
}

fn timed_out(answer: &Answer, message: &str) {
    assert_eq!((answer.status, answer.body["reason"].as_str()), (504, Some("Timeout")), "{answer:?}");
    assert_eq!(answer.body["message"], message);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_takes_longer_than_its_timeout_is_given_up() {
    let api = with_slow_webhook().await;
    let begin = Instant::now();
    let late = api.post(&format!("{MAPS}?timeout=2s"), json!({"metadata": {"name": "late"}})).await;
    let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    timed_out(&late, message);
    assert_eq!(begin.elapsed().as_secs(), 2);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(api.get(&format!("{MAPS}/late")).await.status, 404, "nothing was written");
    // Kubernetes ignores a timeout that is zero, negative or longer than its own.
    for (name, timeout) in [("a", "20s"), ("b", "0"), ("c", "-1s"), ("d", "61s")] {
        let made = api.post(&format!("{MAPS}?timeout={timeout}"), json!({"metadata": {"name": name}})).await;
        assert_eq!(made.status, 201, "{timeout}: {made:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_need_not_wait_and_a_watch_have_no_deadline() {
    let api = Api::start().await;
    assert_eq!(api.get(&format!("{MAPS}?timeout=1ns")).await.status, 200, "it need not wait");
    // A watch is long-running, so its timeout is ignored.
    let mut watch = api.watch(&format!("{MAPS}?watch=1&timeout=1s")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(api.post(MAPS, json!({"metadata": {"name": "c"}})).await.status, 201);
    assert_eq!(watch.next().await["object"]["metadata"]["name"], "c");
}
