//! Oracles that are narrowed, so that an operator that is right is not blamed for what it cannot see: each is still wide
//! enough to find an operator that is wrong under the same plans.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, as it should")]

#[path = "bugs/ensemble.rs"]
#[allow(dead_code, reason = "the operators of the bugs use more of it")]
mod ensemble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ensemble::{Ensemble, change, create, delete, prepare, stateful_set};
use evenkeel_cluster::Cluster;
use evenkeel_explore::{Budget, Class, Oracle, Report, explore};
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

fn child(ensemble: &Ensemble) -> ConfigMap {
    let data = BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]);
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some("zoo".to_owned());
    map.metadata.namespace = ensemble.namespace();
    map
}

async fn steps(cluster: &Cluster) -> kube::Result<()> {
    create(cluster, 1).await?;
    change(cluster, json!({"config": "two"})).await?;
    change(cluster, json!({"config": "three"})).await
}

fn explored(name: &str, controller: fn() -> Controller<Ensemble>) -> Report {
    let played = move |cluster: Cluster| async move {
        prepare(&cluster).await?;
        cluster.run(controller);
        steps(&cluster).await
    };
    explore(name, played).budget(Budget::Full).run()
}

#[track_caller]
fn finds(oracle: Oracle, report: &Report) {
    let found = report.findings.first().unwrap_or_else(|| panic!("nothing was found: {report}"));
    assert_eq!(found.oracle, oracle, "{report}");
}

#[track_caller]
fn passes(report: &Report) {
    assert!(report.is_clean(), "a false alarm: {report}");
}

/// Notes what it sees, or starts over from the first generation if what it sees is not the newest.
async fn notes(ensemble: Arc<Ensemble>, ctx: Ctx, starts_over: bool) -> Result<Action> {
    let live = ctx.fetch::<Ensemble>(&ensemble.name_any()).await?;
    let is_newest = live.is_some_and(|live| live.metadata.generation == ensemble.metadata.generation);
    let observed = if starts_over && !is_newest { Some(1) } else { ensemble.metadata.generation };
    ctx.status(&ensemble, json!({"observedGeneration": observed})).await?;
    Ok(Action::await_change())
}

async fn notes_what_it_sees(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    notes(ensemble, ctx, false).await
}

async fn starts_over(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    notes(ensemble, ctx, true).await
}

/// With an old view, an operator may note the generation that it sees, and none before that.
#[test]
fn a_generation_of_an_old_view_passes_and_an_older_one_is_found() {
    passes(&explored("notes", || Controller::new("notes", notes_what_it_sees)));
    finds(
        Oracle::ObservedGeneration,
        &explored("starts-over", || Controller::new("starts-over", starts_over)),
    );
}

/// Deletes the claim of a server that was taken away, if it has missed a step. No step says so.
async fn tidies(ensemble: Arc<Ensemble>, ctx: Ctx, is_wrong: bool) -> Result<Action> {
    ctx.apply(stateful_set(&ensemble)).await?;
    let noted = ensemble.status.as_ref().and_then(|status| status.observed_generation);
    let generation = ensemble.metadata.generation.unwrap_or_default();
    if is_wrong && noted.is_some_and(|noted| noted + 1 < generation) {
        let claim = json!({"metadata": {"name": "data-zoo-1", "namespace": ensemble.namespace()}});
        ctx.delete(&serde_json::from_value::<PersistentVolumeClaim>(claim)?).await?;
    }
    ctx.status(&ensemble, json!({"observedGeneration": generation})).await?;
    Ok(Action::await_change())
}

async fn tidies_wrongly(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    tidies(ensemble, ctx, true).await
}

async fn tidies_nothing(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    tidies(ensemble, ctx, false).await
}

fn tidied(name: &str, controller: fn() -> Controller<Ensemble>) -> Report {
    let played = move |cluster: Cluster| async move {
        prepare(&cluster).await?;
        cluster.run(controller);
        create(&cluster, 2).await?;
        change(&cluster, json!({"replicas": 1})).await?;
        change(&cluster, json!({"config": "two"})).await?;
        change(&cluster, json!({"config": "three"})).await
    };
    explore(name, played).run()
}

/// What built-in controllers make and leave depends on the steps that they see. What the operator deletes does not.
#[test]
fn a_claim_that_was_never_made_passes_and_one_that_the_operator_deletes_is_found() {
    passes(&tidied("tidies-nothing", || {
        Controller::new("tidies-nothing", tidies_nothing).owns::<StatefulSet>()
    }));
    let report = tidied("tidies", || Controller::new("tidies", tidies_wrongly).owns::<StatefulSet>());
    finds(Oracle::SameEnd, &report);
    assert!(report.findings[0].what.contains("persistentvolumeclaims/data-zoo-1 is missing"), "{report}");
}

async fn right(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(child(&ensemble)).await?;
    Ok(Action::await_change())
}

/// A view that shows an object of the scenario as living that is gone is left out only if the operator watches its kind.
#[test]
fn views_of_the_dead_are_left_out_only_of_what_an_operator_sees() {
    let played = |cluster: Cluster| async move {
        prepare(&cluster).await?;
        cluster.run(|| Controller::new("right", right).owns::<ConfigMap>());
        create(&cluster, 1).await?;
        let mut other = Secret::default();
        other.metadata.name = Some("other".into());
        cluster.apply(other).await?;
        change(&cluster, json!({"config": "two"})).await?;
        cluster.delete::<Secret>("other").await?;
        change(&cluster, json!({"config": "three"})).await
    };
    let unseen = explore("unseen", played).run();
    passes(&unseen);
    assert_eq!(unseen.dead, 0, "{unseen}");
    let seen = explore("seen", move |cluster: Cluster| async move {
        prepare(&cluster).await?;
        cluster.run(|| Controller::new("right", right).owns::<ConfigMap>());
        create(&cluster, 1).await?;
        delete(&cluster).await?;
        create(&cluster, 1).await
    });
    let seen = seen.run();
    passes(&seen);
    assert!(seen.dead > 0, "{seen}");
}

/// Makes its child anew whenever it sees none, and notes each look while it sees none.
async fn looks(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    // By the bare client, so that no reconcile waits until the cache shows this write.
    let maps = Api::<ConfigMap>::namespaced(ctx.client().clone(), "default");
    let params = PatchParams::apply("looks").force();
    let data = json!({"config": ensemble.spec.config});
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "zoo"}, "data": data});
    maps.patch("zoo", &params, &Patch::Apply(body)).await?;
    let config = ctx.get::<ConfigMap>("zoo")?.and_then(|map| map.data.as_ref()?.get("config").cloned());
    let is_shown = config.as_ref() == Some(&ensemble.spec.config);
    let looks = ensemble.status.as_ref().and_then(|status| status.replicas).unwrap_or_default();
    ctx.status(&ensemble, json!({"replicas": if is_shown { 0 } else { looks + 1 }})).await?;
    Ok(Action::await_change())
}

/// An operator that is behind may retry until it has caught up, but not in a loop without a pause. One that still sees what
/// is gone makes its children again as fast as the garbage collector removes them.
#[test]
fn a_loop_of_an_operator_that_is_behind_is_found_unless_it_sees_the_dead() {
    finds(Oracle::Rest, &explored("looks", || Controller::new("looks", looks).reads::<ConfigMap>()));
    let played = |cluster: Cluster| async move {
        prepare(&cluster).await?;
        cluster.run(|| Controller::new("right", right).owns::<ConfigMap>());
        create(&cluster, 1).await?;
        delete(&cluster).await?;
        cluster.settled().await;
        Ok::<_, kube::Error>(())
    };
    passes(&explore("right", played).budget(Budget::Full).run());
}

/// Notes when it has looked last, at most once in an hour.
async fn times(ensemble: Arc<Ensemble>, ctx: Ctx, is_wrong: bool) -> Result<Action> {
    ctx.apply(child(&ensemble)).await?;
    let noted = ensemble.annotations().get("looked").and_then(|at| at.parse::<Timestamp>().ok());
    let since = noted.map(|noted| ctx.now().duration_since(noted));
    if let Some(since) = since {
        // A clock that was set back makes this negative.
        let since = if is_wrong { Duration::try_from(since).unwrap() } else { since.unsigned_abs() };
        if since < Duration::from_secs(3600) {
            return Ok(Action::await_change());
        }
    }
    let patch = json!({"metadata": {"annotations": {"looked": ctx.now().to_string()}}});
    ctx.patch(&ensemble, &Patch::Merge(patch)).await?;
    Ok(Action::await_change())
}

async fn times_wrongly(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    times(ensemble, ctx, true).await
}

async fn times_rightly(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    times(ensemble, ctx, false).await
}

/// What an operator does after a clock has jumped may depend on the time; it must not panic.
#[test]
fn a_clock_that_jumps_is_survived_or_found() {
    let report = explored("times", || Controller::new("times", times_wrongly).owns::<ConfigMap>());
    finds(Oracle::Panic, &report);
    assert_eq!(report.findings[0].plan.class(), Class::Clock, "{report}");
    let report = explored("times-rightly", || Controller::new("times", times_rightly).owns::<ConfigMap>());
    passes(&report);
    assert!(report.played.get(&Class::Clock).is_some_and(|played| *played > 0), "{report}");
}
