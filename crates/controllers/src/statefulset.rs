//! StatefulSets: pods with an identity, created and deleted in order.
//!
//! The adapter keeps the revision history, asks [`plan`] for the next steps, and does them one after the other.

pub(crate) mod identity;
pub(crate) mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Error, Index, Request, Result, ResultExt, Source};
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use plan::{Observed, Revision, Step};

use crate::adoption::{self, claim};
use crate::controller_history::{self, Parent};
use crate::controller_ref::controller_reference;
use crate::openapi_compat::HasSpec as _;
use crate::{MANAGER, api_error, clock};

/// How many StatefulSets are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of StatefulSets.
pub(crate) fn controller() -> Controller<StatefulSet> {
    let selector = |set: &StatefulSet| set.spec().map(|spec| spec.selector.clone());
    Controller::new("statefulset-controller", reconcile)
        .owns_with(Source::<Pod>::new().index(adoption::orphans()))
        .watches_indexed(adoption::selects(selector), |pod: &Pod| adoption::orphan_keys(&pod.metadata))
        .reads_with(Source::<ControllerRevision>::new().index(Index::by_owner()))
        .reads::<PersistentVolumeClaim>()
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
}

async fn reconcile(set: Arc<StatefulSet>, ctx: Ctx) -> Result<Action> {
    let Some(spec) = set.spec() else { return Ok(Action::await_change()) };
    let pods = claim(&ctx, &*set, &spec.selector).await?;
    let history = ctx.children::<ControllerRevision>()?;
    let collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let Some(update) = newest(&ctx, &set, &history, collisions).await? else {
        let mut status = set.status.clone().unwrap_or_default();
        status.collision_count = Some(collisions.saturating_add(1));
        ctx.status(&set, status).await?;
        return Ok(Action::requeue_with_backoff());
    };
    let current = current(&set, &history).unwrap_or_else(|| update.clone());
    let observed = Observed { set: set.clone(), pods, current, update, collisions };
    let plan = plan::plan(&observed, clock::seconds(ctx.now()));
    let done = perform(&ctx, &set, plan.steps).await;
    ctx.status(&set, &plan.status).await.ignore_not_found()?;
    done?;
    keep_claim_owners(&ctx, &observed).await?;
    forget_history(&ctx, &observed, &history).await?;
    Ok(plan.look_again.map_or_else(Action::await_change, Action::requeue))
}

/// Returns the revision of the present template, which is created if necessary. `None` after a collision of names.
async fn newest(
    ctx: &Ctx,
    set: &StatefulSet,
    history: &[Arc<ControllerRevision>],
    collisions: i32,
) -> Result<Option<Revision>> {
    let spec = set.spec().cloned().unwrap_or_default();
    let parent = Parent {
        owner: controller_reference(set),
        namespace: set.metadata.namespace.clone(),
        annotations: set.metadata.annotations.clone().unwrap_or_default(),
        template: &spec.template,
        collisions: Some(collisions),
    };
    let revision = controller_history::sync(ctx, &parent, history).await?;
    let name = |revision: &ControllerRevision| revision.metadata.name.clone().unwrap_or_default();
    Ok(revision.map(|it| Revision { name: name(&it), template: spec.template.clone() }))
}

fn current(set: &StatefulSet, history: &[Arc<ControllerRevision>]) -> Option<Revision> {
    let name = set.status.as_ref()?.current_revision.as_ref()?;
    let found = history.iter().find(|revision| revision.metadata.name.as_ref() == Some(name))?;
    Some(Revision { name: name.clone(), template: controller_history::restore(found)? })
}

async fn perform(ctx: &Ctx, set: &StatefulSet, steps: Vec<Step>) -> Result<()> {
    for step in steps {
        match step {
            Step::Claims(ordinal) => make_claims(ctx, set, ordinal).await?,
            Step::Create(pod) => create(ctx, set, *pod).await?,
            Step::Delete(pod) => {
                ctx.delete(&pod).await?;
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                let set_name = set.metadata.name.as_deref().unwrap_or_default();
                let note = format!("delete Pod {name} in StatefulSet {set_name} successful");
                ctx.event(set, "SuccessfulDelete", note);
            }
        }
    }
    Ok(())
}

async fn make_claims(ctx: &Ctx, set: &StatefulSet, ordinal: i32) -> Result<()> {
    for (_, claim) in identity::claims(set, ordinal) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        if ctx.get::<PersistentVolumeClaim>(&name)?.is_some() {
            continue;
        }
        if ctx.create_unowned(claim).await.ignore_already_exists()?.is_some() {
            let set_name = set.metadata.name.as_deref().unwrap_or_default();
            let note =
                format!("create Claim {name} Pod {set_name}-{ordinal} in StatefulSet {set_name} success");
            ctx.event(set, "SuccessfulCreate", note);
        }
    }
    Ok(())
}

async fn create(ctx: &Ctx, set: &StatefulSet, pod: Pod) -> Result<()> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    match ctx.create(pod).await {
        Ok(_) => {
            let note = format!("create Pod {name} in StatefulSet {set_name} successful");
            ctx.event(set, "SuccessfulCreate", note);
            Ok(())
        }
        Err(error) if api_error::namespace_is_terminating(&error) => Ok(()),
        Err(error) => {
            let message = api_error::message(&error);
            let note = format!("create Pod {name} in StatefulSet {set_name} failed error: {message}");
            ctx.warning(set, "FailedCreate", note);
            Err(Error::from(error))
        }
    }
}

/// Updates the owner references of the claims as the retention policy says.
async fn keep_claim_owners(ctx: &Ctx, observed: &Observed) -> Result<()> {
    let set = &observed.set;
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    for pod in &observed.pods {
        let Some(ordinal) = identity::ordinal(set_name, pod) else { continue };
        let scaled_away = !identity::Ordinals::of(set).contains(ordinal);
        for (_, claim) in identity::claims(set, ordinal) {
            let key = Request::of(&claim);
            let Some(claim) = ctx.get_at::<PersistentVolumeClaim>(&key)? else { continue };
            if let Some(owners) = identity::claim_owners(set, pod, scaled_away, &claim.metadata) {
                adoption::set_owners(ctx, &*claim, &owners).await.ignore_not_found()?;
            }
        }
    }
    Ok(())
}

async fn forget_history(ctx: &Ctx, observed: &Observed, history: &[Arc<ControllerRevision>]) -> Result<()> {
    let labels = observed
        .pods
        .iter()
        .filter_map(|pod| pod.metadata.labels.as_ref()?.get(controller_history::POD_REVISION).cloned());
    let live: BTreeSet<_> =
        labels.chain([observed.current.name.clone(), observed.update.name.clone()]).collect();
    let limit = observed.set.spec().and_then(|spec| spec.revision_history_limit);
    for revision in controller_history::surplus(history, &live, limit) {
        ctx.delete(&revision).await?;
    }
    Ok(())
}
