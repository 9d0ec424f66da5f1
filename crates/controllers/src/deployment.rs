//! Deployments: rollouts of ReplicaSets.
//!
//! The adapter reads the ReplicaSets that the Deployment controls, asks [`rollout`] for the next step, and writes it:
//! ReplicaSets first, then the revision, then the status, so that the next reconcile completes one that crashed.

mod conditions;
mod revision;
pub(crate) mod rollout;
mod scaling;
mod status;

use std::sync::Arc;

use evenkeel_runtime::{Action, ContextError, Controller, Ctx, Error, Request, Result, ResultExt};
use evenkeel_tree::Tree;
use kube::core::params::Patch;
use rollout::{Observed, Plan};
use serde_json::json;

use crate::adoption::{self, claim};
use crate::clock::{self, Reminders};
use crate::controller_ref::is_controlled_by;
use crate::kinds::{DEPLOYMENT, Deployment, REPLICA_SET, ReplicaSet};
use crate::object::{Object, OfKind, write_status};
use crate::{MANAGER, api_error};

/// How many Deployments are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of Deployments.
pub(crate) fn controller() -> Controller<Object> {
    let claimants = adoption::selects(adoption::selector);
    let (reminders, due) = Reminders::channel();
    Controller::new_with("deployment-controller", DEPLOYMENT.source(), reconcile)
        .owns_with(REPLICA_SET.source().index(adoption::orphans()))
        .watches_indexed_with(REPLICA_SET.source(), claimants, |set: &ReplicaSet| {
            adoption::orphan_keys(&set.metadata)
        })
        .stream("progress deadline", due)
        .field_manager(MANAGER)
        .event_source("deployment-controller")
        .max_concurrent(CONCURRENT)
        .state(reminders)
}

async fn reconcile(deployment: Arc<Deployment>, ctx: Ctx<Reminders>) -> Result<Action> {
    let Some(selector) = adoption::selector(&deployment) else { return Ok(Action::await_change()) };
    let sets = claim(&ctx, (&DEPLOYMENT, &deployment), &REPLICA_SET, &selector).await?;
    let observed = Observed { deployment: deployment.clone(), sets };
    let mut plan = rollout::plan(&observed, clock::seconds(ctx.now()));
    let done = write_sets(&ctx, &deployment, &mut plan).await;
    if let Some(revision) = plan.revision.as_ref().filter(|_| done.is_ok()) {
        note_revision(&ctx, &deployment, revision).await?;
    }
    write_status(&ctx, &DEPLOYMENT, &deployment, &plan.status).await.ignore_not_found()?;
    // The deadline is upkeep: `settled()` does not wait for a rollout to get stuck.
    ctx.state().set(ctx.request(), plan.look_again);
    done.map(|()| Action::await_change())
}

async fn write_sets(ctx: &Ctx<Reminders>, deployment: &Deployment, plan: &mut Plan) -> Result<()> {
    // Old ReplicaSets are deleted first, so that no client sees more of them than the history limit allows.
    for set in &plan.delete {
        ctx.kind(&REPLICA_SET).delete(set).await?;
    }
    if let Some(set) = plan.create.take() {
        create(ctx, deployment, set, &mut plan.status).await?;
    }
    for (before, after) in &plan.update {
        update(ctx, deployment, before, after).await?;
    }
    Ok(())
}

async fn create(
    ctx: &Ctx<Reminders>,
    deployment: &Deployment,
    set: ReplicaSet,
    status: &mut Tree,
) -> Result<()> {
    let deployments = ctx.kind(&DEPLOYMENT);
    let name = set.name().to_owned();
    let size = replicas(&set);
    match ctx.kind(&REPLICA_SET).create(set).await {
        Ok(_) => {
            if size > 0 {
                let note = format!("Scaled up replica set {name} from 0 to {size}");
                deployments.event(deployment, "ScalingReplicaSet", note);
            }
            Ok(())
        }
        Err(error) if error.is_already_exists() => taken(ctx, deployment, &name, status, error).await,
        Err(error) if api_error::namespace_is_terminating(&error) => Ok(()),
        Err(error) => {
            let message =
                format!("Failed to create new replica set \"{name}\": {}", api_error::message(&error));
            if conditions::has_deadline(deployment) {
                let (now, reason) = (clock::seconds(ctx.now()), "ReplicaSetCreateError");
                conditions::set(
                    status,
                    conditions::condition(conditions::PROGRESSING, "False", reason, &message, now),
                );
            }
            deployments.warning(deployment, "ReplicaSetCreateError", message);
            Err(error.into())
        }
    }
}

/// Handles a name that is taken: by the Deployment's own ReplicaSet, which the cache will show, or by another object. Then
/// the collision count rises, which changes the next hash.
async fn taken(
    ctx: &Ctx<Reminders>,
    deployment: &Deployment,
    name: &str,
    status: &mut Tree,
    error: ContextError,
) -> Result<()> {
    let sets = ctx.kind(&REPLICA_SET);
    let found = sets.fetch(&sets.key(name)).await?;
    let ours = |set: &ReplicaSet| {
        is_controlled_by(&set.metadata, deployment.metadata.uid.as_deref())
            && revision::is_new(deployment, set)
    };
    if !found.as_ref().is_some_and(ours) {
        *status = deployment.at("status").clone();
        status.set("collisionCount", status.i32("collisionCount").unwrap_or(0).saturating_add(1));
    }
    Err(Error::from(error))
}

async fn update(
    ctx: &Ctx<Reminders>,
    deployment: &Deployment,
    before: &ReplicaSet,
    after: &ReplicaSet,
) -> Result<()> {
    let patch = json!({
        "metadata": {"resourceVersion": before.metadata.resource_version, "annotations": after.metadata.annotations},
        "spec": {"replicas": replicas(after), "minReadySeconds": after.i32("spec/minReadySeconds").unwrap_or(0)},
    });
    ctx.kind(&REPLICA_SET).patch(&Request::of(before), &Patch::Merge(patch)).await?;
    let (from, to) = (replicas(before), replicas(after));
    if from != to {
        let direction = if to > from { "up" } else { "down" };
        let note = format!("Scaled {direction} replica set {} from {from} to {to}", before.name());
        ctx.kind(&DEPLOYMENT).event(deployment, "ScalingReplicaSet", note);
    }
    Ok(())
}

async fn note_revision(ctx: &Ctx<Reminders>, deployment: &Deployment, number: &str) -> Result<()> {
    if deployment.annotation(revision::REVISION) != Some(number) {
        // Patched through `/status`: a change of annotations through the main resource would raise the generation.
        let patch = Patch::Merge(json!({"metadata": {"annotations": {revision::REVISION: number}}}));
        let deployments = ctx.kind(&DEPLOYMENT);
        deployments.patch_subresource("status", &Request::of(deployment), &patch).await.ignore_not_found()?;
    }
    Ok(())
}

fn replicas(set: &ReplicaSet) -> i32 {
    set.i32("spec/replicas").unwrap_or(0)
}
