//! Conversions by webhook, with the responses that Kubernetes gave to the same requests and the same webhook, replayed.
//! `tests/real/conversion.py` records them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::{ApiServer, Header, Options, WebhookAnswer, WebhookCaller, WebhookQuestion};
use evenkeel_env::Env;
use evenkeel_store::Store;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::api::{Api, Watch};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const HOOK: &str = "hook.example.com:8443";
/// How long a watch is read after its last event.
const SILENCE: Duration = Duration::from_secs(5);

/// A conversion webhook that edits its answers as a step of a case says.
#[derive(Default)]
struct Webhook {
    mode: Mutex<Value>,
}

impl WebhookCaller for Webhook {
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>> {
        let mode = self.mode.lock().clone();
        Box::pin(async move {
            if question.destination != HOOK {
                return Err(format!("dial tcp {}: connect: connection refused", question.destination));
            }
            let review: Value = serde_json::from_slice(&question.body).unwrap();
            Ok(answer(&review, &mode).await)
        })
    }
}

async fn answer(review: &Value, mode: &Value) -> WebhookAnswer {
    let desired = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let nothing = Value::Null;
    let mode = if desired.ends_with(mode["to"].as_str().unwrap_or_default()) { mode } else { &nothing };
    tokio::time::sleep(Duration::from_secs(mode["slow"].as_u64().unwrap_or(0))).await;
    let content_type = mode["media"].as_str().unwrap_or("application/json").to_owned();
    let code = mode["code"].as_u64().map_or(200, |code| u16::try_from(code).unwrap());
    if let Some(raw) = mode["raw"].as_str() {
        return WebhookAnswer { code, content_type, body: raw.to_owned().into() };
    }
    let objects = review["request"]["objects"].as_array().unwrap();
    let converted: Vec<Value> = objects.iter().map(|object| convert(object.clone(), desired)).collect();
    let response = json!({"uid": review["request"]["uid"], "result": {"status": "Success"},
        "convertedObjects": converted});
    let mut answer =
        json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response});
    for set in mode["set"].as_array().into_iter().flatten() {
        edit(&mut answer, set[0].as_str().unwrap(), Some(set[1].clone()));
    }
    for remove in mode["remove"].as_array().into_iter().flatten() {
        edit(&mut answer, remove.as_str().unwrap(), None);
    }
    WebhookAnswer { code, content_type, body: spaced(&answer).into() }
}

/// JSON as Python writes it, with spaces, since some errors of Kubernetes quote the answer.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| format!("{}: {}", json!(key), spaced(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Sets or removes the member that a JSON pointer names.
fn edit(value: &mut Value, pointer: &str, new: Option<Value>) {
    let (path, last) = pointer.rsplit_once('/').unwrap();
    let mut parent = value;
    for part in path.split('/').skip(1) {
        parent = match parent {
            Value::Array(items) => &mut items[part.parse::<usize>().unwrap()],
            other => &mut other[part],
        };
    }
    match (parent, new) {
        (Value::Array(items), Some(new)) => items[last.parse::<usize>().unwrap()] = new,
        (other, Some(new)) => other[last] = new,
        (other, None) => drop(other.as_object_mut().and_then(|map| map.remove(last))),
    }
}

/// v1 has `spec.size`, the other versions have `spec.amount.value`.
pub(crate) fn convert(mut thing: Value, desired: &str) -> Value {
    if !thing["spec"].is_object() {
        thing["spec"] = json!({});
    }
    let spec = thing["spec"].as_object_mut().unwrap();
    let size = spec.remove("size");
    let amount = spec.remove("amount").and_then(|mut it| it.get_mut("value").map(Value::take));
    match size.or(amount) {
        Some(size) if desired.ends_with("/v1") => spec.insert("size".to_owned(), size),
        Some(size) => spec.insert("amount".to_owned(), json!({"value": size})),
        None => None,
    };
    thing["apiVersion"] = desired.into();
    thing
}

struct Case {
    api: Api,
    webhook: Arc<Webhook>,
    group: String,
    /// The resourceVersion of the last response.
    version: String,
}

impl Case {
    async fn new(number: usize) -> Self {
        let env = Env::seeded(1);
        let store: Store<Header> = Store::memory(env.clone(), evenkeel_store::Options::default());
        let webhook = Arc::new(Webhook::default());
        let mut options = Options::default();
        options.webhooks = Some(webhook.clone());
        let api = Api::over(ApiServer::new(store, env, options));
        let made = api.post("/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
        assert_eq!(made.status, 201, "{made:?}");
        Self { api, webhook, group: format!("c{number}.example.com"), version: String::new() }
    }

    fn filled(&self, value: &Value) -> Value {
        let text = value.to_string().replace("{g}", &self.group).replace("{hook}", HOOK);
        serde_json::from_str(&text.replace("{ca}", "").replace("{version}", &self.version)).unwrap()
    }

    /// Replaces what differs from run to run.
    fn plain(&self, mut value: Value) -> Value {
        plain(&mut value, &self.group);
        value
    }

    /// Takes a step; returns the response, if it has one.
    async fn step(&mut self, step: &Value) -> Option<Value> {
        if let Some(definition) = step.get("define") {
            let made = self.api.post(DEFINITIONS, self.filled(definition)).await;
            assert_eq!(made.status, 201, "{made:?}");
            return None;
        }
        if let Some(edits) = step.get("redefine") {
            let path = format!("{DEFINITIONS}/things.{}", self.group);
            let mut changed = self.api.get(&path).await.body;
            for set in self.filled(edits).as_array().unwrap() {
                edit(&mut changed, set[0].as_str().unwrap(), Some(set[1].clone()));
            }
            let made = self.api.put(&path, changed).await;
            assert_eq!(made.status, 200, "{made:?}");
            return None;
        }
        if let Some(mode) = step.get("webhook") {
            *self.webhook.mode.lock() = self.filled(mode);
            return None;
        }
        if let Some(path) = step.get("watch") {
            return Some(self.watch(self.filled(path).as_str().unwrap()).await);
        }
        Some(self.request(step).await)
    }

    async fn request(&mut self, step: &Value) -> Value {
        let body = match &step["body"] {
            Value::Null => Vec::new(),
            body => self.filled(body).to_string().into_bytes(),
        };
        let mut headers = BTreeMap::from([("content-type", "application/json"), ("user-agent", "it/1")]);
        let given = step["headers"].as_object().unwrap();
        headers.extend(given.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())));
        let headers: Vec<(&str, &str)> = headers.into_iter().collect();
        let path = self.filled(&step["path"]);
        let method = step["method"].as_str().unwrap();
        let response = self.api.send(method, path.as_str().unwrap(), &headers, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().whole().unwrap_or_default();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let mut body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        if let Some(version) = body.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
            self.version = version.to_owned();
        }
        if let Some(only) = step["only"].as_str() {
            body = body.pointer(only).cloned().unwrap_or_default();
        }
        json!({"code": code, "body": self.plain(body)})
    }

    async fn watch(&self, path: &str) -> Value {
        let response = self.api.send("GET", path, &[], Vec::new()).await;
        let mut watch = Watch::of(response);
        let mut events = Vec::new();
        let mut ended = false;
        while !ended && let Ok(event) = tokio::time::timeout(SILENCE, watch.next()).await {
            ended = event.is_null();
            events.extend((!ended).then(|| self.plain(event)));
        }
        json!({"code": 200, "events": events, "ended": ended})
    }
}

fn plain(value: &mut Value, group: &str) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let is_version = matches!(key.as_str(), "resourceVersion" | "continue");
                match value {
                    Value::String(text) if is_version && !text.is_empty() => *text = "{version}".to_owned(),
                    value => plain(value, group),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| plain(item, group)),
        Value::String(text) => *text = plain_text(text, group),
        _ => {}
    }
}

fn plain_text(text: &str, group: &str) -> String {
    let is_uid = |it: &[u8]| {
        it.iter().enumerate().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => *c == b'-',
            _ => c.is_ascii_hexdigit(),
        })
    };
    let is_time = text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
    let is_age = text.len() < 4 && text.ends_with('s') && text[..text.len() - 1].parse::<u32>().is_ok();
    if is_time || is_age {
        return if is_time { "{time}" } else { "{age}" }.to_owned();
    }
    let mut text = text.replace(group, "{g}").replace(HOOK, "{hook}");
    while let Some(at) = text.as_bytes().windows(36).position(is_uid) {
        text.replace_range(at..at + 36, "{uid}");
    }
    if let Some((before, _)) = text.split_once("Too large resource version: ") {
        text = format!("{before}Too large resource version: {{version}}, current: {{version}}");
    }
    text
}

/// What a webhook does right and wrong, and what clients see of it.
#[tokio::test(start_paused = true)]
async fn objects_are_converted_as_kubernetes_converts_them() {
    let recorded: Map<String, Value> =
        serde_json::from_str(include_str!("../conversion/recorded.json")).unwrap();
    let mut differences = Vec::new();
    let mut compared = 0;
    for (number, (name, steps)) in recorded.iter().enumerate() {
        let mut case = Case::new(number).await;
        for (at, step) in steps.as_array().unwrap().iter().enumerate() {
            let Some(got) = case.step(step).await else { continue };
            compared += 1;
            if got != step["answer"] {
                let what = step.get("path").or(step.get("watch")).unwrap();
                differences
                    .push(format!("{name}, step {at}: {what}\n   want {}\n    got {got}", step["answer"]));
            }
        }
        assert_eq!(case.api.server().panics(), 0, "{name}");
    }
    assert!(compared > 200, "{compared} responses");
    let shown = differences.join("\n");
    assert!(differences.is_empty(), "{} of {compared} responses differ\n{shown}", differences.len());
}
