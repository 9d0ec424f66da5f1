//! The cost of single requests in process, with a store in memory: `cargo bench -p evenkeel-apiserver`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use divan::{Bencher, counter::ItemsCount};
use evenkeel_apiserver::{
    ApiServer, Body, Header, Options, User, WebhookAnswer, WebhookCaller, WebhookQuestion,
};
use evenkeel_env::Env;
use evenkeel_store::Store;
use futures::future::BoxFuture;
use http_body::Body as _;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/a/configmaps";
/// The number of objects in lists and collections.
const MANY: u64 = 5_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    divan::main();
}

fn server() -> ApiServer {
    let env = Env::seeded(1);
    let store: Store<Header> = Store::memory(env.clone(), evenkeel_store::Options::default());
    let server = ApiServer::new(store, env, Options::default());
    let namespace = json!({"metadata": {"name": "a"}}).to_string();
    assert_eq!(send(&server, "POST", "/api/v1/namespaces", namespace.into()).status(), 201);
    server
}

fn send(server: &ApiServer, method: &str, path: &str, body: Bytes) -> http::Response<Body> {
    let request = http::Request::builder().method(method).uri(path).extension(User::admin());
    let request = request.header("user-agent", "bench/1").header("content-type", "application/json");
    let request = request.body(http_body_util::Full::new(body)).expect("a request");
    Handle::current().block_on(server.clone().oneshot(request)).expect("an API server never fails")
}

fn map(name: &str) -> Bytes {
    numbered(name, 0)
}

/// An object of about 1 KiB when stored, with a number in its data.
fn numbered(name: &str, number: u64) -> Bytes {
    let data = json!({"k": "x".repeat(700), "n": number.to_string()});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    map.to_string().into()
}

fn filled() -> ApiServer {
    let server = server();
    for index in 0..MANY {
        assert_eq!(send(&server, "POST", MAPS, map(&format!("m{index:05}"))).status(), 201);
    }
    server
}

#[divan::bench]
fn create(bencher: Bencher<'_, '_>) {
    let server = server();
    let next = AtomicU64::new(0);
    bencher
        .with_inputs(|| map(&format!("m{}", next.fetch_add(1, Ordering::Relaxed))))
        .bench_local_values(|body| send(&server, "POST", MAPS, body));
}

#[divan::bench]
fn get(bencher: Bencher<'_, '_>) {
    let server = server();
    send(&server, "POST", MAPS, map("m"));
    let path = format!("{MAPS}/m");
    bencher.bench_local(|| send(&server, "GET", &path, Bytes::new()));
}

#[divan::bench]
fn merge_patch(bencher: Bencher<'_, '_>) {
    let server = server();
    send(&server, "POST", MAPS, map("m"));
    let next = AtomicU64::new(0);
    bencher
        .with_inputs(|| json!({"data": {"n": next.fetch_add(1, Ordering::Relaxed).to_string()}}).to_string())
        .bench_local_values(|body| {
            let request = http::Request::builder().method("PATCH").uri(format!("{MAPS}/m"));
            let request =
                request.extension(User::admin()).header("content-type", "application/merge-patch+json");
            let request = request.body(http_body_util::Full::new(Bytes::from(body))).expect("a request");
            Handle::current().block_on(server.clone().oneshot(request)).expect("an API server never fails")
        });
}

/// The numbers of containers with which a Pod takes 2, 20, 50 and 200 KiB when stored, managedFields
/// included. The third Pod is 20 KiB in a request.
const CONTAINERS: [u64; 4] = [2, 16, 40, 160];

/// A Pod whose second container has the image version `image`.
fn pod(containers: u64, image: u64) -> serde_json::Value {
    let container = |number: u64| {
        let version = if number == 1 { image } else { 0 };
        json!({
            "name": format!("container-{number}"),
            "image": format!("registry.example.com/team/application:v1.2.{version}"),
            "args": ["--verbose", "--listen=0.0.0.0:8080"],
            "env": (0..4).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "a value of it"})).collect::<Vec<_>>(),
            "ports": [{"containerPort": 8000 + number, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}},
            "terminationMessagePath": "/dev/termination-log",
        })
    };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": (0..containers).map(container).collect::<Vec<_>>()}})
}

fn apply(server: &ApiServer, config: &serde_json::Value) {
    let request = http::Request::builder().method("PATCH");
    let request =
        request.uri("/api/v1/namespaces/a/pods/p?fieldManager=bench&force=true").extension(User::admin());
    let request = request.header("content-type", "application/apply-patch+yaml");
    let request =
        request.body(http_body_util::Full::new(Bytes::from(config.to_string()))).expect("a request");
    let response = Handle::current().block_on(server.clone().oneshot(request));
    assert!(response.expect("an API server never fails").status().is_success());
}

/// Applies one field of a Pod: the whole request.
#[divan::bench(args = CONTAINERS)]
fn apply_one_field(bencher: Bencher<'_, '_>, containers: u64) {
    let server = server();
    send(
        &server,
        "POST",
        "/api/v1/namespaces/a/serviceaccounts",
        json!({"metadata": {"name": "default"}}).to_string().into(),
    );
    let created = send(&server, "POST", "/api/v1/namespaces/a/pods", pod(containers, 0).to_string().into());
    assert_eq!(created.status(), 201);
    let next = AtomicU64::new(1);
    bencher
        .with_inputs(|| {
            let image = format!("other:{}", next.fetch_add(1, Ordering::Relaxed));
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "container-1", "image": image}]}})
        })
        .bench_local_values(|config| apply(&server, &config));
}

/// Applies a whole Pod with one changed field.
#[divan::bench(args = CONTAINERS)]
fn apply_whole(bencher: Bencher<'_, '_>, containers: u64) {
    let server = server();
    send(
        &server,
        "POST",
        "/api/v1/namespaces/a/serviceaccounts",
        json!({"metadata": {"name": "default"}}).to_string().into(),
    );
    apply(&server, &pod(containers, 0));
    let next = AtomicU64::new(1);
    bencher
        .with_inputs(|| pod(containers, next.fetch_add(1, Ordering::Relaxed)))
        .bench_local_values(|config| apply(&server, &config));
}

#[divan::bench]
fn list_of_5000(bencher: Bencher<'_, '_>) {
    let server = filled();
    bencher.counter(ItemsCount::new(MANY)).bench_local(|| send(&server, "GET", MAPS, Bytes::new()));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn deletecollection_of_5000(bencher: Bencher<'_, '_>) {
    bencher
        .with_inputs(filled)
        .counter(ItemsCount::new(MANY))
        .bench_local_values(|server| send(&server, "DELETE", MAPS, Bytes::new()));
}

#[divan::bench]
fn fan_out_to_100_watchers(bencher: Bencher<'_, '_>) {
    let server = server();
    send(&server, "POST", MAPS, map("m"));
    let path = format!("{MAPS}?watch=1&resourceVersion=2");
    let mut watchers: Vec<_> =
        (0..100).map(|_| Box::pin(send(&server, "GET", &path, Bytes::new()).into_body())).collect();
    let next = AtomicU64::new(0);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let many = watchers.len();
    bencher
        .with_inputs(|| numbered("m", 1 + next.fetch_add(1, Ordering::Relaxed)))
        .counter(ItemsCount::new(many))
        .bench_local_values(|body| {
            assert_eq!(send(&server, "PUT", &format!("{MAPS}/m"), body).status(), 200);
            for watcher in &mut watchers {
                while watcher.as_mut().poll_frame(&mut cx).is_ready() {}
            }
        });
}

/// A conversion webhook in process that sets the version and nothing else.
struct Relabel;

impl WebhookCaller for Relabel {
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>> {
        let mut review: Value = serde_json::from_slice(&question.body).expect("a review");
        let desired = review["request"]["desiredAPIVersion"].take();
        let mut objects = review["request"]["objects"].take();
        for object in objects.as_array_mut().into_iter().flatten() {
            object["apiVersion"] = desired.clone();
        }
        let response = json!({"uid": review["request"]["uid"], "result": {"status": "Success"},
            "convertedObjects": objects});
        let answer =
            json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response});
        let content_type = "application/json".to_owned();
        Box::pin(
            async move { Ok(WebhookAnswer { code: 200, content_type, body: answer.to_string().into() }) },
        )
    }
}

/// The list of 5,000 custom resources that were never converted, through a conversion webhook in process: parsing,
/// checking and encoding on both sides. `tests/real/conversion.py bench` compares the whole with kube-apiserver, over TLS.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn list_of_5000_converted(bencher: Bencher<'_, '_>) {
    bencher.with_inputs(converted).counter(ItemsCount::new(MANY)).bench_local_values(|server| {
        let listed = send(&server, "GET", "/apis/example.com/v2/namespaces/a/things", Bytes::new());
        assert_eq!(listed.status(), 200);
        listed.into_body().whole()
    });
}

/// A server with custom resources in v1 whose webhook converts them to v2.
fn converted() -> ApiServer {
    let env = Env::seeded(1);
    let store: Store<Header> = Store::memory(env.clone(), evenkeel_store::Options::default());
    let mut options = Options::default();
    options.webhooks = Some(Arc::new(Relabel));
    let server = ApiServer::new(store, env, options);
    let namespace = json!({"metadata": {"name": "a"}}).to_string();
    assert_eq!(send(&server, "POST", "/api/v1/namespaces", namespace.into()).status(), 201);
    let version = |name: &str| {
        let spec = json!({"type": "object", "properties": {"text": {"type": "string"}}});
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": spec}}}})
    };
    let config = json!({"url": "https://hooks.example.com/convert"});
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [version("v1"), version("v2")], "conversion": {"strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}}}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&server, "POST", definitions, definition.to_string().into()).status(), 201);
    for index in 0..MANY {
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": format!("t{index:05}")}, "spec": {"text": "x".repeat(700)}});
        let path = "/apis/example.com/v1/namespaces/a/things";
        assert_eq!(send(&server, "POST", path, thing.to_string().into()).status(), 201);
    }
    server
}
