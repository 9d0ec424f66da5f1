//! Writes with consequences: what each of them entails, and how to tell whether it has happened.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::{
    ApiServer, Body, Header, Options, User, WebhookAnswer, WebhookCaller, WebhookQuestion,
};
use evenkeel_env::Env;
use evenkeel_store::{Range, Store};
use futures::future::BoxFuture;
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

mod custom;
mod plain;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Value,
    /// The user whom the administrator impersonates, if any.
    user: Option<&'static str>,
}

/// A write, the requests that prepare it, and the requests whose responses show whether all its consequences
/// have happened.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) setup: Vec<Ask>,
    pub(crate) write: Ask,
    pub(crate) probes: Vec<Ask>,
}

/// Creates a webhook that is called for every write, and allows it.
pub(crate) fn asks_of_everything() -> Ask {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]});
    let hook = json!({"name": "all.example.com", "rules": [rule], "sideEffects": "None",
        "clientConfig": {"url": "https://hook.example.com/allow", "caBundle": "Cg=="},
        "admissionReviewVersions": ["v1"]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    post(path, json!({"metadata": {"name": "all"}, "webhooks": [hook]}))
}

/// Every write with consequences.
pub(crate) fn cases() -> Vec<Case> {
    custom::cases().into_iter().chain(custom::collections()).chain(plain::cases()).collect()
}

/// The writes in the lifecycle of a CRD.
pub(crate) fn lifecycles() -> Vec<Case> {
    custom::cases()
}

fn ask(method: &'static str, path: impl Into<String>, body: Value) -> Ask {
    Ask::new(method, path, body)
}

fn post(path: impl Into<String>, body: Value) -> Ask {
    ask("POST", path, body)
}

fn get(path: impl Into<String>) -> Ask {
    ask("GET", path, Value::Null)
}

fn delete(path: impl Into<String>) -> Ask {
    ask("DELETE", path, Value::Null)
}

/// A merge patch.
fn merge(path: impl Into<String>, body: Value) -> Ask {
    ask("PATCH", path, body)
}

impl Ask {
    /// A request by the administrator; a PATCH is a merge patch.
    pub(crate) fn new(method: &'static str, path: impl Into<String>, body: Value) -> Self {
        Self { method, path: path.into(), body, user: None }
    }

    pub(crate) fn request(&self) -> Request<http_body_util::Full<Bytes>> {
        let media = if self.method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let mut request = Request::builder().method(self.method).uri(&self.path).extension(User::admin());
        request = request.header("content-type", media);
        if let Some(user) = self.user {
            request = request.header("impersonate-user", user);
        }
        let body = if self.body.is_null() { Vec::new() } else { self.body.to_string().into_bytes() };
        request.body(http_body_util::Full::new(Bytes::from(body))).unwrap()
    }

    pub(crate) async fn send(&self, server: &ApiServer) -> (u16, Value) {
        let response: http::Response<Body> = server.clone().oneshot(self.request()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().whole().unwrap_or_default();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }
}

/// Webhooks that deny or allow everything, and whose response is pending once.
struct Webhooks;

impl WebhookCaller for Webhooks {
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let review: Value = serde_json::from_slice(&question.body).unwrap_or_default();
            let allowed = question.path.starts_with("/allow");
            let response = json!({"uid": review["request"]["uid"], "allowed": allowed});
            let body =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            Ok(WebhookAnswer { code: 200, content_type: String::new(), body: body.to_string().into() })
        })
    }
}

/// Creates a server with this store.
pub(crate) fn serve(store: Store<Header>, env: &Env) -> ApiServer {
    let mut options = Options::default();
    options.webhooks = Some(Arc::new(Webhooks));
    ApiServer::new(store, env.clone(), options)
}

/// Prepares a server for a case.
pub(crate) async fn set_up(server: &ApiServer, case: &Case) {
    let namespace = post("/api/v1/namespaces", json!({"metadata": {"name": "a"}}));
    for ask in [namespace].iter().chain(&case.setup) {
        let (status, body) = ask.send(server).await;
        assert!(status < 300, "{}: {ask:?}: {status} {body}", case.name);
    }
}

/// The state of a server: the objects, the served resources and the responses to the probes, without values
/// that differ between runs.
pub(crate) async fn state(server: &ApiServer, case: &Case) -> Value {
    let page = server.store().range(&Range::default()).unwrap();
    let mut objects: Vec<Value> =
        page.entries.iter().map(|it| normal(serde_json::from_slice(&it.value).unwrap())).collect();
    objects.sort_by_key(Value::to_string);
    let served = server.registry().custom();
    let served = served.iter().map(|it| json!([it.group, it.version, it.plural, it.kind]));
    let served: Vec<Value> = served.collect();
    let mut probes = Vec::new();
    for probe in &case.probes {
        let (status, body) = probe.send(server).await;
        probes.push(json!([probe.path, status, body["reason"]]));
    }
    json!({"objects": objects, "served": served, "probes": probes})
}

/// Returns an object without values that differ between runs.
fn normal(mut object: Value) -> Value {
    if let Some(base) = object["metadata"].get("generateName").cloned() {
        object["metadata"]["name"] = base;
    }
    strip(&mut object);
    object
}

fn strip(value: &mut Value) {
    const VARYING: [&str; 7] = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "managedFields",
        "resourceVersion",
        "disruptedPods",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !VARYING.contains(&key.as_str()));
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
