//! Several controllers in one operator, and several resources that share an object.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, Trigger};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::Patch;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, ensemble, prepare};

fn map(name: &str, data: BTreeMap<String, String>) -> ConfigMap {
    let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map
}

/// The first controller: from an ensemble to its plan.
async fn plans(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let data = BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]);
    ctx.apply(map("plan", data)).await?;
    Ok(Action::await_change())
}

const GUARD: &str = "example.com/secret";

/// The second controller: from a plan to a Secret without an owner, guarded by a finalizer. The buggy form forgets its
/// finalizer if the Secret is there already.
async fn keys(plan: Arc<ConfigMap>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    if plan.name_any() != "plan" {
        return Ok(Action::await_change());
    }
    let mut secret = Secret::default();
    secret.metadata.name = Some("plan-key".into());
    secret.metadata.namespace = plan.namespace();
    secret.string_data = plan.data.clone();
    let held = plan.finalizers().iter().any(|it| it == GUARD);
    if plan.metadata.deletion_timestamp.is_some() {
        if held {
            ctx.delete(&secret).await?;
            ctx.patch(&*plan, &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
        }
        return Ok(Action::await_change());
    }
    let exists = ctx.get::<Secret>("plan-key")?.is_some();
    if is_fixed && !held {
        ctx.patch(&*plan, &Patch::Merge(json!({"metadata": {"finalizers": [GUARD]}}))).await?;
    }
    ctx.apply_unowned(secret).await?;
    if !is_fixed && !held && !exists {
        ctx.patch(&*plan, &Patch::Merge(json!({"metadata": {"finalizers": [GUARD]}}))).await?;
    }
    Ok(Action::await_change())
}

async fn forgets_its_guard(plan: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    keys(plan, ctx, false).await
}

async fn guards_first(plan: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    keys(plan, ctx, true).await
}

async fn planned(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run_manager("plans", move |manager| {
        let second = match is_fixed {
            true => Controller::new("keys", guards_first),
            false => Controller::new("keys", forgets_its_guard),
        };
        let of_keys = Trigger::map(|secret: &Secret| {
            let namespace = secret.namespace().unwrap_or_default();
            (secret.name_any() == "plan-key").then(|| Request::namespaced(namespace, "plan"))
        });
        manager
            .controller(Controller::new("plans", plans).owns::<ConfigMap>())
            .controller(second.watches(of_keys))
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

#[test]
fn a_second_controller_that_forgets_its_guard_is_found() {
    crate::finds("forgets_its_guard", &[Oracle::SameEnd, Oracle::Left], |cluster| planned(cluster, false));
}

/// Adds its entry to an object that all ensembles share, and replaces the object by what it has seen.
async fn replaces(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let seen = ctx.get::<ConfigMap>("members")?;
    let mut data = seen.as_ref().and_then(|map| map.data.clone()).unwrap_or_default();
    let entry = (ensemble.name_any(), ensemble.spec.config.clone());
    if data.get(&entry.0) != Some(&entry.1) {
        data.insert(entry.0, entry.1);
        ctx.apply_unowned(map("members", data)).await?;
    }
    Ok(Action::await_change())
}

/// Adds its entry only.
async fn adds(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    let mut members = map("members", BTreeMap::new());
    members.metadata.namespace = ensemble.namespace();
    if ctx.get::<ConfigMap>("members")?.is_none() {
        match ctx.create_unowned(members.clone()).await {
            Err(error) if !error.is_already_exists() => return Err(error.into()),
            _ => {}
        }
    }
    let patch = json!({"data": {ensemble.name_any(): ensemble.spec.config}});
    let current = ctx
        .get::<ConfigMap>("members")?
        .and_then(|map| map.data.as_ref()?.get(&ensemble.name_any()).cloned());
    if current.as_ref() != Some(&ensemble.spec.config) {
        ctx.patch(&members, &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

async fn shared(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    let mut second = ensemble(1);
    second.metadata.name = Some("farm".into());
    cluster.apply(second).await?;
    cluster.patch::<Ensemble>("zoo", json!({"spec": {"config": "two"}})).await?;
    cluster.settled().await;
    change(&cluster, json!({"config": "three"})).await
}

#[test]
fn a_shared_object_that_is_replaced_is_found() {
    crate::finds("replaces", &[Oracle::SameEnd, Oracle::Idempotent, Oracle::Rest], |cluster| {
        shared(cluster, || Controller::new("members", replaces).reads::<ConfigMap>())
    });
}

#[test]
fn a_shared_object_with_entries_passes() {
    crate::passes_shortly("adds", |cluster| {
        shared(cluster, || Controller::new("members", adds).reads::<ConfigMap>())
    });
}

/// Counts the changes that it sees, in the status.
async fn counts(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(map("config", BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]))).await?;
    let status = ensemble.status.clone().unwrap_or_default();
    if status.phase.as_ref() != Some(&ensemble.spec.config) {
        let changes = status.replicas.unwrap_or_default() + 1;
        ctx.status(&ensemble, json!({"replicas": changes, "phase": ensemble.spec.config})).await?;
    }
    Ok(Action::await_change())
}

/// Counts what is there.
async fn counts_children(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.apply(map("config", BTreeMap::from([("config".to_owned(), ensemble.spec.config.clone())]))).await?;
    let many = ctx.children::<ConfigMap>()?.len();
    ctx.status(&ensemble, json!({"replicas": many, "phase": ensemble.spec.config})).await?;
    Ok(Action::await_change())
}

async fn counted(cluster: Cluster, controller: fn() -> Controller<Ensemble>) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(controller);
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    change(&cluster, json!({"config": "three"})).await?;
    delete(&cluster).await
}

#[test]
fn a_count_of_changes_is_found() {
    crate::finds("counts", &[Oracle::SameEnd], |cluster| {
        counted(cluster, || Controller::new("counts", counts).owns::<ConfigMap>())
    });
}

#[test]
fn a_count_of_children_passes() {
    crate::passes_shortly("counts_children", |cluster| {
        counted(cluster, || Controller::new("counts", counts_children).owns::<ConfigMap>())
    });
}
