//! Fields that several clients write.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PostParams};
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, delete, prepare};
use crate::map;

const ONE: &str = "example.com/one";
const TWO: &str = "example.com/two";

/// Makes a note without an owner, guarded by its own finalizer. Others have finalizers, too.
async fn guards(ensemble: Arc<Ensemble>, ctx: Ctx, finalizer: &str, is_right: bool) -> Result<Action> {
    let mut note = map(&format!("note-{}", finalizer.rsplit('/').next().unwrap_or_default()), "");
    note.metadata.namespace = ensemble.namespace();
    let mut finalizers = ensemble.finalizers().to_vec();
    let held = finalizers.iter().any(|it| it == finalizer);
    let patch = |finalizers: &[String]| {
        let mut metadata = json!({"finalizers": finalizers});
        if is_right {
            metadata["resourceVersion"] = ensemble.metadata.resource_version.clone().into();
        }
        Patch::Merge(json!({ "metadata": metadata }))
    };
    if ensemble.metadata.deletion_timestamp.is_some() {
        if held {
            ctx.delete(&note).await?;
            finalizers.retain(|it| it != finalizer);
            ctx.patch(&*ensemble, &patch(&finalizers)).await?;
        }
        return Ok(Action::await_change());
    }
    if !held {
        finalizers.push(finalizer.to_owned());
        ctx.patch(&*ensemble, &patch(&finalizers)).await?;
    }
    ctx.apply_unowned(note).await?;
    Ok(Action::await_change())
}

async fn guards_one(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    guards(ensemble, ctx, ONE, true).await
}

async fn guards_two(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    guards(ensemble, ctx, TWO, true).await
}

async fn replaces_one(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    guards(ensemble, ctx, ONE, false).await
}

async fn replaces_two(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    guards(ensemble, ctx, TWO, false).await
}

async fn life(cluster: Cluster, is_right: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    match is_right {
        true => {
            cluster.run(|| Controller::new("one", guards_one));
            cluster.run(|| Controller::new("two", guards_two));
        }
        false => {
            cluster.run(|| Controller::new("one", replaces_one));
            cluster.run(|| Controller::new("two", replaces_two));
        }
    }
    create(&cluster, 1).await?;
    change(&cluster, json!({"config": "two"})).await?;
    delete(&cluster).await
}

#[test]
fn two_finalizers_with_a_version_pass() {
    crate::passes("finalizers", |cluster| life(cluster, true));
}

#[test]
fn finalizers_that_replace_each_other_are_found() {
    crate::finds("finalizers_replaced", &[Oracle::SameEnd, Oracle::Left, Oracle::Rest], |cluster| {
        life(cluster, false)
    });
}

/// Notes in an object of somebody else that it has seen it, by replacing the whole.
async fn notes(seen: Arc<ConfigMap>, ctx: Ctx, is_right: bool) -> Result<Action> {
    let wanted = seen.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
    if !seen.name_any().starts_with("user") || seen.annotations().get("seen") == Some(&wanted) {
        return Ok(Action::await_change());
    }
    let mut noted = (*seen).clone();
    noted.annotations_mut().insert("seen".into(), wanted);
    if !is_right {
        noted.metadata.resource_version = None;
    }
    let maps = Api::<ConfigMap>::namespaced(ctx.client().clone(), "default");
    maps.replace(&seen.name_any(), &PostParams::default(), &noted).await?;
    Ok(Action::await_change())
}

async fn notes_by_version(seen: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    notes(seen, ctx, true).await
}

async fn notes_by_force(seen: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    notes(seen, ctx, false).await
}

async fn noted(cluster: Cluster, controller: fn() -> Controller<ConfigMap>) -> kube::Result<()> {
    cluster.run(controller);
    for value in ["one", "two", "three"] {
        cluster.apply(map("user", value)).await?;
        cluster.settled().await;
    }
    Ok(())
}

#[test]
fn an_object_that_is_replaced_by_its_version_passes() {
    crate::passes("replaced", |cluster| noted(cluster, || Controller::new("notes", notes_by_version)));
}

#[test]
fn an_object_that_is_replaced_by_force_is_found() {
    crate::finds("replaced_by_force", &[Oracle::SameEnd], |cluster| {
        noted(cluster, || Controller::new("notes", notes_by_force))
    });
}
