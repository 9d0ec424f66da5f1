//! StatefulSets: pods with an identity, created and deleted in order.
//!
//! The adapter keeps the revision history, asks [`plan`] for the next steps, and does them one after the other.

pub(crate) mod identity;
pub(crate) mod plan;

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Error, Index, Request, Result, ResultExt};
use plan::{Observed, Revision, Step};

use crate::adoption::{self, claim};
use crate::controller_history::{self, Parent};
use crate::kinds::{
    CONTROLLER_REVISION, ControllerRevision, PERSISTENT_VOLUME_CLAIM, POD, Pod, STATEFUL_SET, StatefulSet,
};
use crate::object::{Object, OfKind, write_status};
use crate::{MANAGER, api_error, clock};

/// How many StatefulSets are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of StatefulSets.
pub(crate) fn controller() -> Controller<Object> {
    let claimants = adoption::selects(adoption::selector);
    Controller::new_with("statefulset-controller", STATEFUL_SET.source(), reconcile)
        .owns_with(POD.source().index(adoption::orphans()))
        .watches_indexed_with(POD.source(), claimants, |pod: &Pod| adoption::orphan_keys(&pod.metadata))
        .reads_with(CONTROLLER_REVISION.source().index(Index::by_owner()))
        .reads_with(PERSISTENT_VOLUME_CLAIM.source())
        .field_manager(MANAGER)
        .event_source("statefulset-controller")
        .max_concurrent(CONCURRENT)
}

async fn reconcile(set: Arc<StatefulSet>, ctx: Ctx) -> Result<Action> {
    let Some(selector) = adoption::selector(&set) else { return Ok(Action::await_change()) };
    let pods = claim(&ctx, (&STATEFUL_SET, &set), &POD, &selector).await?;
    let history = ctx.kind(&CONTROLLER_REVISION).children()?;
    let Some(newest) = controller_history::sync(&ctx, &Parent::new(&STATEFUL_SET, &set), &history).await?
    else {
        let mut status = set.at("status").clone();
        status.set("replicas", set.i32("status/replicas").unwrap_or(0));
        status.set("collisionCount", set.i32("status/collisionCount").unwrap_or(0).saturating_add(1));
        write_status(&ctx, &STATEFUL_SET, &set, &status).await?;
        return Ok(Action::requeue_with_backoff());
    };
    let update = Revision { name: newest.name().to_owned(), template: set.at("spec/template").clone() };
    let current = current(&set, &history).unwrap_or_else(|| update.clone());
    let observed = Observed { set: set.clone(), pods, current, update };
    let plan = plan::plan(&observed, clock::seconds(ctx.now()));
    let done = perform(&ctx, &set, plan.steps).await;
    write_status(&ctx, &STATEFUL_SET, &set, &plan.status).await.ignore_not_found()?;
    done?;
    keep_claim_owners(&ctx, &observed).await?;
    forget_history(&ctx, &observed, &history).await?;
    Ok(plan.look_again.map_or_else(Action::await_change, Action::requeue))
}

fn current(set: &StatefulSet, history: &[Arc<ControllerRevision>]) -> Option<Revision> {
    let name = set.str("status/currentRevision")?;
    let found = history.iter().find(|revision| revision.name() == name)?;
    Some(Revision { name: name.to_owned(), template: controller_history::restore(found)? })
}

async fn perform(ctx: &Ctx, set: &StatefulSet, steps: Vec<Step>) -> Result<()> {
    for step in steps {
        match step {
            Step::Claims(ordinal) => make_claims(ctx, set, ordinal).await?,
            Step::Create(pod) => create(ctx, set, *pod).await?,
            Step::Delete(pod) => delete(ctx, set, &pod).await?,
        }
    }
    Ok(())
}

async fn make_claims(ctx: &Ctx, set: &StatefulSet, ordinal: i32) -> Result<()> {
    let claims = ctx.kind(&PERSISTENT_VOLUME_CLAIM);
    for (_, claim) in identity::claims(set, ordinal) {
        let key = Request::of(&claim);
        if claims.get(&key)?.is_some() {
            continue;
        }
        let (sets, name, set_name) = (ctx.kind(&STATEFUL_SET), key.name, set.name());
        match claims.create_unowned(claim).await {
            Ok(_) => {
                let note =
                    format!("Create Claim {name} Pod {set_name}-{ordinal} in StatefulSet {set_name} success");
                sets.event(set, "SuccessfulCreate", note);
            }
            Err(error) if error.is_already_exists() => {}
            Err(error) if api_error::namespace_is_terminating(&error) => {}
            Err(error) => {
                let why = api_error::message(&error);
                let failed = |what: &str| format!("{what} in StatefulSet {set_name} failed error: {why}");
                let claim = failed(&format!("Create Claim {name} for Pod {set_name}-{ordinal}"));
                sets.warning(set, "FailedCreate", claim);
                let pod = format!(
                    "Create Pod {set_name}-{ordinal} in StatefulSet {set_name} failed error: failed to create PVC {name}: {why}"
                );
                sets.warning(set, "FailedCreate", pod);
                return Err(Error::from(error));
            }
        }
    }
    Ok(())
}

async fn delete(ctx: &Ctx, set: &StatefulSet, pod: &Pod) -> Result<()> {
    let (sets, name, set_name) = (ctx.kind(&STATEFUL_SET), pod.name(), set.name());
    match ctx.kind(&POD).delete(pod).await {
        Ok(_) => {
            let note = format!("Delete Pod {name} in StatefulSet {set_name} successful");
            sets.event(set, "SuccessfulDelete", note);
            Ok(())
        }
        Err(error) => {
            let why = api_error::message(&error);
            let note = format!("Delete Pod {name} in StatefulSet {set_name} failed error: {why}");
            sets.warning(set, "FailedDelete", note);
            Err(Error::from(error))
        }
    }
}

async fn create(ctx: &Ctx, set: &StatefulSet, pod: Pod) -> Result<()> {
    let sets = ctx.kind(&STATEFUL_SET);
    let (name, set_name) = (pod.name().to_owned(), set.name());
    match ctx.kind(&POD).create(pod).await {
        Ok(_) => {
            let note = format!("Create Pod {name} in StatefulSet {set_name} successful");
            sets.event(set, "SuccessfulCreate", note);
            Ok(())
        }
        Err(error) if api_error::namespace_is_terminating(&error) => Ok(()),
        Err(error) => {
            let message = api_error::message(&error);
            let note = format!("Create Pod {name} in StatefulSet {set_name} failed error: {message}");
            sets.warning(set, "FailedCreate", note);
            Err(Error::from(error))
        }
    }
}

/// Updates the owner references of the claims as the retention policy says.
async fn keep_claim_owners(ctx: &Ctx, observed: &Observed) -> Result<()> {
    let set = &observed.set;
    for pod in &observed.pods {
        let Some(ordinal) = identity::ordinal(set.name(), pod) else { continue };
        let scaled_away = !identity::Ordinals::of(set).contains(ordinal);
        for (_, claim) in identity::claims(set, ordinal) {
            let Some(claim) = ctx.kind(&PERSISTENT_VOLUME_CLAIM).get(&Request::of(&claim))? else { continue };
            if let Some(owners) = identity::claim_owners(set, pod, scaled_away, &claim.metadata) {
                adoption::set_owners(ctx, &PERSISTENT_VOLUME_CLAIM, &claim, &owners)
                    .await
                    .ignore_not_found()?;
            }
        }
    }
    Ok(())
}

async fn forget_history(ctx: &Ctx, observed: &Observed, history: &[Arc<ControllerRevision>]) -> Result<()> {
    let labels = observed.pods.iter().filter_map(|pod| pod.label(controller_history::POD_REVISION));
    let used = [observed.current.name.as_str(), &observed.update.name];
    let live = labels.chain(used).map(str::to_owned).collect();
    controller_history::clean_up(ctx, &observed.set, history, &live).await
}
