//! No false alarm and few misses: random correct operators pass, and the same with one seeded mistake are found.
//!
//! `EVENKEEL_EXPLORE_OPERATORS=100` tries more operators than the few of a usual test run.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

#[path = "bugs/ensemble.rs"]
#[allow(dead_code, reason = "the operators of the bugs use more of it")]
mod ensemble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ensemble::{Ensemble, change, create, delete, prepare};
use evenkeel_cluster::Cluster;
use evenkeel_env::Env;
use evenkeel_explore::explore;
use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, Trigger};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::json;

const FINALIZER: &str = "example.com/note";
/// How many operators are tried unless the environment says otherwise: some seconds of a development build.
const OPERATORS: u64 = 3;

/// What an operator is composed of.
#[derive(Clone, Copy, Debug)]
struct Recipe {
    children: u64,
    /// Whether it writes a status.
    status: bool,
    /// Whether it keeps a note without an owner, which a finalizer cleans up.
    finalizer: bool,
    /// Whether it asks for a later look.
    look: bool,
    /// Whether its children have a value of another object, by an index trigger.
    settings: bool,
    mistake: Option<Mistake>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// Makes no child if the first one exists.
    HalfDone,
    /// Writes what needs cleaning up before it adds the finalizer.
    LateFinalizer,
    /// Creates a child once, and fails if it exists already.
    CreateOnly,
    /// Creates a child of a generated name once, and notes that it did afterwards.
    GeneratedName,
    /// Changes children only when it sees the change from one configuration to the next.
    Edge,
}

impl Recipe {
    fn random(seed: u64) -> Self {
        let env = Env::seeded(seed);
        let flip = || env.random_below(2) == 1;
        let children = 1 + env.random_below(3);
        Self { children, status: flip(), finalizer: flip(), look: flip(), settings: flip(), mistake: None }
    }

    /// The operator with this mistake, and with the parts that the mistake is about.
    fn with(mut self, mistake: Mistake) -> Self {
        self.children = self.children.max(2);
        self.finalizer |= mistake == Mistake::LateFinalizer;
        self.mistake = Some(mistake);
        self
    }
}

fn map(ensemble: &Ensemble, name: String, value: &str) -> ConfigMap {
    let mut map =
        ConfigMap { data: Some(BTreeMap::from([("value".into(), value.into())])), ..ConfigMap::default() };
    map.metadata.name = Some(name);
    map.metadata.namespace = ensemble.namespace();
    map
}

async fn reconcile(ensemble: Arc<Ensemble>, ctx: Ctx<Recipe>) -> Result<Action> {
    let recipe = *ctx.state();
    let note = map(&ensemble, "note".into(), "");
    if ensemble.metadata.deletion_timestamp.is_some() {
        if !ensemble.finalizers().is_empty() {
            ctx.delete(&note).await?;
            guard(&ensemble, &ctx, vec![]).await?;
        }
        return Ok(Action::await_change());
    }
    if recipe.finalizer {
        if recipe.mistake == Some(Mistake::LateFinalizer) {
            ctx.apply_unowned(note).await?;
            guard(&ensemble, &ctx, vec![FINALIZER.into()]).await?;
        } else {
            guard(&ensemble, &ctx, vec![FINALIZER.into()]).await?;
            ctx.apply_unowned(note).await?;
        }
    }
    once(&ensemble, &ctx).await?;
    children(&ensemble, &ctx).await?;
    if recipe.status {
        ctx.status(&ensemble, json!({"phase": "Ready", "replicas": ensemble.spec.replicas})).await?;
    }
    let look = Action::requeue(Duration::from_secs(300));
    Ok(if recipe.look { look } else { Action::await_change() })
}

async fn guard(ensemble: &Ensemble, ctx: &Ctx<Recipe>, finalizers: Vec<String>) -> Result<()> {
    if ensemble.finalizers() != finalizers {
        let mut changed = ensemble.clone();
        changed.metadata.finalizers = Some(finalizers);
        ctx.update(&changed).await?;
    }
    Ok(())
}

/// What the mistakes do once, before they note it in an annotation.
async fn once(ensemble: &Ensemble, ctx: &Ctx<Recipe>) -> Result<()> {
    let done = ensemble.annotations().contains_key("done");
    let mut child = map(ensemble, "once".into(), "");
    match ctx.state().mistake {
        Some(Mistake::CreateOnly) if !done => {}
        Some(Mistake::GeneratedName) if !done => {
            child.metadata.name = None;
            child.metadata.generate_name = Some("once-".into());
        }
        _ => return Ok(()),
    }
    ctx.create(child).await?;
    let patch = json!({"metadata": {"annotations": {"done": "yes"}}});
    ctx.patch(ensemble, &kube::api::Patch::Merge(patch)).await?;
    Ok(())
}

async fn children(ensemble: &Ensemble, ctx: &Ctx<Recipe>) -> Result<()> {
    let recipe = *ctx.state();
    let settings = if recipe.settings { ctx.get::<ConfigMap>("settings")? } else { None };
    let setting = settings.and_then(|map| map.data.as_ref()?.get("value").cloned()).unwrap_or_default();
    let value = format!("{} {setting}", ensemble.spec.config);
    let first = ctx.get::<ConfigMap>("zoo-0")?;
    let seen = first.as_ref().and_then(|map| map.data.as_ref()?.get("value").cloned());
    match recipe.mistake {
        Some(Mistake::HalfDone) if seen.as_ref() == Some(&value) => return Ok(()),
        Some(Mistake::Edge) if seen.as_ref().is_some_and(|seen| seen != &value) => {
            // Only the next configuration after the one that the children have.
            let is_next = matches!(
                (seen.as_deref().and_then(|seen| seen.split(' ').next()), &*ensemble.spec.config),
                (Some("one"), "two") | (Some("two"), "three")
            );
            if !is_next {
                return Ok(());
            }
        }
        _ => {}
    }
    for child in 0..recipe.children {
        ctx.apply(map(ensemble, format!("zoo-{child}"), &value)).await?;
    }
    Ok(())
}

async fn life(cluster: Cluster, recipe: Recipe) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || {
        let settings = Trigger::map(|map: &ConfigMap| {
            let namespace = map.namespace().unwrap_or_default();
            (map.name_any() == "settings").then(|| Request::namespaced(namespace, "zoo"))
        });
        Controller::new("random", reconcile).owns::<ConfigMap>().watches(settings).state(recipe)
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    let mut settings =
        ConfigMap { data: Some(BTreeMap::from([("value".into(), "new".into())])), ..ConfigMap::default() };
    settings.metadata.name = Some("settings".into());
    cluster.apply(settings).await?;
    change(&cluster, json!({"config": "three"})).await?;
    delete(&cluster).await
}

fn operators() -> u64 {
    let asked = std::env::var("EVENKEEL_EXPLORE_OPERATORS").ok();
    asked.map_or(OPERATORS, |asked| asked.parse().expect("a number of operators"))
}

#[test]
fn random_correct_operators_pass() {
    for seed in 0..operators() {
        let recipe = Recipe::random(seed);
        let report = explore("random", move |cluster| life(cluster, recipe)).run();
        assert!(report.is_clean(), "a false alarm about operator {seed}, {recipe:?}: {report}");
    }
}

#[test]
fn seeded_mistakes_are_found() {
    let mistakes = [
        Mistake::HalfDone,
        Mistake::LateFinalizer,
        Mistake::CreateOnly,
        Mistake::GeneratedName,
        Mistake::Edge,
    ];
    let mut missed = Vec::new();
    for (seed, mistake) in
        (0..operators().div_ceil(3)).flat_map(|seed| mistakes.map(|mistake| (seed, mistake)))
    {
        let recipe = Recipe::random(seed).with(mistake);
        let report = explore("random", move |cluster| life(cluster, recipe)).run();
        if report.is_clean() {
            missed.push((seed, mistake));
        }
    }
    assert_eq!(missed, [], "these mistakes were not found");
}
