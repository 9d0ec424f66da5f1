//! Storage migration: rewrites the stored objects of a kind after its storage version has changed.
//!
//! A definition lists in `status.storedVersions` every version in which objects may be stored. A version can be removed
//! from the definition only when no object is stored in it any more. Kubernetes leaves that to its users; here the
//! leader does it:
//!
//! 1. It waits for [`SETTLE`], until every API server stores in the new version.
//! 2. It lists the names of all objects, and reads and writes back each one unchanged: the API server stores the object
//!    again.
//! 3. After every few hundred objects, it writes the last name to an annotation of the definition, so that a new leader
//!    can resume there.
//! 4. It sets `status.storedVersions` to the new version alone, if the definition has not changed in the meantime.

mod plan;

use std::time::Duration;

use evenkeel_env::Env;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::chain;
use crate::wake::{Pause, Wake};
use plan::{Key, PROGRESS, Progress, Task};

/// How long all API servers may take to see a change of the definition. A watch takes milliseconds, and an API server
/// whose watch broke lists again within seconds.
const SETTLE: Duration = Duration::from_secs(30);

/// How many names are listed in one request: client-go's page.
const PAGE: u32 = 500;

/// The pause after each rewritten object: at most 50 objects a second, a small part of what an API server can do.
const PACE: Duration = Duration::from_millis(20);

/// After how many objects the progress is saved. At most ten seconds of work are repeated after a crash.
const SAVE_EVERY: usize = 500;

/// How many attempts are made for an object that other clients keep changing.
const CONFLICTS_MAX: usize = 5;

/// The pause after the first failure, which doubles with each further one.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest pause after a failure. A webhook may refuse an object for a long time.
const RETRY_MAX: Duration = Duration::from_secs(600);

/// How often the definition is checked even though it has not changed.
const LOOK_EVERY: Duration = Duration::from_secs(12 * 3600);

/// Rewrites the objects of one kind.
pub(crate) struct Migration {
    client: Client,
    env: Env,
    /// The name of the definition.
    name: String,
    /// The storage version that is being waited for, and when it was first seen.
    settling: Option<(String, Instant)>,
}

/// The result of one attempt.
enum Attempt {
    /// All objects are stored in one version.
    Complete,
    /// The storage version is new: try again after this time.
    Settling(Duration),
}

/// An attempt failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{action} {name}: {source}")]
    Request { action: &'static str, name: String, source: kube::Error },
    #[error("{count} objects cannot be rewritten, the first of them {first}: {why}")]
    Objects { count: usize, first: String, why: String },
}

impl Migration {
    pub(crate) fn new(client: Client, env: Env, definition: &str) -> Self {
        Self { client, env, name: definition.to_owned(), settling: None }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut wake = Wake::new(self.client.clone(), &self.env, "storage migration");
        wake.watch(&ApiResource::erase::<CustomResourceDefinition>(&()), None, &self.name);
        let mut failures = 0;
        loop {
            let work = wake.take();
            let attempt = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                attempt = self.attempt() => attempt,
            };
            let pause = match attempt {
                Ok(Attempt::Complete) => Pause::Look(LOOK_EVERY),
                Ok(Attempt::Settling(wait)) => Pause::Retry(wait),
                Err(error) => {
                    failures += 1;
                    tracing::warn!(
                        error = chain(&error),
                        definition = self.name,
                        "cannot migrate the storage"
                    );
                    Pause::Retry(RETRY_MIN.saturating_mul(1 << (failures - 1).min(16)).min(RETRY_MAX))
                }
            };
            if !matches!(pause, Pause::Retry(_)) {
                failures = 0;
            }
            drop(work);
            if !wake.changed(pause, &stop).await {
                return;
            }
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, Failed> {
        let read = self.definitions().get_opt(&self.name).await;
        let Some(definition) = read.map_err(self.failed("read the definition"))? else {
            return Ok(Attempt::Complete);
        };
        let Some(task) = plan::task(&definition) else {
            self.settling = None;
            if plan::has_progress(&definition) {
                self.forget_progress().await?;
            }
            return Ok(Attempt::Complete);
        };
        if let Some(wait) = self.settle(&task) {
            return Ok(Attempt::Settling(wait));
        }
        tracing::info!(definition = self.name, to = task.target, "migrating the storage");
        let count = self.rewrite_all(&task).await?;
        self.finish(&task).await?;
        tracing::info!(definition = self.name, to = task.target, count, "migrated the storage");
        Ok(Attempt::Complete)
    }

    /// Returns how long to wait before the migration to this version begins. A migration that has already begun
    /// continues at once.
    fn settle(&mut self, task: &Task) -> Option<Duration> {
        if task.progress.is_some() {
            return None;
        }
        let since = match &self.settling {
            Some((target, since)) if *target == task.target => *since,
            _ => self.settling.insert((task.target.clone(), Instant::now())).1,
        };
        SETTLE.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(kube::Error) -> Failed + use<> {
        let name = self.name.clone();
        move |source| Failed::Request { action, name, source }
    }

    /// Rewrites the remaining objects, and returns how many there were.
    async fn rewrite_all(&self, task: &Task) -> Result<usize, Failed> {
        let keys = self.keys(task).await?;
        let left = plan::left(keys, task.progress.as_ref());
        let (mut refused, mut first) = (0, None);
        for (at, key) in left.iter().enumerate() {
            if let Err(error) = self.rewrite(task, key).await {
                refused += 1;
                first.get_or_insert_with(|| (key.to_string(), error.to_string()));
            }
            // After a refusal, progress is not saved any more, because the next attempt has to return to the refused
            // object.
            if refused == 0 && (at + 1) % SAVE_EVERY == 0 {
                self.save(&Progress { target: task.target.clone(), last: key.clone() }).await?;
            }
            tokio::time::sleep(PACE).await;
        }
        match first {
            Some((first, why)) => Err(Failed::Objects { count: refused, first, why }),
            None => Ok(left.len()),
        }
    }

    /// The keys of all objects.
    async fn keys(&self, task: &Task) -> Result<Vec<Key>, Failed> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &task.resource);
        let (mut keys, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
        loop {
            let page = api.list_metadata(&params).await.map_err(self.failed("list the objects of"))?;
            keys.extend(page.items.iter().map(|object| Key::new(object.namespace(), object.name_any())));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(keys),
            }
        }
    }

    /// Makes the API server store an object again, which uses the storage version.
    async fn rewrite(&self, task: &Task, key: &Key) -> kube::Result<()> {
        let api: Api<DynamicObject> = match &key.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &task.resource),
            None => Api::all_with(self.client.clone(), &task.resource),
        };
        let mut conflicts = 0;
        loop {
            // A deleted object needs no rewriting.
            let Some(mut object) = api.get_opt(&key.name).await? else { return Ok(()) };
            // The object must be written in the version in which it was read.
            object.types = Some(TypeMeta {
                api_version: task.resource.api_version.clone(),
                kind: task.resource.kind.clone(),
            });
            match api.replace(&key.name, &PostParams::default(), &object).await {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(kube::Error::Api(status)) if status.code == 409 && conflicts < CONFLICTS_MAX => {
                    conflicts += 1;
                    tokio::time::sleep(PACE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn save(&self, progress: &Progress) -> Result<(), Failed> {
        let patch = json!({ "metadata": { "annotations": { PROGRESS: progress.to_string() } } });
        let saved = self.definitions().patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        saved.map(drop).map_err(self.failed("write the progress to"))
    }

    /// Removes the old versions from the definition's status, if its storage version is still that of the task.
    async fn finish(&self, task: &Task) -> Result<(), Failed> {
        let definition =
            self.definitions().get(&self.name).await.map_err(self.failed("read the definition"))?;
        if plan::task(&definition).is_none_or(|now| now.target != task.target) {
            return Ok(());
        }
        // The resource version makes the write conditional.
        let version = &definition.metadata.resource_version;
        let stored = json!({ "metadata": { "resourceVersion": version }, "status": { "storedVersions": [task.target] } });
        let written =
            self.definitions().patch_status(&self.name, &PatchParams::default(), &Patch::Merge(stored)).await;
        written.map(drop).map_err(self.failed("write the stored versions of"))
    }

    async fn forget_progress(&self) -> Result<(), Failed> {
        let none = json!({ "metadata": { "annotations": { PROGRESS: null } } });
        let removed =
            self.definitions().patch(&self.name, &PatchParams::default(), &Patch::Merge(none)).await;
        removed.map(drop).map_err(self.failed("remove the progress from"))
    }
}
