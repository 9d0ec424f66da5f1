//! Claims that are deleted because of an old list of pods, and storage that does not grow if a step is missed.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, Trigger};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt as _;
use kube::api::Patch;
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, prepare, stateful_set};

/// The pod that a claim belongs to: `zoo-1` for `data-zoo-1`.
fn pod_of(claim: &PersistentVolumeClaim) -> String {
    claim.name_any().trim_start_matches("data-").to_owned()
}

/// Deletes the claims of pods that are not there, once all servers are ready.
async fn tidy(ensemble: Arc<Ensemble>, ctx: Ctx, is_fixed: bool) -> Result<Action> {
    let set = ctx.apply(stateful_set(&ensemble)).await?;
    let ready = set.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    if ready != ensemble.spec.replicas {
        return Ok(Action::await_change());
    }
    for claim in ctx.list::<PersistentVolumeClaim>()? {
        let pod = pod_of(&claim);
        let is_orphan = ctx.get::<Pod>(&pod)?.is_none()
            && (!is_fixed
                || (!is_wanted(&ctx, &ensemble, &pod).await? && ctx.fetch::<Pod>(&pod).await?.is_none()));
        if is_orphan && claim.metadata.deletion_timestamp.is_none() {
            ctx.delete(&claim).await?;
        }
    }
    Ok(Action::await_change())
}

/// Whether the newest spec wants this pod.
async fn is_wanted(ctx: &Ctx, ensemble: &Ensemble, pod: &str) -> Result<bool> {
    let live = ctx.fetch::<Ensemble>(&ensemble.name_any()).await?;
    let replicas = live.map_or(i32::MAX, |live| live.spec.replicas);
    let ordinal = pod.rsplit('-').next().and_then(|ordinal| ordinal.parse::<i32>().ok());
    Ok(ordinal.is_none_or(|ordinal| ordinal < replicas))
}

async fn tidy_by_cache(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    tidy(ensemble, ctx, false).await
}

async fn tidy_by_server(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    tidy(ensemble, ctx, true).await
}

fn tidying(is_fixed: bool) -> Controller<Ensemble> {
    let controller = match is_fixed {
        true => Controller::new("tidy", tidy_by_server),
        false => Controller::new("tidy", tidy_by_cache),
    };
    controller.owns::<StatefulSet>().reads::<PersistentVolumeClaim>().reads::<Pod>()
}

async fn scaled(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || tidying(is_fixed));
    create(&cluster, 1).await?;
    change(&cluster, json!({"replicas": 2})).await?;
    change(&cluster, json!({"config": "two"})).await
}

#[test]
fn claims_deleted_by_an_old_list_of_pods_are_found() {
    crate::finds("claims_by_cache", &[Oracle::Kept, Oracle::SameEnd], |cluster| scaled(cluster, false));
}

#[test]
fn claims_deleted_by_what_the_server_says_pass() {
    crate::passes("claims_by_server", |cluster| scaled(cluster, true));
}

/// Lets claims grow when it sees that the spec has another size than the status, and notes the size. The size that it
/// compares with is that of the last step it has seen grow.
async fn grow_by_one(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.get_or_create(small(&ensemble)).await?;
    let noted = ensemble.status.as_ref().and_then(|status| status.replicas).unwrap_or(ensemble.spec.storage);
    // More than one step is refused as a mistake of the user.
    if ensemble.spec.storage - noted == 1 {
        grow(&ensemble, &ctx).await?;
    }
    ctx.status(&ensemble, json!({"replicas": ensemble.spec.storage})).await?;
    Ok(Action::await_change())
}

async fn grow_to_spec(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    ctx.get_or_create(small(&ensemble)).await?;
    grow(&ensemble, &ctx).await?;
    ctx.status(&ensemble, json!({"replicas": ensemble.spec.storage})).await?;
    Ok(Action::await_change())
}

/// A StatefulSet whose template asks for 1 Gi. The template of claims cannot change; the claims themselves grow.
fn small(ensemble: &Ensemble) -> StatefulSet {
    let mut first = ensemble.clone();
    first.spec.storage = 1;
    stateful_set(&first)
}

async fn grow(ensemble: &Ensemble, ctx: &Ctx) -> Result<()> {
    let wanted = format!("{}Gi", ensemble.spec.storage);
    for claim in ctx.list::<PersistentVolumeClaim>()? {
        let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
        if requests.and_then(|requests| requests.get("storage")).is_some_and(|size| size.0 != wanted) {
            let patch = json!({"spec": {"resources": {"requests": {"storage": wanted}}}});
            ctx.patch(&claim, &Patch::Merge(patch)).await?;
        }
    }
    Ok(())
}

async fn growing(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || {
        let controller = match is_fixed {
            true => Controller::new("grow", grow_to_spec),
            false => Controller::new("grow", grow_by_one),
        };
        let by_label = Trigger::map(|claim: &PersistentVolumeClaim| {
            let namespace = claim.namespace().unwrap_or_default();
            claim.labels().get("app").map(|name| Request::namespaced(namespace, name.as_str()))
        });
        controller.owns::<StatefulSet>().watches(by_label)
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"storage": 2})).await?;
    change(&cluster, json!({"storage": 3})).await
}

#[test]
fn storage_that_does_not_grow_over_a_missed_step_is_found() {
    crate::finds("grow_by_one", &[Oracle::SameEnd], |cluster| growing(cluster, false));
}

#[test]
fn storage_that_grows_to_the_spec_passes() {
    crate::passes("grow_to_spec", |cluster| growing(cluster, true));
}
