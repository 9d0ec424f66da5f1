//! An API server for each test, and short methods for requests.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use evenkeel_apiserver::access::Authorizer;
use evenkeel_apiserver::{ApiServer, Body, Caller, Header, Options, User, bootstrap};
use evenkeel_env::Env;
use evenkeel_store::Store;
use http::Request;
use http_body::Body as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Answer {
    fn of(response: http::Response<Body>) -> Self {
        let status = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|it| it.to_str().unwrap().to_owned()).collect();
        let bytes = response.into_body().whole().unwrap();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Self { status, warnings, body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()) }
    }
}

/// An API server with the namespace `a`.
pub(crate) struct Api {
    server: ApiServer,
}

impl Api {
    pub(crate) async fn start() -> Self {
        let env = Env::seeded(1);
        let store: Store<Header> = Store::memory(env.clone(), evenkeel_store::Options::default());
        let api = Self { server: ApiServer::new(store, env, Options::default()) };
        let made = api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await;
        assert_eq!(made.status, 201, "{made:?}");
        api
    }

    /// Starts a server with another authorizer.
    pub(crate) async fn with_authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        let env = Env::seeded(1);
        let store: Store<Header> = Store::memory(env.clone(), evenkeel_store::Options::default());
        let mut options = Options::default();
        options.authorizer = Some(authorizer);
        let api = Self { server: ApiServer::new(store, env, options) };
        assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await.status, 201);
        api
    }

    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Gets an object by `serve_now`, the path of requests that never have to wait.
    pub(crate) fn get_now(&self, path: &str) -> Answer {
        let (mut head, ()) = Request::get(path).body(()).unwrap().into_parts();
        let caller = Caller { user: Arc::new(User::admin()), body_timeout: None, remote: None, held: None };
        Answer::of(self.server.serve_now(&caller, &mut head).unwrap())
    }

    /// Starts a server with a store that the test keeps.
    pub(crate) fn of(store: Store<Header>) -> Self {
        Self { server: ApiServer::new(store, Env::system(), Options::default()) }
    }

    /// Starts a server with all objects of a new cluster.
    pub(crate) async fn booted() -> Self {
        let env = Env::seeded(1);
        let store = bootstrap::memory(&env, evenkeel_store::Options::default()).await;
        Self { server: ApiServer::new(store, env, Options::default()) }
    }

    /// Wraps a server that was created elsewhere.
    pub(crate) fn over(server: ApiServer) -> Self {
        Self { server }
    }

    /// Starts another server with the same store, as after a restart.
    pub(crate) async fn restarted(&self) -> Self {
        let server = ApiServer::new(self.store().clone(), Env::seeded(2), Options::default());
        server.resume().await.unwrap();
        Self::over(server)
    }

    pub(crate) fn store(&self) -> &Store<Header> {
        self.server.store()
    }

    /// Sends a request as another user.
    pub(crate) async fn act(&self, user: &str, method: &str, path: &str, body: Value) -> Answer {
        let headers = [("content-type", "application/json"), ("impersonate-user", user)];
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Answer::of(self.send(method, path, &headers, body).await)
    }

    /// Gets a Table.
    pub(crate) async fn table(&self, path: &str) -> Value {
        let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        Answer::of(self.send("GET", path, &headers, Vec::new()).await).body
    }

    pub(crate) fn compact(&self) {
        self.server.store().compact(self.server.store().revision());
    }

    /// Sends a request and returns the response with its body unread.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> http::Response<Body> {
        let uri = path.replace(' ', "%20");
        let mut request = Request::builder().method(method).uri(uri).extension(User::admin());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(http_body_util::Full::new(Bytes::from(body))).unwrap();
        self.server.clone().oneshot(request).await.unwrap()
    }

    async fn call(&self, method: &str, path: &str, media: &str, body: Vec<u8>) -> Answer {
        let headers = [("content-type", media), ("user-agent", "it/1")];
        Answer::of(self.send(method, path, &headers, body).await)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "", Vec::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, "application/json", body.to_string().into_bytes()).await
    }

    pub(crate) async fn post_raw(&self, path: &str, media: &str, body: &[u8]) -> Answer {
        self.call("POST", path, media, body.to_vec()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.call("PUT", path, "application/json", body.to_string().into_bytes()).await
    }

    pub(crate) async fn patch(&self, path: &str, media: &str, body: Vec<u8>) -> Answer {
        self.call("PATCH", path, media, body).await
    }

    pub(crate) async fn merge(&self, path: &str, body: Value) -> Answer {
        self.call("PATCH", path, "application/merge-patch+json", body.to_string().into_bytes()).await
    }

    pub(crate) async fn apply(&self, path: &str, body: Value) -> Answer {
        self.call("PATCH", path, "application/apply-patch+yaml", body.to_string().into_bytes()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, "", Vec::new()).await
    }

    /// Deletes with DeleteOptions in the body.
    pub(crate) async fn delete_with(&self, path: &str, options: Value) -> Answer {
        self.call("DELETE", path, "application/json", options.to_string().into_bytes()).await
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, "application/json").await
    }

    /// Opens a watch with this media type.
    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        Watch::of(self.send("GET", path, &[("accept", accept)], Vec::new()).await)
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: Pin<Box<Body>>,
    /// Events that were read together with the previous one.
    lines: VecDeque<Value>,
}

impl Watch {
    /// The watch that a response has opened.
    pub(crate) fn of(response: http::Response<Body>) -> Self {
        assert_eq!(response.status(), 200);
        Self { body: Box::pin(response.into_body()), lines: VecDeque::new() }
    }

    /// Returns the next event, or null at the end.
    pub(crate) async fn next(&mut self) -> Value {
        if let Some(event) = self.lines.pop_front() {
            return event;
        }
        let frame = std::future::poll_fn(|cx| self.body.as_mut().poll_frame(cx)).await;
        let bytes = frame.map(|frame| frame.unwrap().into_data().unwrap()).unwrap_or_default();
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        self.lines.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
        self.lines.pop_front().unwrap_or_default()
    }

    /// Whether no event is ready.
    pub(crate) async fn is_silent(&mut self) -> bool {
        let silent = std::future::poll_fn(|cx| Poll::Ready(self.body.as_mut().poll_frame(cx).is_pending()));
        self.lines.is_empty() && silent.await
    }
}
