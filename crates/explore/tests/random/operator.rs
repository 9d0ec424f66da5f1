//! A random operator: what a recipe says, and the life that it looks after.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Outside};
use evenkeel_runtime::{Action, Controller, Ctx, Index, Request, Result, Source, Trigger};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::Patch;
use parking_lot::Mutex;
use serde_json::json;

use crate::children;
use crate::ensemble::{Ensemble, change, create, delete, prepare};
use crate::recipe::{Cleanup, Kind, Mistake, Recipe, Settings, Status};

const FINALIZER: &str = "example.com/note";
const OPERATOR: &str = "random";
const SETTINGS: &str = "settings";
/// The length of a password.
const LENGTH: usize = 20;

/// What a reconcile knows beside the cluster.
pub(crate) struct World {
    pub(crate) recipe: Recipe,
    cloud: Cloud,
    /// What the process remembers.
    memory: Mutex<Option<String>>,
}

/// Buckets outside of the cluster.
#[derive(Clone)]
struct Cloud {
    door: Outside,
    buckets: Arc<Mutex<Vec<String>>>,
}

impl Cloud {
    fn new(cluster: &Cluster) -> Self {
        let cloud = Self { door: cluster.outside(OPERATOR, "cloud"), buckets: Arc::default() };
        let buckets = cloud.buckets.clone();
        cloud.door.shows(move || buckets.lock().clone().into());
        cloud
    }

    async fn make(&self, asks_first: bool) -> Result<()> {
        let exists = async { self.buckets.lock().iter().any(|it| it == "zoo") };
        if !asks_first || !self.door.ask("find bucket", exists).await? {
            self.door.call("create bucket", async { self.buckets.lock().push("zoo".to_owned()) }).await?;
        }
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        self.door.call("delete bucket", async { self.buckets.lock().clear() }).await?;
        Ok(())
    }
}

fn map(name: &str, value: &str) -> ConfigMap {
    let data = BTreeMap::from([("value".to_owned(), value.to_owned())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map
}

fn value_of(map: &ConfigMap) -> Option<String> {
    map.data.as_ref()?.get("value").cloned()
}

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx<World>) -> Result<Action> {
    let recipe = &ctx.state().recipe;
    if ensemble.metadata.deletion_timestamp.is_some() {
        leave(&ensemble, &ctx).await?;
        return Ok(Action::await_change());
    }
    let generation = ensemble.metadata.generation;
    if recipe.errs(Mistake::NotedFirst) {
        if ensemble.status.as_ref().is_some_and(|status| status.observed_generation == generation) {
            return Ok(Action::await_change());
        }
        status(&ensemble, &ctx).await?;
    }
    enter(&ensemble, &ctx).await?;
    once(&ensemble, &ctx).await?;
    let all = work(&ensemble, &ctx).await;
    let is_done = match all {
        Err(_) if recipe.errs(Mistake::Swallowed) => true,
        done => done?,
    };
    if !is_done {
        return Ok(Action::await_change());
    }
    status(&ensemble, &ctx).await?;
    Ok(recipe.look.map_or(Action::await_change(), |look| Action::requeue(Duration::from_secs(look))))
}

/// Everything that is made for an ensemble. Returns whether all of it is.
async fn work(ensemble: &Ensemble, ctx: &Ctx<World>) -> Result<bool> {
    password(ctx).await?;
    scale(ensemble, ctx).await?;
    children(ensemble, ctx).await
}

async fn status(ensemble: &Ensemble, ctx: &Ctx<World>) -> Result<()> {
    let recipe = &ctx.state().recipe;
    let mut status = json!({"phase": "Ready", "replicas": ensemble.spec.replicas});
    if recipe.status == Status::Generation {
        status["observedGeneration"] = ensemble.metadata.generation.into();
    }
    if recipe.errs(Mistake::Counter) {
        let noted = ensemble.status.as_ref().and_then(|status| status.replicas).unwrap_or_default();
        let is_start = ctx.state().memory.lock().replace("started".into()).is_none();
        status["replicas"] = (noted + i32::from(is_start)).into();
    }
    if recipe.status != Status::None || recipe.errs(Mistake::Counter) {
        ctx.status(ensemble, status).await?;
    }
    Ok(())
}

async fn guard(ensemble: &Ensemble, ctx: &Ctx<World>, finalizers: Vec<String>) -> Result<()> {
    if ensemble.finalizers() != finalizers {
        let mut changed = ensemble.clone();
        changed.metadata.finalizers = Some(finalizers);
        ctx.update(&changed).await?;
    }
    Ok(())
}

/// Makes what needs cleaning up, and the finalizer before it.
async fn enter(ensemble: &Ensemble, ctx: &Ctx<World>) -> Result<()> {
    let (recipe, cloud) = (&ctx.state().recipe, &ctx.state().cloud);
    if recipe.cleanup == Cleanup::None {
        return Ok(());
    }
    if !recipe.errs(Mistake::LateFinalizer) {
        guard(ensemble, ctx, vec![FINALIZER.into()]).await?;
    }
    match recipe.cleanup {
        Cleanup::None => {}
        Cleanup::Note => drop(ctx.apply_unowned(map("note", "")).await?),
        Cleanup::Bucket if recipe.errs(Mistake::MadeTwice) => {
            if !ensemble.annotations().contains_key("bucket") {
                cloud.make(false).await?;
                let patch = json!({"metadata": {"annotations": {"bucket": "yes"}}});
                ctx.patch(ensemble, &Patch::Merge(patch)).await?;
            }
        }
        Cleanup::Bucket => cloud.make(true).await?,
    }
    guard(ensemble, ctx, vec![FINALIZER.into()]).await
}

/// Cleans up, and removes the finalizer afterwards.
async fn leave(ensemble: &Ensemble, ctx: &Ctx<World>) -> Result<()> {
    let recipe = &ctx.state().recipe;
    if ensemble.finalizers().is_empty() {
        return Ok(());
    }
    if recipe.errs(Mistake::EarlyRelease) {
        guard(ensemble, ctx, vec![]).await?;
    }
    match recipe.cleanup {
        Cleanup::None => {}
        Cleanup::Note => {
            let mut note = map("note", "");
            note.metadata.namespace = ensemble.namespace();
            ctx.delete(&note).await?;
        }
        Cleanup::Bucket => ctx.state().cloud.remove().await?,
    }
    guard(ensemble, ctx, vec![]).await
}

/// What two mistakes do once, before they note it in an annotation.
async fn once(ensemble: &Ensemble, ctx: &Ctx<World>) -> Result<()> {
    let done = ensemble.annotations().contains_key("done");
    let mut child = map("once", "");
    match ctx.state().recipe.mistake {
        Some(Mistake::CreateOnly) if !done => {}
        Some(Mistake::GeneratedName) if !done => {
            child.metadata.name = None;
            child.metadata.generate_name = Some("once-".into());
        }
        _ => return Ok(()),
    }
    ctx.create(child).await?;
    let patch = json!({"metadata": {"annotations": {"done": "yes"}}});
    ctx.patch(ensemble, &Patch::Merge(patch)).await?;
    Ok(())
}

fn secret(password: &str) -> Secret {
    let data = BTreeMap::from([("password".to_owned(), ByteString(password.as_bytes().to_vec()))]);
    let mut secret = Secret { data: Some(data), ..Secret::default() };
    secret.metadata.name = Some("password".into());
    secret
}

async fn password(ctx: &Ctx<World>) -> Result<()> {
    let recipe = &ctx.state().recipe;
    if !recipe.password {
        return Ok(());
    }
    let made_up = ctx.env().suffix(LENGTH);
    if recipe.errs(Mistake::ToldFirst) {
        ctx.get_or_create(map("password-copy", &made_up)).await?;
        ctx.get_or_create(secret(&made_up)).await?;
        return Ok(());
    }
    let kept = if !recipe.errs(Mistake::Overwritten) {
        ctx.get_or_create(secret(&made_up)).await?
    } else if let Some(kept) = ctx.get::<Secret>("password")? {
        (*kept).clone()
    } else {
        ctx.apply(secret(&made_up)).await?
    };
    let kept = kept.data.and_then(|mut data| data.remove("password")).unwrap_or_default();
    ctx.apply(map("password-copy", &String::from_utf8_lossy(&kept.0))).await?;
    Ok(())
}

/// As many members as the spec says, and no others.
async fn scale(ensemble: &Ensemble, ctx: &Ctx<World>) -> Result<()> {
    let recipe = &ctx.state().recipe;
    if recipe.errs(Mistake::StaleScale) {
        return claims(ensemble, ctx).await;
    }
    if !recipe.scales {
        return Ok(());
    }
    for member in 0..ensemble.spec.replicas {
        ctx.apply(map(&format!("member-{member}"), "")).await?;
    }
    for child in ctx.children::<ConfigMap>()? {
        let name = child.name_any();
        let member = name.strip_prefix("member-").and_then(|member| member.parse::<i32>().ok());
        let is_live = child.metadata.deletion_timestamp.is_none();
        if is_live && member.is_some_and(|member| member >= ensemble.spec.replicas) {
            ctx.delete(&child).await?;
        }
    }
    Ok(())
}

/// A claim for each member. Deletes those beyond a spec that may be an old one.
async fn claims(ensemble: &Ensemble, ctx: &Ctx<World>) -> Result<()> {
    for member in 0..2 {
        let claim = json!({
            "metadata": {"name": format!("claim-{member}"), "namespace": ensemble.namespace()},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "wide", "resources": {"requests": {"storage": "1Gi"}}},
        });
        let claim: PersistentVolumeClaim = serde_json::from_value(claim)?;
        if member < ensemble.spec.replicas {
            ctx.get_or_create(claim).await?;
        } else {
            ctx.delete(&claim).await?;
        }
    }
    Ok(())
}

/// Makes the children. Returns whether all are made.
async fn children(ensemble: &Ensemble, ctx: &Ctx<World>) -> Result<bool> {
    let recipe = &ctx.state().recipe;
    let settings = match recipe.settings {
        Settings::None => None,
        Settings::Named | Settings::Indexed => ctx.get::<ConfigMap>(SETTINGS)?,
    };
    let setting = settings.and_then(|map| value_of(&map)).unwrap_or_default();
    let value = format!("{} {setting}", ensemble.spec.config);
    let seen = ctx.get::<ConfigMap>("zoo-0")?.and_then(|map| value_of(&map));
    if recipe.errs(Mistake::HalfDone) && seen.as_ref() == Some(&value) {
        return Ok(true);
    }
    if recipe.errs(Mistake::Edge) && seen.as_ref().is_some_and(|seen| !is_next(seen, &ensemble.spec.config)) {
        return Ok(true);
    }
    for (at, kind) in recipe.children.iter().enumerate() {
        if recipe.errs(Mistake::InMemory) && at == 1 {
            // The second child is made by the reconcile after the one that has changed the first.
            let mut memory = ctx.state().memory.lock();
            if seen.as_ref() != Some(&value) {
                *memory = Some(value);
                return Ok(false);
            }
            if memory.take().as_ref() != Some(&value) {
                return Ok(true);
            }
        }
        let is_shown = children::write(ctx, *kind, &format!("zoo-{at}"), &value, recipe.copies).await?;
        if recipe.is_staged && !is_shown {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a configuration is the one after that of a child, or the same.
fn is_next(seen: &str, config: &str) -> bool {
    let seen = seen.split(' ').next().unwrap_or_default();
    seen == config || matches!((seen, config), ("one", "two") | ("two", "three"))
}

/// Makes a copy of each ConfigMap that asks for one.
async fn copy(original: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    if original.labels().contains_key("copy") && original.metadata.deletion_timestamp.is_none() {
        let mut copy = secret(&value_of(&original).unwrap_or_default());
        copy.metadata.name = Some(format!("copy-of-{}", original.name_any()));
        ctx.apply(copy).await?;
    }
    Ok(Action::await_change())
}

fn controller(world: World) -> Controller<Ensemble> {
    let recipe = world.recipe.clone();
    let mut controller = Controller::new(OPERATOR, reconcile).owns::<ConfigMap>().owns::<Secret>();
    let has = |kind| recipe.children.contains(&kind);
    if has(Kind::Service) {
        controller = controller.owns::<Service>();
    }
    if has(Kind::ServiceAccount) {
        controller = controller.owns::<ServiceAccount>();
    }
    if has(Kind::Deployment) {
        controller = controller.owns::<Deployment>();
    }
    if recipe.errs(Mistake::StaleScale) {
        controller = controller.owns::<PersistentVolumeClaim>();
    }
    let controller = match recipe.settings {
        _ if recipe.errs(Mistake::Unwatched) => controller,
        Settings::None => controller,
        Settings::Named => controller.watches(Trigger::map(|map: &ConfigMap| {
            let namespace = map.namespace().unwrap_or_default();
            (map.name_any() == SETTINGS).then(|| Request::namespaced(namespace, "zoo"))
        })),
        Settings::Indexed => {
            let uses = Index::new("uses", |_: &Ensemble| vec![SETTINGS.to_owned()]);
            controller.watches_indexed(uses, |map: &ConfigMap| vec![map.name_any()])
        }
    };
    controller.state(world)
}

pub(crate) async fn life(cluster: Cluster, recipe: Recipe) -> kube::Result<()> {
    prepare(&cluster).await?;
    let cloud = Cloud::new(&cluster);
    cluster.run_manager(OPERATOR, move |manager| {
        let world = World { recipe: recipe.clone(), cloud: cloud.clone(), memory: Mutex::default() };
        let manager = manager.controller(controller(world));
        match recipe.copies {
            true => manager.controller(Controller::new_with("copy", Source::new(), copy).owns::<Secret>()),
            false => manager,
        }
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two", "replicas": 2})).await?;
    cluster.apply(map(SETTINGS, "new")).await?;
    cluster.settled().await;
    change(&cluster, json!({"config": "three", "replicas": 1})).await?;
    delete(&cluster).await
}
