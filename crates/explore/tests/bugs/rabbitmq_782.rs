//! rabbitmq/cluster-operator 782: storage never grows if the operator crashes after it has deleted the StatefulSet.
//!
//! To let storage grow, the operator deletes the StatefulSet, lets the claims grow and makes the StatefulSet anew. It
//! learned from the StatefulSet's template that storage has to grow. After a crash in between there is no StatefulSet: a
//! new one is made from the new size, and the claims keep the old one.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, Preconditions, PropagationPolicy};
use serde_json::json;

use crate::ensemble::{Ensemble, change, create, prepare, stateful_set};

fn size_of(claim: &PersistentVolumeClaim) -> Option<String> {
    Some(claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")?.0.clone())
}

async fn grow(ensemble: &Ensemble, ctx: &Ctx) -> Result<()> {
    let wanted = format!("{}Gi", ensemble.spec.storage);
    for claim in ctx.list::<PersistentVolumeClaim>()? {
        if size_of(&claim).as_ref() != Some(&wanted) {
            let patch = json!({"spec": {"resources": {"requests": {"storage": wanted}}}});
            ctx.patch(&claim, &Patch::Merge(patch)).await?;
        }
    }
    Ok(())
}

/// Deletes the StatefulSet without its pods, if its template has another size.
async fn replace(ensemble: &Ensemble, ctx: &Ctx) -> Result<bool> {
    let Some(set) = ctx.get::<StatefulSet>(&ensemble.name_any())? else { return Ok(false) };
    let template = set.spec.as_ref().and_then(|spec| spec.volume_claim_templates.as_ref()?.first().cloned());
    let wanted = format!("{}Gi", ensemble.spec.storage);
    if template.as_ref().and_then(size_of).as_ref() == Some(&wanted) {
        return Ok(false);
    }
    // Only the StatefulSet that was seen: a view may be old.
    let preconditions = Some(Preconditions { uid: set.uid(), resource_version: None });
    let propagation_policy = Some(PropagationPolicy::Orphan);
    let orphan = DeleteParams { propagation_policy, preconditions, ..DeleteParams::default() };
    ctx.delete_with(&set, &orphan).await?;
    Ok(true)
}

async fn buggy(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    if replace(&ensemble, &ctx).await? {
        grow(&ensemble, &ctx).await?;
    }
    ctx.apply(stateful_set(&ensemble)).await?;
    Ok(Action::await_change())
}

/// The claims grow whenever they are too small, whatever the StatefulSet says.
async fn fixed(ensemble: Arc<Ensemble>, ctx: Ctx) -> Result<Action> {
    grow(&ensemble, &ctx).await?;
    replace(&ensemble, &ctx).await?;
    ctx.apply(stateful_set(&ensemble)).await?;
    Ok(Action::await_change())
}

async fn life(cluster: Cluster, is_fixed: bool) -> kube::Result<()> {
    prepare(&cluster).await?;
    cluster.run(move || {
        let controller = match is_fixed {
            true => Controller::new("rabbit", fixed),
            false => Controller::new("rabbit", buggy),
        };
        controller.owns::<StatefulSet>().reads::<PersistentVolumeClaim>()
    });
    create(&cluster, 1).await?;
    change(&cluster, json!({"storage": 2})).await
}

#[test]
fn rabbitmq_782_is_found() {
    crate::finds("rabbitmq_782", &[Oracle::SameEnd], |cluster| life(cluster, false));
}

#[test]
fn rabbitmq_782_fixed_passes() {
    crate::passes("rabbitmq_782_fixed", |cluster| life(cluster, true));
}
