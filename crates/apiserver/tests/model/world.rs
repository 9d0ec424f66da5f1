//! A server and its model: each operation is applied to both, and differences are reported.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body, Header, Options, User};
use evenkeel_env::Env;
use evenkeel_store::Store;
use http::Request;
use http_body::Body as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::model::{Fault, Model, Outcome};
use crate::operation::{Edit, From, Id, Operation, Policy, Selector, Version};
use crate::shape::{self, encode};

/// How many lists and watches are open at once.
const OPEN_MAX: usize = 4;

/// `Err` describes a difference.
pub(crate) type Verdict = Result<(), String>;

/// An unfinished list.
struct Pages {
    selector: Selector,
    limit: usize,
    token: String,
    /// The revision of the list; `None` for the newest.
    revision: Option<u64>,
    after: Id,
}

/// An open watch.
struct Watch {
    selector: Selector,
    body: Pin<Box<Body>>,
    /// Events up to this revision have been compared.
    seen: u64,
}

pub(crate) struct World {
    server: ApiServer,
    env: Env,
    pub(crate) model: Model,
    pages: Vec<Pages>,
    watches: Vec<Watch>,
    /// The directory of the store, if it is on disk.
    folder: Option<tempfile::TempDir>,
    /// A deliberate change of the server's responses, to test that these tests detect it.
    pub(crate) tamper: Option<fn(&mut Value)>,
}

/// History is compacted only by [`Operation::Compact`].
fn store_options() -> evenkeel_store::Options {
    let day = std::time::Duration::from_secs(24 * 3600);
    evenkeel_store::Options::default().keep_for(day).keep_changes(usize::MAX).keep_bytes(usize::MAX)
}

fn serve(store: Store<Header>, env: &Env) -> ApiServer {
    ApiServer::new(store, env.clone(), Options::default())
}

impl World {
    /// Creates a server, with its store on disk or in memory.
    pub(crate) async fn new(lasts: bool, fault: Option<Fault>) -> Self {
        let env = Env::seeded(1);
        let folder = lasts.then(|| tempfile::tempdir().unwrap());
        let store = match &folder {
            Some(folder) => Store::open(folder.path(), env.clone(), store_options()).await.unwrap(),
            None => Store::memory(env.clone(), store_options()),
        };
        let server = serve(store, &env);
        let mut world = Self {
            server,
            env,
            model: Model { fault, ..Model::default() },
            pages: Vec::new(),
            watches: Vec::new(),
            folder,
            tamper: None,
        };
        let namespaces = ["one", "two"].map(|it| ("/api/v1/namespaces", json!({"metadata": {"name": it}})));
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for (path, body) in namespaces.into_iter().chain([(definitions, shape::definition())]) {
            let (status, body) = world.send("POST", path, "application/json", &body).await;
            assert_eq!(status, 201, "{body}");
        }
        world.model.revision = world.server.store().revision();
        world
    }

    async fn call(&self, method: &str, path: &str, media: &str, body: Vec<u8>) -> http::Response<Body> {
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let request = request.extension(User::admin()).body(http_body_util::Full::new(Bytes::from(body)));
        self.server.clone().oneshot(request.unwrap()).await.unwrap()
    }

    async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let response = self.call(method, path, media, body).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().whole().unwrap_or_default();
        let mut body = serde_json::from_slice(&bytes).unwrap_or_default();
        if let Some(tamper) = self.tamper {
            tamper(&mut body);
        }
        (status, body)
    }

    /// Applies one operation to both and compares the results.
    pub(crate) async fn run(&mut self, operation: &Operation) -> Verdict {
        match operation {
            Operation::Create(id, config) => {
                let path = format!("{}?fieldManager={}", shape::folder(id), config.manager);
                let body = shape::object(id, config, None);
                let answer = self.send("POST", &path, "application/json", &body).await;
                let expected = self.model.create(id, config, shape::uid(&answer.1));
                check(id, &expected, &answer)?;
            }
            Operation::Update(id, edit, version) => self.update(id, edit, *version).await?,
            Operation::Apply(id, config, force) => {
                let query = format!("fieldManager={}&force={force}", config.manager);
                let path = format!("{}?{query}", shape::path(id));
                let body = shape::object(id, config, None);
                let answer = self.send("PATCH", &path, "application/apply-patch+yaml", &body).await;
                let expected = self.model.apply(id, config, *force, shape::uid(&answer.1));
                check(id, &expected, &answer)?;
            }
            Operation::Delete(id, uid, version, policy) => {
                self.delete(id, *uid, *version, *policy).await?;
            }
            Operation::DeleteCollection(selector) => {
                let path = format!("{}?{}", shape::collection(selector), shape::query(selector));
                let (status, body) = self.send("DELETE", &path, "", &Value::Null).await;
                let expected = self.model.delete_collection(selector);
                same("status", &200, &status)?;
                same("deleted", &expected, &shape::items(selector.kind, &body)?)?;
            }
            Operation::Get(id) => {
                let answer = self.send("GET", &shape::path(id), "", &Value::Null).await;
                let expected = match self.model.objects.get(id) {
                    Some(object) => Outcome::Object(200, object.clone()),
                    None => Outcome::Refused(404, "NotFound", Default::default()),
                };
                check(id, &expected, &answer)?;
            }
            Operation::List(selector, limit) => self.list(selector, *limit).await?,
            Operation::NextPage(index) => self.next_page(*index).await?,
            Operation::ListAt(selector, ago) => self.list_at(selector, *ago).await?,
            Operation::Watch(selector, from) => self.watch(selector, *from).await?,
            Operation::EndWatch(index) => {
                if *index < self.watches.len() {
                    self.watches.remove(*index);
                }
            }
            Operation::Compact(ago) => self.compact(*ago),
            Operation::Restart => self.restart().await,
        }
        same("revision", &self.model.revision, &self.server.store().revision())?;
        self.drain()
    }

    async fn update(&mut self, id: &Id, edit: &Edit, version: Version) -> Verdict {
        let revision = self.model.version(id, version);
        let (method, media, body) = shape::edit(id, edit, revision);
        let path = format!("{}?fieldManager={}", shape::path(id), edit.manager());
        let answer = self.send(method, &path, media, &body).await;
        let expected = self.model.update(id, edit, version);
        check(id, &expected, &answer)
    }

    async fn delete(
        &mut self,
        id: &Id,
        uid: Option<bool>,
        version: Version,
        policy: Option<Policy>,
    ) -> Verdict {
        let known = self.model.objects.get(id).map_or("none", |it| &it.uid).to_owned();
        let uid = uid.map(|right| if right { known } else { "other".to_owned() });
        let revision = self.model.version(id, version);
        let text = revision.map(|it| it.to_string());
        let mut preconditions = json!({});
        for (field, value) in [("uid", &uid), ("resourceVersion", &text)] {
            if let Some(value) = value {
                preconditions[field] = value.as_str().into();
            }
        }
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        if let Some(policy) = policy {
            body["propagationPolicy"] = format!("{policy:?}").into();
        }
        let answer = self.send("DELETE", &shape::path(id), "application/json", &body).await;
        let expected = self.model.delete(id, uid.as_deref(), revision, policy);
        check(id, &expected, &answer)
    }

    async fn list(&mut self, selector: &Selector, limit: usize) -> Verdict {
        let revision = self.model.revision;
        let (path, query) = (shape::collection(selector), shape::query(selector));
        let answer = self.send("GET", &format!("{path}?limit={limit}&{query}"), "", &Value::Null).await;
        self.check_page(selector, limit, Some(revision), None, &answer)
    }

    async fn next_page(&mut self, index: usize) -> Verdict {
        if index >= self.pages.len() {
            return Ok(());
        }
        let Pages { selector, limit, token, revision, after } = self.pages.remove(index);
        let (path, query) = (shape::collection(&selector), shape::query(&selector));
        let path = format!("{path}?limit={limit}&{query}&continue={}", encode(&token));
        let answer = self.send("GET", &path, "", &Value::Null).await;
        if revision.is_some_and(|it| it < self.model.floor) {
            same("status", &410, &answer.0)?;
            same("reason", "Expired", answer.1["reason"].as_str().unwrap_or_default())?;
            let token = answer.1["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            same("a token to go on with", &false, &token.is_empty())?;
            self.pages.push(Pages { selector, limit, token, revision: None, after });
            return Ok(());
        }
        self.check_page(&selector, limit, revision, Some(after), &answer)
    }

    /// Compares a page and remembers where the list continues.
    fn check_page(
        &mut self,
        selector: &Selector,
        limit: usize,
        revision: Option<u64>,
        after: Option<Id>,
        (status, body): &(u16, Value),
    ) -> Verdict {
        same("status", &200, status)?;
        let revision = revision.unwrap_or(self.model.revision);
        let objects =
            self.model.at(revision).ok_or("the model has forgotten a revision that the server has")?;
        let in_reach = objects.into_iter().filter(|(id, _)| selector.reaches(id));
        let rest: Vec<_> = in_reach.filter(|(id, _)| after.as_ref().is_none_or(|after| id > after)).collect();
        let is_full = |count: usize| limit > 0 && count == limit;
        let mut expected = Vec::new();
        let mut left = rest.len();
        for (id, object) in &rest {
            left -= 1;
            if selector.selects(id, object) {
                expected.push((id.clone(), object.clone()));
            }
            if is_full(expected.len()) {
                break;
            }
        }
        // A list with a name and a namespace is read by its key, so it has one page.
        let single = selector.name.is_some() && selector.namespace.is_some() && after.is_none();
        let goes_on = is_full(expected.len()) && left > 0 && !single;
        same("page", &expected, &shape::items(selector.kind, body)?)?;
        let metadata = &body["metadata"];
        same(
            "list revision",
            revision.to_string().as_str(),
            metadata["resourceVersion"].as_str().unwrap_or_default(),
        )?;
        let remaining = (goes_on && selector.is_everything()).then_some(left as u64);
        same("remainingItemCount", &remaining, &metadata["remainingItemCount"].as_u64())?;
        let token = metadata["continue"].as_str().unwrap_or_default().to_owned();
        same("goes on", &goes_on, &!token.is_empty())?;
        if let (true, Some((last, _))) = (goes_on, expected.pop()) {
            let (selector, revision) = (selector.clone(), Some(revision));
            self.pages.push(Pages { selector, limit, token, revision, after: last });
            if self.pages.len() > OPEN_MAX {
                self.pages.remove(0);
            }
        }
        Ok(())
    }

    fn ago(&self, ago: u64) -> u64 {
        self.model.revision.saturating_sub(ago).max(1)
    }

    async fn list_at(&mut self, selector: &Selector, ago: u64) -> Verdict {
        let revision = self.ago(ago);
        let (path, query) = (shape::collection(selector), shape::query(selector));
        let path = format!("{path}?resourceVersion={revision}&resourceVersionMatch=Exact&{query}");
        let (status, body) = self.send("GET", &path, "", &Value::Null).await;
        let Some(objects) = self.model.at(revision) else {
            return same("status of a list that is too old", &410, &status);
        };
        same("status", &200, &status)?;
        same("past list", &selector.of(&objects), &shape::items(selector.kind, &body)?)
    }

    async fn watch(&mut self, selector: &Selector, from: From) -> Verdict {
        let (seen, options) = match from {
            From::Ago(ago) => {
                let ago = self.ago(ago);
                (ago, format!("allowWatchBookmarks=true&resourceVersion={ago}"))
            }
            From::Now => (self.model.revision, String::new()),
            // Kubernetes sends the current state to a watch with bookmarks and without a resource version.
            From::Bookmarked => (self.model.revision, "allowWatchBookmarks=true".to_owned()),
            From::Streamed => {
                let options = "allowWatchBookmarks=true&sendInitialEvents=true";
                (self.model.revision, format!("{options}&resourceVersionMatch=NotOlderThan"))
            }
        };
        let (path, query) = (shape::collection(selector), shape::query(selector));
        let path = format!("{path}?watch=1&{query}&{options}");
        let response = self.call("GET", &path, "", Vec::new()).await;
        same("status", &200, &response.status().as_u16())?;
        let mut body = Box::pin(response.into_body());
        if seen < self.model.floor {
            let events = available(&mut body);
            let codes: Vec<_> = events.iter().map(|it| (&it["type"], &it["object"]["code"])).collect();
            return same("events of a watch that is too old", &vec![(&json!("ERROR"), &json!(410))], &codes);
        }
        if !matches!(from, From::Ago(_)) {
            self.check_initial(selector, from, &available(&mut body))?;
        }
        self.watches.push(Watch { selector: selector.clone(), body, seen });
        if self.watches.len() > OPEN_MAX {
            self.watches.remove(0);
        }
        Ok(())
    }

    /// Compares the initial events of a watch that begins with the current state.
    fn check_initial(&self, selector: &Selector, from: From, events: &[Value]) -> Verdict {
        let state = selector.of(&self.model.objects).into_iter();
        let expected: Vec<_> = state.map(|(id, it)| ("ADDED".to_owned(), id, it)).collect();
        same("initial events", &expected, &shape::events(selector.kind, events)?)?;
        let end = events.last().filter(|it| it["type"] == "BOOKMARK").map(|it| &it["object"]["metadata"]);
        let end = end.map(|it| (&it["annotations"], &it["resourceVersion"]));
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let revision = json!(self.model.revision.to_string());
        let expected = matches!(from, From::Bookmarked | From::Streamed).then_some((&annotations, &revision));
        same("the bookmark after them", &expected, &end)
    }

    /// Compares the events that every watch received with those that the model expects.
    fn drain(&mut self) -> Verdict {
        for watch in &mut self.watches {
            let events = shape::events(watch.selector.kind, &available(&mut watch.body))?;
            let start = self.model.changes.partition_point(|it| it.revision <= watch.seen);
            let news = self.model.changes[start..].iter();
            let told = news.filter_map(|change| {
                let (event, object) = self.model.event(&watch.selector, change)?;
                Some((event.to_owned(), change.id.clone(), object))
            });
            let expected: Vec<_> = told.collect();
            same(&format!("events of {:?}", watch.selector), &expected, &events)?;
            watch.seen = self.model.revision;
        }
        Ok(())
    }

    fn compact(&mut self, ago: u64) {
        // How much history a store has after it was reopened is not specified.
        if self.folder.is_none() {
            let revision = self.ago(ago);
            self.server.store().compact(revision);
            self.model.compact(revision);
        }
    }

    async fn restart(&mut self) {
        let Some(folder) = &self.folder else {
            self.server = serve(self.server.store().clone(), &self.env);
            return;
        };
        self.watches.clear();
        self.server.store().close();
        self.server = serve(Store::memory(self.env.clone(), store_options()), &self.env);
        let store = Store::open(folder.path(), self.env.clone(), store_options()).await.unwrap();
        self.server = serve(store, &self.env);
        self.server.resume().await.unwrap();
    }
}

/// The events that a watch has ready.
fn available(body: &mut Pin<Box<Body>>) -> Vec<Value> {
    let mut bytes = Vec::new();
    let cx = &mut Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(cx) {
        bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    let lines = bytes.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, expected: &T, actual: &T) -> Verdict {
    match expected == actual {
        true => Ok(()),
        false => Err(format!("{what}: the model says {expected:#?}\nthe server says {actual:#?}")),
    }
}

/// Compares the response to a write with what the model expects.
fn check(id: &Id, expected: &Outcome, (status, body): &(u16, Value)) -> Verdict {
    match expected {
        Outcome::Object(code, object) => {
            if code != status {
                return Err(format!(
                    "status: the model says {code} {object:#?}\nthe server says {status} {body:#}"
                ));
            }
            same("object", &(id.clone(), object.clone()), &shape::read(id.kind, body)?)
        }
        Outcome::Removed(uid) => {
            same("status", &200, status)?;
            same("uid", uid.as_str(), body["details"]["uid"].as_str().unwrap_or_default())
        }
        Outcome::Refused(code, reason, fields) => {
            let actual = body["reason"].as_str().unwrap_or_default();
            if (code, *reason) != (status, actual) {
                return Err(format!("the model says {code} {reason}\nthe server says {status} {body:#}"));
            }
            if fields.is_empty() { Ok(()) } else { same("fields", fields, &shape::blamed(body)) }
        }
    }
}
