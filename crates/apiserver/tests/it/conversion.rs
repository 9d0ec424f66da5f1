//! Conversion of custom resources by a webhook: how often it is called, and with what.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Header, Options, WebhookAnswer, WebhookCaller, WebhookQuestion};
use evenkeel_env::Env;
use evenkeel_store::Store;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::api::Api;
use crate::conversion_recorded::convert;

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
const V1: &str = "/apis/example.com/v1/namespaces/a/things";
const V2: &str = "/apis/example.com/v2/namespaces/a/things";

/// A call of the conversion webhook: its path, the desired version and the names of the objects.
#[derive(Clone, Debug, PartialEq)]
struct Call(String, String, Vec<String>);

/// A webhook that converts, and that admits with a patch of v2.
#[derive(Default)]
struct Webhook {
    calls: Mutex<Vec<Call>>,
    /// The objects of the admission reviews.
    admitted: Mutex<Vec<Value>>,
    is_down: Mutex<bool>,
}

impl Webhook {
    /// The calls since the last time.
    fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock())
    }

    fn converted(&self, path: &str, review: &Value) -> Value {
        let request = &review["request"];
        let desired = request["desiredAPIVersion"].as_str().unwrap();
        let objects = request["objects"].as_array().unwrap();
        let names = objects.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
        let version = desired.rsplit('/').next().unwrap().to_owned();
        let path = path.split('?').next().unwrap().to_owned();
        self.calls.lock().push(Call(path, version, names.collect()));
        let converted: Vec<Value> = objects.iter().map(|it| convert(it.clone(), desired)).collect();
        let response =
            json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted});
        json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})
    }

    fn admit(&self, review: &Value) -> Value {
        use base64::Engine as _;
        self.admitted.lock().push(review["request"].clone());
        let patch = json!([{"op": "replace", "path": "/spec/amount/value", "value": 7}]).to_string();
        let patch = base64::engine::general_purpose::STANDARD.encode(patch);
        let response = json!({"uid": review["request"]["uid"], "allowed": true, "patch": patch, "patchType": "JSONPatch"});
        json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})
    }
}

impl WebhookCaller for Webhook {
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>> {
        Box::pin(async move {
            // Everybody who asks at the same time asks before the first answer.
            tokio::time::sleep(Duration::from_millis(10)).await;
            if *self.is_down.lock() {
                return Err("connection refused".to_owned());
            }
            let review: Value = serde_json::from_slice(&question.body).unwrap();
            let answer = match question.path.starts_with("/admit") {
                true => self.admit(&review),
                false => self.converted(&question.path, &review),
            };
            Ok(WebhookAnswer {
                code: 200,
                content_type: "application/json".to_owned(),
                body: answer.to_string().into(),
            })
        })
    }
}

fn definition() -> Value {
    let version = |name: &str, storage: bool, field: &str, schema: Value| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {field: schema}}}}}})
    };
    let amount = json!({"type": "object", "properties": {"value": {"type": "integer"}}});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://hooks.example.com/convert"}});
    json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [version("v1", true, "size", json!({"type": "integer"})), version("v2", false, "amount", amount)],
        "conversion": {"strategy": "Webhook", "webhook": webhook}}})
}

async fn start() -> (Api, Arc<Webhook>) {
    let env = Env::seeded(1);
    let store: Store<Header> = Store::memory(env.clone(), evenkeel_store::Options::default());
    let webhook = Arc::new(Webhook::default());
    let mut options = Options::default();
    options.webhooks = Some(webhook.clone());
    let api = Api::over(ApiServer::new(store, env, options));
    assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await.status, 201);
    let made = api.post(DEFINITION.rsplit_once('/').unwrap().0, definition()).await;
    assert_eq!(made.status, 201, "{made:?}");
    (api, webhook)
}

fn thing(name: &str, size: u64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"size": size}})
}

async fn create(api: &Api, name: &str, size: u64) {
    let made = api.post(V1, thing(name, size)).await;
    assert_eq!(made.status, 201, "{made:?}");
}

fn call(version: &str, names: &[&str]) -> Call {
    Call("/convert".to_owned(), version.to_owned(), names.iter().map(|&it| it.to_owned()).collect())
}

/// Definitions with a webhook used to be converted as if they had none, which lost fields silently.
#[tokio::test(start_paused = true)]
async fn an_object_is_converted_once() {
    let (api, webhook) = start().await;
    for (name, size) in [("a", 1), ("b", 2), ("c", 3)] {
        create(&api, name, size).await;
    }
    assert_eq!(api.get(V1).await.status, 200);
    assert_eq!(webhook.calls(), [], "the storage version needs no conversion");
    let listed = api.get(V2).await;
    assert_eq!(listed.body["items"][1]["spec"], json!({"amount": {"value": 2}}), "{listed:?}");
    assert_eq!(webhook.calls(), [call("v2", &["a", "b", "c"])], "a list is one call");
    assert_eq!(api.get(&format!("{V2}/b")).await.body["spec"], json!({"amount": {"value": 2}}));
    assert_eq!(api.get(V2).await.body["items"][2]["spec"], json!({"amount": {"value": 3}}));
    assert_eq!(webhook.calls(), [], "what was converted is kept");
    assert_eq!(api.merge(&format!("{V1}/b"), json!({"spec": {"size": 5}})).await.status, 200);
    assert_eq!(api.get(V2).await.body["items"][1]["spec"], json!({"amount": {"value": 5}}));
    assert_eq!(webhook.calls(), [call("v2", &["b"])], "only the changed object is converted again");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_converted_there_and_back() {
    let (api, webhook) = start().await;
    let body = json!({"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "a"},
        "spec": {"amount": {"value": 1}}});
    assert_eq!(api.post(V2, body).await.body["spec"], json!({"amount": {"value": 1}}));
    assert_eq!(webhook.calls(), [call("v1", &["a"]), call("v2", &["a"])]);
    let changed = api.merge(&format!("{V2}/a"), json!({"spec": {"amount": {"value": 2}}})).await;
    assert_eq!(changed.body["spec"], json!({"amount": {"value": 2}}));
    assert_eq!(webhook.calls(), [call("v1", &["a"]), call("v2", &["a"])], "the old object is kept");
    assert_eq!(api.get(&format!("{V1}/a")).await.body["spec"], json!({"size": 2}));
    assert_eq!(webhook.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn those_who_ask_together_get_one_conversion() {
    let (api, webhook) = start().await;
    create(&api, "a", 1).await;
    let path = format!("{V2}/a");
    let got = join_all((0..5).map(|_| api.get(&path))).await;
    assert!(got.iter().all(|it| it.body["spec"] == json!({"amount": {"value": 1}})), "{got:?}");
    assert_eq!(webhook.calls(), [call("v2", &["a"])]);
    // A request that gives up does not keep the others from their conversion.
    create(&api, "b", 2).await;
    let path = format!("{V2}/b");
    let impatient = timeout(Duration::from_millis(5), api.get(&path));
    let (gone, got) = futures::join!(impatient, api.get(&path));
    assert!(gone.is_err(), "the webhook takes longer");
    assert_eq!(got.body["spec"], json!({"amount": {"value": 2}}), "{got:?}");
}

#[tokio::test(start_paused = true)]
async fn several_watches_convert_an_event_once() {
    let (api, webhook) = start().await;
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(api.watch(&format!("{V2}?watch=1")).await);
    }
    create(&api, "a", 1).await;
    for event in join_all(watches.iter_mut().map(|it| it.next())).await {
        assert_eq!(
            (&event["type"], &event["object"]["spec"]),
            (&json!("ADDED"), &json!({"amount": {"value": 1}}))
        );
    }
    assert_eq!(webhook.calls(), [call("v2", &["a"])]);
    assert_eq!(api.delete(&format!("{V1}/a")).await.status, 200);
    for event in join_all(watches.iter_mut().map(|it| it.next())).await {
        assert_eq!(
            (&event["type"], &event["object"]["apiVersion"]),
            (&json!("DELETED"), &json!("example.com/v2"))
        );
    }
    assert_eq!(webhook.calls(), [], "the deleted object was converted before");
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_its_webhook() {
    let (api, webhook) = start().await;
    let mut watch = api.watch(&format!("{V2}?watch=1&allowWatchBookmarks=true")).await;
    assert_eq!(watch.next().await["type"], "BOOKMARK", "the end of the initial state");
    *webhook.is_down.lock() = true;
    for name in ["a", "b"] {
        create(&api, name, 1).await;
    }
    // Not even a bookmark is sent, since it would promise that the events before it were sent.
    assert!(timeout(Duration::from_secs(300), watch.next()).await.is_err());
    *webhook.is_down.lock() = false;
    for name in ["a", "b"] {
        let event = watch.next().await;
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_definition_converts_anew() {
    let (api, webhook) = start().await;
    create(&api, "a", 1).await;
    let mut watch = api.watch(&format!("{V2}?watch=1")).await;
    assert_eq!(watch.next().await["type"], "ADDED");
    webhook.calls();
    let labels = json!({"metadata": {"labels": {"some": "label"}}});
    assert_eq!(api.merge(DEFINITION, labels).await.status, 200);
    assert_eq!(api.get(V2).await.status, 200);
    assert_eq!(webhook.calls(), [], "the conversion has not changed");
    let elsewhere = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://hooks.example.com/new"}}}}});
    assert_eq!(api.merge(DEFINITION, elsewhere).await.status, 200);
    assert_eq!(api.get(V2).await.status, 200);
    let new = |name: &str| Call("/new".to_owned(), "v2".to_owned(), vec![name.to_owned()]);
    assert_eq!(webhook.calls(), [new("a")]);
    create(&api, "b", 2).await;
    assert_eq!(watch.next().await["object"]["spec"], json!({"amount": {"value": 2}}));
    assert_eq!(webhook.calls(), [new("b")], "an open watch converts as the definition says now");
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_converted_in_batches() {
    let (api, webhook) = start().await;
    for index in 0..1_100 {
        create(&api, &format!("t{index:04}"), index).await;
    }
    let listed = api.get(V2).await.body;
    let items = listed["items"].as_array().unwrap();
    assert!(items.iter().zip(0..).all(|(it, index)| it["spec"]["amount"]["value"] == index), "in order");
    let sizes: Vec<usize> = webhook.calls().iter().map(|Call(_, _, names)| names.len()).collect();
    assert_eq!(sizes, [500, 500, 100]);
    let page = api.get(&format!("{V2}?limit=10")).await.body;
    assert_eq!(page["items"].as_array().unwrap().len(), 10);
    assert_eq!(webhook.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn admission_webhooks_for_another_version_see_that_version() {
    let (api, webhook) = start().await;
    let rule = json!({"apiGroups": ["example.com"], "apiVersions": ["v2"], "operations": ["CREATE", "UPDATE"],
        "resources": ["things"]});
    let hook = json!({"name": "hooks.example.com", "clientConfig": {"url": "https://hooks.example.com/admit"},
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule], "matchPolicy": "Equivalent"});
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let made = api.post(path, json!({"metadata": {"name": "hooks"}, "webhooks": [hook]})).await;
    assert_eq!(made.status, 201, "{made:?}");
    let created = api.post(V1, thing("a", 1)).await;
    assert_eq!(created.body["spec"], json!({"size": 7}), "the patch was made in v2: {created:?}");
    let request = webhook.admitted.lock().pop().unwrap();
    assert_eq!(request["object"]["spec"], json!({"amount": {"value": 1}}));
    assert_eq!(request["requestKind"]["version"], "v1");
    assert_eq!(request["kind"]["version"], "v2");
    *webhook.is_down.lock() = true;
    let refused = api.post(V1, thing("b", 1)).await;
    assert_eq!((refused.status, &refused.body["reason"]), (500, &json!("InternalError")), "{refused:?}");
}
