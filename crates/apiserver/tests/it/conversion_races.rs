//! Definitions whose storage version and schema change while their objects are written, read and watched.
//!
//! A write that was in progress during such a change is stored after it, in the old storage version and by the old schema.
//! It used to be served as it was stored, because of its revision: unconverted, unpruned and without defaults. So was
//! everything that was written since to a watch that had begun before.

use std::sync::Arc;

use evenkeel_apiserver::{ApiServer, Header, Options, WebhookAnswer, WebhookCaller, WebhookQuestion};
use evenkeel_env::Env;
use evenkeel_store::Store;
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};

use crate::api::{Answer, Api};
use crate::conversion_recorded::convert;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
const NAMES: [&str; 3] = ["a", "b", "c"];
const VERSIONS: [&str; 2] = ["v1", "v2"];
/// The last object that a run creates, so that watches know their end.
const END: &str = "end";
const SEEDS: u64 = 80;
/// How many turns the server gets to finish writes that were given up: they are tried again some times, and each time wait
/// for webhooks.
const FINISH: usize = 1000;

/// Answers every review, sooner or later.
struct Webhook {
    env: Env,
}

async fn pause(env: &Env, most: u64) {
    for _ in 0..env.random_below(most) {
        yield_now().await;
    }
}

impl WebhookCaller for Webhook {
    fn post(&self, question: WebhookQuestion) -> BoxFuture<'_, Result<WebhookAnswer, String>> {
        Box::pin(async move {
            pause(&self.env, 8).await;
            let review: Value = serde_json::from_slice(&question.body).unwrap();
            let request = &review["request"];
            let response = match question.path.starts_with("/admit") {
                true => json!({"uid": request["uid"], "allowed": true}),
                false => {
                    let desired = request["desiredAPIVersion"].as_str().unwrap();
                    let objects = request["objects"].as_array().unwrap().iter();
                    let converted: Vec<Value> = objects.map(|it| convert(it.clone(), desired)).collect();
                    json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted})
                }
            };
            let answer =
                json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
            let (code, content_type) = (200, "application/json".to_owned());
            Ok(WebhookAnswer { code, content_type, body: answer.to_string().into() })
        })
    }
}

/// Whether a webhook converts, between `size` in v1 and `amount.value` in v2. Without one, both versions have a `size`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Webhook,
    Nobody,
}

/// The versions of the definition. If it is `dyed`, things have a color, which is red by default.
fn versions(by: By, storage: &str, dyed: bool) -> Value {
    let version = |name: &str| {
        let mut properties = match (by, name) {
            (By::Webhook, "v2") => {
                json!({"amount": {"type": "object", "properties": {"value": {"type": "integer"}}}})
            }
            _ => json!({"size": {"type": "integer"}}),
        };
        if dyed {
            properties["color"] = json!({"type": "string", "default": "red"});
        }
        let spec = json!({"type": "object", "properties": properties});
        json!({"name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    VERSIONS.iter().map(|name| version(name)).collect()
}

/// One run: a server whose requests interleave by a seed.
#[derive(Clone)]
struct World {
    server: ApiServer,
    env: Env,
    by: By,
}

impl World {
    async fn new(seed: u64, by: By) -> Self {
        let env = Env::seeded(seed);
        let store: Store<Header> = Store::memory(env.clone(), evenkeel_store::Options::default());
        let mut options = Options::default();
        options.webhooks = Some(Arc::new(Webhook { env: env.clone() }));
        let world = Self { server: ApiServer::new(store, env.clone(), options), env, by };
        let made = |answer: Answer| assert_eq!(answer.status, 201, "{answer:?}");
        let api = world.api();
        made(api.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await);
        let conversion = match by {
            By::Nobody => json!({"strategy": "None"}),
            By::Webhook => json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://hooks.example.com/convert"}}}),
        };
        let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": versions(by, "v1", false), "conversion": conversion}});
        made(api.post(DEFINITIONS, definition).await);
        // Every write waits for this webhook, and meanwhile the definition may change.
        let rule = json!({"apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["things"],
            "operations": ["CREATE", "UPDATE"]});
        let hook = json!({"name": "hooks.example.com", "rules": [rule], "matchPolicy": "Exact",
            "clientConfig": {"url": "https://hooks.example.com/admit"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"]});
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        made(api.post(path, json!({"metadata": {"name": "hooks"}, "webhooks": [hook]})).await);
        world
    }

    fn api(&self) -> Api {
        Api::over(self.server.clone())
    }

    fn one_of<T: Copy>(&self, all: &[T]) -> T {
        all[usize::try_from(self.env.random_below(all.len() as u64)).unwrap()]
    }

    async fn define(&self, storage: &str, dyed: bool) {
        let changed = self
            .api()
            .merge(DEFINITION, json!({"spec": {"versions": versions(self.by, storage, dyed)}}))
            .await;
        assert_eq!(changed.status, 200, "{changed:?}");
    }

    fn spec(&self, version: &str, number: u64) -> Value {
        match (self.by, version) {
            (By::Webhook, "v2") => json!({"amount": {"value": number}}),
            _ => json!({"size": number}),
        }
    }

    /// Writes an object in some version and in some way.
    async fn write(&self, name: &str, number: u64) {
        let (api, version) = (self.api(), self.one_of(&VERSIONS));
        let (all, one) = (things(version), format!("{}/{name}", things(version)));
        let object = json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing",
            "metadata": {"name": name}, "spec": self.spec(version, number)});
        let answer = match self.env.random_below(4) {
            0 => api.post(&all, object).await,
            1 => api.merge(&one, json!({"spec": self.spec(version, number)})).await,
            2 => api.apply(&format!("{one}?fieldManager=it&force=true"), object).await,
            _ => {
                let mut read = api.get(&one).await;
                if read.status == 404 {
                    return;
                }
                read.body["spec"] = self.spec(version, number);
                api.put(&one, read.body).await
            }
        };
        match answer.status {
            200 | 201 => self.check(version, &answer.body),
            // Another write was faster, or there was nothing to change.
            404 | 405 | 409 => {}
            _ => panic!("{name} {version}: {answer:?}"),
        }
    }

    /// An object is served in the version that was asked for, and has the fields of that version.
    fn check(&self, version: &str, object: &Value) {
        let number = self.number(version, object);
        assert_eq!(object["apiVersion"], format!("example.com/{version}"), "{object}");
        let mut spec = object["spec"].clone();
        spec.as_object_mut().unwrap().remove("color");
        assert_eq!(spec, self.spec(version, number), "{version}: {object}");
    }

    fn number(&self, version: &str, object: &Value) -> u64 {
        let number = match (self.by, version) {
            (By::Webhook, "v2") => &object["spec"]["amount"]["value"],
            _ => &object["spec"]["size"],
        };
        number.as_u64().unwrap_or_else(|| panic!("{version}: {object}"))
    }

    async fn list(&self, version: &str) -> Vec<Value> {
        let listed = self.api().get(&things(version)).await;
        assert_eq!(listed.status, 200, "{listed:?}");
        let items = listed.body["items"].as_array().unwrap().clone();
        items.iter().for_each(|item| self.check(version, item));
        items
    }

    /// Watches until the last object, and returns the number that each object had at the end.
    fn watch(&self, version: &'static str) -> JoinHandle<Vec<(String, u64)>> {
        let world = self.clone();
        spawn_local(async move {
            let mut watch = world.api().watch(&format!("{}?watch=1", things(version))).await;
            let mut seen = std::collections::BTreeMap::new();
            loop {
                let event = watch.next().await;
                let object = &event["object"];
                world.check(version, object);
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                seen.insert(name.clone(), world.number(version, object));
                if name == END {
                    return seen.into_iter().collect();
                }
            }
        })
    }

    /// Starts some writes. Some of them are given up halfway.
    fn writes(&self, round: u64) -> Vec<JoinHandle<()>> {
        let write = |(place, name): (usize, &'static str)| {
            let (world, number) = (self.clone(), round * 10 + place as u64);
            spawn_local(async move {
                pause(&world.env, 6).await;
                match world.env.random_below(4) {
                    0 => {
                        let patience = pause(&world.env, 12);
                        tokio::select! { biased; () = world.write(name, number) => {} () = patience => {} }
                    }
                    _ => world.write(name, number).await,
                }
            })
        };
        NAMES.into_iter().chain(NAMES).enumerate().map(write).collect()
    }
}

fn things(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/n/things")
}

async fn run(seed: u64, by: By) {
    let world = World::new(seed, by).await;
    let watches = VERSIONS.map(|version| world.watch(version));
    for round in 1..6 {
        let writes = world.writes(round);
        pause(&world.env, 20).await;
        world.define(world.one_of(&VERSIONS), world.one_of(&[true, false])).await;
        for _ in 0..3 {
            pause(&world.env, 6).await;
            world.list(world.one_of(&VERSIONS)).await;
        }
        join_all(writes).await.into_iter().for_each(|ended| ended.unwrap());
    }
    // Whatever is in progress during the last change is served by the last definition, too.
    for dyed in [true, false] {
        let writes = world.writes(6);
        pause(&world.env, 20).await;
        world.define(world.one_of(&VERSIONS), dyed).await;
        join_all(writes).await.into_iter().for_each(|ended| ended.unwrap());
        for version in VERSIONS {
            for object in world.list(version).await {
                assert_eq!(object["spec"]["color"] == "red", dyed, "{object}");
            }
        }
    }
    for _ in 0..FINISH {
        yield_now().await;
    }
    let end = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": END},
        "spec": world.spec("v1", 0)});
    assert_eq!(world.api().post(&things("v1"), end).await.status, 201);
    for (version, watch) in VERSIONS.into_iter().zip(watches) {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        let listed = world.list(version).await;
        let listed: Vec<_> = listed.iter().map(|it| (name(it), world.number(version, it))).collect();
        assert_eq!(watch.await.unwrap(), listed, "the watch of {version}");
    }
}

fn check(by: By) {
    for seed in 0..SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        println!("seed {seed}, converted by {by:?}");
        LocalSet::new().block_on(&runtime.unwrap(), run(seed, by));
    }
}

#[test]
fn a_write_in_progress_is_converted_by_the_new_definition() {
    check(By::Webhook);
}

#[test]
fn a_write_in_progress_is_renamed_pruned_and_defaulted_without_a_webhook() {
    check(By::Nobody);
}
