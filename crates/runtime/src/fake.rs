//! A minimal API server as a `tower::Service`, for the unit tests of this crate: it lists, watches and writes, and fails
//! on demand. The integration tests use the embedded cluster.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_env::{Env, Station, Work};
use evenkeel_request_info::{RequestInfo, ResourcePath};
use futures::stream::{self, StreamExt};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;
type Fault = Box<dyn FnMut(&Method, &str) -> Option<(u16, Value)> + Send>;

/// The server. Clones share its state.
#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    station: Station,
    env: Env,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// Objects by collection and key, such as `/api/v1/configmaps` and `default/web`.
    objects: BTreeMap<(String, String), Value>,
    /// Every change: revision, collection, namespace, event type, object.
    log: Vec<(u64, String, String, &'static str, Value)>,
    watchers: Vec<Watcher>,
    compacted: u64,
    /// Method and path of every request that was not a read.
    writes: Vec<String>,
    fault: Option<Fault>,
    /// Whether events are held back from watches.
    held: bool,
    /// The prefix of every resource version; with one, resource versions are not numbers.
    version_prefix: &'static str,
}

struct Watcher {
    collection: String,
    namespace: Option<String>,
    sender: mpsc::UnboundedSender<(Work, Bytes)>,
}

/// The parts of a path such as `/api/v1/namespaces/a/configmaps/x/status`.
struct Target {
    collection: String,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
}

impl Fake {
    pub(crate) fn new(env: &Env) -> Self {
        let station = env.ledger().station("fake: events");
        Self { state: Arc::default(), station, env: env.clone() }
    }

    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move { Ok::<_, Infallible>(fake.answer(request).await) }
        });
        Client::new(service, "default")
    }

    pub(crate) fn fail(&self, fault: impl FnMut(&Method, &str) -> Option<(u16, Value)> + Send + 'static) {
        self.state.lock().fault = Some(Box::new(fault));
    }

    /// Ends every watch.
    pub(crate) fn cut_watches(&self) {
        for watcher in self.state.lock().watchers.drain(..) {
            // The end of a watch is pending work until the watcher has seen it.
            let _ = watcher.sender.send((self.station.enter(), Bytes::new()));
        }
    }

    /// Makes every earlier resource version too old for a watch.
    pub(crate) fn compact(&self) {
        let mut state = self.state.lock();
        state.compacted = state.revision;
    }

    /// Holds events back from open watches, until the watches are cut.
    pub(crate) fn hold_events(&self, held: bool) {
        self.state.lock().held = held;
    }

    /// Makes resource versions that are not numbers.
    pub(crate) fn make_versions_text(&self) {
        self.state.lock().version_prefix = "v";
    }

    pub(crate) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().writes)
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        // A request takes at least one turn of the scheduler, as with a real server.
        tokio::task::yield_now().await;
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let faulty = self.state.lock().fault.as_mut().and_then(|fault| fault(&parts.method, &path));
        if let Some((code, body)) = faulty {
            return answer(code, &body);
        }
        let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let info = RequestInfo::parse(&parts.method, uri);
        let Some(target) = info.and_then(|info| info.path.into_resource()).map(|path| Target::of(&path))
        else {
            return answer(
                404,
                &json!({ "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound" }),
            );
        };
        let kind = parts.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match (parts.method, &target.name) {
            // Refused, as by servers that cannot stream lists: the unit tests use the fallback, pages.
            (Method::GET, None) if query.contains("sendInitialEvents=true") => {
                let message =
                    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                let status = json!({ "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
                    "message": message });
                answer(422, &status)
            }
            (Method::GET, None) if query.contains("watch=true") => self.watch(&target, &query),
            (Method::GET, None) => self.list(&target),
            (method, _) => {
                let mut state = self.state.lock();
                let line = format!("{method} {path}");
                if method != Method::GET {
                    state.writes.push(line);
                }
                let json_patch = kind == Some("application/json-patch+json");
                let (code, body) = state.change(self, &method, &target, body, json_patch);
                answer(code, &body)
            }
        }
    }

    fn list(&self, target: &Target) -> Answer {
        let state = self.state.lock();
        let items: Vec<&Value> = state
            .objects
            .iter()
            .filter(|((collection, _), object)| *collection == target.collection && target.holds(object))
            .map(|(_, object)| object)
            .collect();
        answer(200, &json!({ "metadata": { "resourceVersion": state.version() }, "items": items }))
    }

    fn watch(&self, target: &Target, query: &str) -> Answer {
        let mut state = self.state.lock();
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        let version = version.map(|version| version.trim_start_matches(state.version_prefix));
        let version: u64 = version.and_then(|version| version.parse().ok()).unwrap_or(0);
        let (sender, receiver) = mpsc::unbounded_channel();
        if version < state.compacted {
            let status = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
                "message": "too old resource version" });
            let line = json!({ "type": "ERROR", "object": status });
            let _ = sender.send((self.station.enter(), format!("{line}\n").into()));
        } else {
            for (revision, collection, namespace, event, object) in &state.log {
                if *revision > version
                    && *collection == target.collection
                    && target.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
                {
                    let line = json!({ "type": event, "object": object });
                    let _ = sender.send((self.station.enter(), format!("{line}\n").into()));
                }
            }
            let (collection, namespace) = (target.collection.clone(), target.namespace.clone());
            state.watchers.push(Watcher { collection, namespace, sender });
        }
        // The work of an event is released when the next event is polled for.
        let frames =
            stream::unfold((receiver, None), |(mut receiver, before): (_, Option<Work>)| async move {
                drop(before);
                let (work, bytes): (Work, Bytes) = mpsc::UnboundedReceiver::recv(&mut receiver).await?;
                Some((Ok::<_, Infallible>(Frame::data(bytes)), (receiver, Some(work))))
            });
        Response::new(StreamBody::new(frames.boxed()).boxed_unsync())
    }

    /// Creates or replaces an object, as a user would with kubectl.
    pub(crate) fn put(&self, collection: &str, object: Value) -> Value {
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let name = object["metadata"]["name"].as_str().map(str::to_owned);
        let target = Target { collection: collection.into(), namespace, name, subresource: None };
        let mut state = self.state.lock();
        let exists = state.objects.contains_key(&target.key());
        let method = if exists { Method::PATCH } else { Method::POST };
        let (code, body) = state.change(self, &method, &target, object, false);
        assert!(code < 300, "{body}");
        body
    }

    pub(crate) fn get(&self, collection: &str, key: &str) -> Option<Value> {
        self.state.lock().objects.get(&(collection.into(), key.into())).cloned()
    }

    pub(crate) fn delete(&self, collection: &str, key: &str) {
        let (namespace, name) = key.split_once('/').map_or((None, key), |(ns, name)| (Some(ns), name));
        let target = Target {
            collection: collection.into(),
            namespace: namespace.map(Into::into),
            name: Some(name.into()),
            subresource: None,
        };
        self.state.lock().change(self, &Method::DELETE, &target, Value::Null, false);
    }
}

impl State {
    fn version(&self) -> String {
        format!("{}{}", self.version_prefix, self.revision)
    }

    fn change(
        &mut self,
        fake: &Fake,
        method: &Method,
        target: &Target,
        body: Value,
        json_patch: bool,
    ) -> (u16, Value) {
        let mut target = target.with_name_of(&body);
        if target.namespace.is_none() {
            target.namespace = body["metadata"]["namespace"].as_str().map(str::to_owned);
        }
        let before = self.objects.get(&target.key()).cloned();
        let refuse = |code: u16, reason: &str| {
            let message = format!("{} {}: {reason}", target.collection, target.key().1);
            (
                code,
                json!({ "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message }),
            )
        };
        let mut object = match (method.as_str(), before.clone()) {
            ("GET", Some(before)) => return (200, before),
            ("POST", Some(_)) => return refuse(409, "AlreadyExists"),
            ("POST", None) => body,
            ("PATCH", None) if json_patch || target.subresource.is_some() => return refuse(404, "NotFound"),
            ("PATCH", None) => body,
            ("PATCH", Some(before)) if json_patch => match operate(before, &body) {
                Some(object) => object,
                None => return refuse(422, "Invalid"),
            },
            ("PATCH", Some(before)) => merged(before, &body),
            ("PUT", Some(before)) => {
                let version = &body["metadata"]["resourceVersion"];
                if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
                    return refuse(409, "Conflict");
                }
                body
            }
            ("DELETE", Some(before)) => return (200, self.delete(fake, &target, before)),
            _ => return refuse(404, "NotFound"),
        };
        let meta = object["metadata"].as_object_mut().expect("objects have metadata");
        meta.insert("name".into(), target.name.clone().into());
        if let Some(namespace) = &target.namespace {
            meta.insert("namespace".into(), namespace.as_str().into());
        }
        if before.is_none() {
            meta.insert("uid".into(), fake.env.uid().into());
        }
        let deleting = !meta.get("deletionTimestamp").unwrap_or(&Value::Null).is_null();
        if deleting && meta.get("finalizers").is_none_or(|list| list.as_array().is_none_or(Vec::is_empty)) {
            return (200, self.delete(fake, &target, object));
        }
        if before.as_ref() != Some(&object) {
            let event = if before.is_some() { "MODIFIED" } else { "ADDED" };
            object = self.commit(fake, &target, event, object);
        }
        (if method == Method::POST { 201 } else { 200 }, object)
    }

    fn delete(&mut self, fake: &Fake, target: &Target, mut object: Value) -> Value {
        let finalizers = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if finalizers {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            return self.commit(fake, target, "MODIFIED", object);
        }
        let object = self.commit(fake, target, "DELETED", object);
        self.objects.remove(&target.key());
        object
    }

    fn commit(&mut self, fake: &Fake, target: &Target, event: &'static str, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.version().into();
        self.objects.insert(target.key(), object.clone());
        let namespace = target.namespace.clone().unwrap_or_default();
        let line = Bytes::from(format!("{}\n", json!({ "type": event, "object": object })));
        self.log.push((self.revision, target.collection.clone(), namespace.clone(), event, object.clone()));
        if !self.held {
            self.watchers.retain(|watcher| {
                let wanted = watcher.collection == target.collection
                    && watcher.namespace.as_ref().is_none_or(|wanted| *wanted == namespace);
                !wanted || watcher.sender.send((fake.station.enter(), line.clone())).is_ok()
            });
        }
        object
    }
}

impl Target {
    fn of(path: &ResourcePath<'_>) -> Self {
        let given = |part: &str| (!part.is_empty()).then(|| part.to_owned());
        let prefix = match &*path.group {
            "" => format!("/api/{}", path.version),
            group => format!("/apis/{group}/{}", path.version),
        };
        Self {
            collection: format!("{prefix}/{}", path.resource),
            namespace: given(&path.namespace),
            name: given(&path.name),
            subresource: given(&path.subresource),
        }
    }

    fn key(&self) -> (String, String) {
        let name = self.name.as_deref().unwrap_or_default();
        let key = match &self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        (self.collection.clone(), key)
    }

    fn holds(&self, object: &Value) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| object["metadata"]["namespace"] == namespace.as_str())
    }

    fn with_name_of(&self, body: &Value) -> Self {
        let name = self.name.clone().or_else(|| body["metadata"]["name"].as_str().map(str::to_owned));
        let (collection, namespace) = (self.collection.clone(), self.namespace.clone());
        Self { collection, namespace, name, subresource: self.subresource.clone() }
    }
}

fn answer(code: u16, body: &Value) -> Answer {
    let bytes = Bytes::from(body.to_string());
    Response::builder().status(code).body(Full::new(bytes).boxed_unsync()).expect("the parts are valid")
}

fn merged(mut target: Value, patch: &Value) -> Value {
    let Some(patch) = patch.as_object() else { return patch.clone() };
    if !target.is_object() {
        target = json!({});
    }
    let map = target.as_object_mut().expect("it was just made one");
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            let before = map.remove(key).unwrap_or_default();
            map.insert(key.clone(), merged(before, value));
        }
    }
    target
}

/// JSON patch: `test`, `add` and `remove`, as the finalizer helper uses them.
fn operate(mut object: Value, operations: &Value) -> Option<Value> {
    for operation in operations.as_array()? {
        let path = operation["path"].as_str()?;
        let (parent, last) = path.rsplit_once('/')?;
        match operation["op"].as_str()? {
            "test" => {
                let found = object.pointer(path).unwrap_or(&Value::Null);
                if *found != operation["value"] {
                    return None;
                }
            }
            "add" if last == "-" => {
                object.pointer_mut(parent)?.as_array_mut()?.push(operation["value"].clone())
            }
            "add" => {
                object.pointer_mut(parent)?.as_object_mut()?.insert(last.into(), operation["value"].clone());
            }
            "remove" => {
                object.pointer_mut(parent)?.as_array_mut()?.remove(last.parse().ok()?);
            }
            _ => return None,
        }
    }
    Some(object)
}
