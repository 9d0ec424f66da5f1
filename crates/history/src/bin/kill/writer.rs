//! A client that writes and reads, and remembers each object as it was last seen.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use evenkeel_history::{Answer, Call, Content, Key, Listing, Object, Revision, Tick};
use http::Method;
use serde_json::{Value, json};

use crate::{KEYS, Shared};
use evenkeel_history::client::{self, Connection, Reply};

/// How many items a page of a paged list has: three pages for all objects.
const PAGE: usize = 2;

/// Writes and reads until the writers must end. Opens a new connection whenever one was lost.
pub(crate) async fn write(shared: Shared, random: fastrand::Rng) {
    let mut phase = shared.phase.clone();
    let mut writer = Writer { shared, random, seen: BTreeMap::new() };
    loop {
        let now = phase.borrow_and_update().clone();
        if now.done {
            return;
        }
        if let Some(client) = &now.client
            && let Ok(connection) = client.connect().await
        {
            // While this task was connecting, the server may have been killed and the next one started on the same port.
            // A request that is lost counts until the death of the server that it was sent to, so the two must agree.
            if phase.borrow().server != now.server {
                continue;
            }
            writer.use_up(connection, now.server, &phase).await;
        }
        // The connection is lost, because the server was killed or will be.
        if !phase.borrow().done && phase.changed().await.is_err() {
            return;
        }
    }
}

struct Writer {
    shared: Shared,
    random: fastrand::Rng,
    /// The objects as this client saw them last.
    seen: BTreeMap<Key, Object>,
}

impl Writer {
    /// Sends one request after the other until the connection is lost or the writers must end.
    async fn use_up(
        &mut self,
        mut connection: Connection,
        server: usize,
        phase: &tokio::sync::watch::Receiver<crate::Phase>,
    ) {
        while !phase.borrow().done {
            let lives = match self.random.u32(0..10) {
                0 => self.list(&mut connection).await,
                _ => self.request(&mut connection, server).await,
            };
            if !lives {
                return;
            }
        }
    }

    async fn request(&mut self, connection: &mut Connection, server: usize) -> bool {
        let key = self.random.usize(0..KEYS);
        let call = self.choose(key);
        let (method, path, body) = self.form(key, call);
        let recorder = self.shared.recorder.clone();
        let called = recorder.tick();
        let reply = match connection.send(method, &path, body).await {
            Ok(reply) => reply,
            Err(error) => {
                if error.is::<tokio::time::error::Elapsed>() {
                    recorder.surprise(format!("{call:?} of object {key} to server {server}: {error:#}"));
                }
                recorder.lost(key, call, called, server);
                return false;
            }
        };
        match answer(call, &reply) {
            Some(answer) => {
                self.learn(key, &answer);
                recorder.answered(key, call, called, answer);
            }
            None => {
                recorder.surprise(format!("{call:?} was answered by {reply:?}"));
                recorder.lost(key, call, called, server);
            }
        }
        true
    }

    /// Chooses the next request.
    fn choose(&mut self, key: Key) -> Call {
        let token = self.shared.tokens.fetch_add(1, Ordering::Relaxed) + 1;
        let seen = self.seen.get(&key).cloned();
        let expected = seen.as_ref().map(|object| object.revision).filter(|_| self.random.bool());
        match (self.random.u32(0..100), seen) {
            (0..25, Some(seen)) => {
                Call::Update { expected: seen.revision, content: Content { set: token, ..seen.content } }
            }
            (0..45, None) | (25..35, _) => Call::Create { set: token },
            (35..65, _) => Call::Patch { merged: token, expected },
            (65..80, _) => Call::Delete { expected },
            _ => Call::Get,
        }
    }

    /// Returns method, path and body of a request.
    fn form(&self, key: Key, call: Call) -> (Method, String, Option<Value>) {
        let name = client::name(key);
        match call {
            Call::Create { set } => {
                let body = json!({ "metadata": { "name": name }, "data": { "set": set.to_string() } });
                (Method::POST, client::COLLECTION.into(), Some(body))
            }
            Call::Update { expected, content } => {
                let mut data = json!({ "set": content.set.to_string() });
                if let Some(merged) = content.merged {
                    data["merged"] = merged.to_string().into();
                }
                let metadata = json!({ "name": name, "resourceVersion": expected.to_string() });
                (Method::PUT, client::path(key), Some(json!({ "metadata": metadata, "data": data })))
            }
            Call::Patch { merged, expected } => {
                let mut body = json!({ "data": { "merged": merged.to_string() } });
                if let Some(expected) = expected {
                    body["metadata"] = json!({ "resourceVersion": expected.to_string() });
                }
                (Method::PATCH, client::path(key), Some(body))
            }
            Call::Delete { expected } => {
                let precondition = |expected: Revision| json!({ "preconditions": { "resourceVersion": expected.to_string() } });
                (Method::DELETE, client::path(key), expected.map(precondition))
            }
            Call::Get => (Method::GET, client::path(key), None),
        }
    }

    fn learn(&mut self, key: Key, answer: &Answer) {
        match answer {
            Answer::Object(object) => drop(self.seen.insert(key, object.clone())),
            Answer::Deleted { .. } | Answer::NotFound | Answer::Conflict => drop(self.seen.remove(&key)),
            Answer::Exists | Answer::Lost => {}
        }
    }

    /// Lists everything, sometimes in pages. Returns whether the connection still works.
    async fn list(&mut self, connection: &mut Connection) -> bool {
        let limit = if self.random.bool() { format!("?limit={PAGE}") } else { String::new() };
        let called = self.shared.recorder.tick();
        let mut listing: Option<Listing> = None;
        let mut path = format!("{}{limit}", client::COLLECTION);
        loop {
            let Ok(reply) = connection.send(Method::GET, &path, None).await else { return false };
            let returned = self.shared.recorder.tick();
            // The revision of the list was compacted between two pages. That says nothing about the objects.
            if reply.status == http::StatusCode::GONE && listing.is_some() {
                return true;
            }
            match add_page(&mut listing, &reply, called, returned) {
                Ok(None) => break,
                Ok(Some(token)) => path = format!("{}?limit={PAGE}&continue={token}", client::COLLECTION),
                Err(wrong) => {
                    self.shared.recorder.surprise(wrong);
                    return true;
                }
            }
        }
        if let Some(listing) = listing {
            self.seen = listing.items.clone();
            self.shared.recorder.listed(listing);
        }
        true
    }
}

/// Adds a page to a list and returns the continue token of the next page, if there is one.
pub(crate) fn add_page(
    listing: &mut Option<Listing>,
    reply: &Reply,
    called: Tick,
    returned: Tick,
) -> Result<Option<String>, String> {
    let body = &reply.body;
    let revision = client::revision(body).filter(|_| reply.status == http::StatusCode::OK);
    let revision = revision.ok_or_else(|| format!("a list was answered by {reply:?}"))?;
    let listing = listing.get_or_insert(Listing { called, returned, revision, items: BTreeMap::new() });
    if listing.revision != revision {
        return Err(format!("a list began at revision {} and went on at {revision}", listing.revision));
    }
    for item in body["items"].as_array().into_iter().flatten() {
        let Some(key) = client::key(item) else { continue };
        let object = client::object(item).ok_or_else(|| format!("a list has {item}"))?;
        if listing.items.insert(key, object).is_some() {
            return Err(format!("the list at revision {revision} shows object {key} twice"));
        }
    }
    let token = body.pointer("/metadata/continue").and_then(Value::as_str);
    Ok(token.filter(|token| !token.is_empty()).map(str::to_owned))
}

/// Interprets an answer; `None` if it does not say whether the request was served.
fn answer(call: Call, reply: &Reply) -> Option<Answer> {
    let reason = reply.body["reason"].as_str().unwrap_or_default();
    match (reply.status.as_u16(), call, reason) {
        (200, Call::Delete { .. }, _) => {
            let uid = reply.body.pointer("/details/uid")?.as_str()?.to_owned();
            Some(Answer::Deleted { uid, revision: None })
        }
        (200 | 201, _, _) => Some(Answer::Object(client::object(&reply.body)?)),
        (404, Call::Create { .. }, _) => None,
        (404, _, "NotFound") => Some(Answer::NotFound),
        (409, Call::Create { .. }, "AlreadyExists") => Some(Answer::Exists),
        (409, _, "Conflict") => Some(Answer::Conflict),
        _ => None,
    }
}
