//! An API server in memory, to which fuzz targets send requests. It has the namespace `a` with the service
//! account `robot`, and the custom resource `trees.x.io`, which preserves unknown fields in its spec.

use std::sync::LazyLock;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Header, Options, User};
use evenkeel_env::Env;
use evenkeel_store::Store;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime without IO needs nothing from the system")
});

/// The initial state of every server. Each input works on a copy, so that no input depends on an earlier one.
static BEGINNING: LazyLock<Store<Header>> = LazyLock::new(|| {
    let env = Env::seeded(0);
    let store = Store::memory(env.clone(), Default::default());
    let api = Api(ApiServer::new(store.clone(), env, Options::default()));
    RUNTIME.block_on(async {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let versions =
            json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
        let definition = json!({"metadata": {"name": "trees.x.io"}, "spec": {"group": "x.io",
            "scope": "Namespaced", "names": {"plural": "trees", "kind": "Tree"}, "versions": versions}});
        for (path, object) in [
            ("/api/v1/namespaces", json!({"metadata": {"name": "a"}})),
            ("/api/v1/namespaces/a/serviceaccounts", json!({"metadata": {"name": "robot"}})),
            ("/api/v1/namespaces/a/configmaps", json!({"metadata": {"name": "c"}, "data": {"k": "v"}})),
            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
        ] {
            let answer = api.send("POST", path, "application/json", object.to_string().as_bytes()).await;
            assert_eq!(answer.expect("the request is well formed").status, 201, "{path}");
        }
    });
    store
});

/// The response to a request.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body; `None` for a stream.
    pub body: Option<Bytes>,
}

impl Answer {
    /// Parses the body as a client would; `None` for a stream.
    pub fn json(&self) -> Option<Result<Value, serde_json::Error>> {
        self.body.as_ref().map(|body| serde_json::from_slice(body))
    }
}

/// A server that gets requests from an administrator.
#[derive(Clone)]
pub struct Api(ApiServer);

impl Api {
    /// Sends a request; `None` if it is not valid HTTP.
    pub async fn send(&self, method: &str, uri: &str, content_type: &str, body: &[u8]) -> Option<Answer> {
        self.send_with(method, uri, &[("content-type", content_type)], body).await
    }

    /// Sends a request with these headers; `None` if it is not valid HTTP.
    pub async fn send_with(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Answer> {
        let mut request = Request::builder().method(method).uri(uri).extension(User::admin());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::<Bytes>::new(body.to_vec().into())).ok()?;
        let response = self.0.clone().oneshot(request).await.expect("a service of this type cannot fail");
        let status = response.status().as_u16();
        assert_ne!(status, 0);
        Some(Answer { status, body: response.into_body().whole() })
    }

    /// Asserts that the server still answers and that no request panicked; the server answers a panic with
    /// status 500.
    pub async fn check_alive(&self) {
        assert_eq!(self.0.panics(), 0, "a request panicked");
        let answer = self.send("GET", "/api/v1/namespaces/a", "", b"").await.expect("the request is well formed");
        let body = answer.json().expect("an object is no stream").expect("an object is JSON");
        assert_eq!((answer.status, body["metadata"]["name"].as_str()), (200, Some("a")));
    }
}

/// Runs a test with a server of its own.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(Api) -> F) {
    let env = Env::seeded(0);
    let store = BEGINNING.fork(env.clone(), Default::default());
    RUNTIME.block_on(async {
        test(Api(ApiServer::new(store, env, Options::default()))).await;
    });
}
