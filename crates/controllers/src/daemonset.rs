//! DaemonSets: one pod on each node.
//!
//! Not implemented: `maxSurge`.

mod placement;
pub(crate) mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Index, Result, ResultExt};
use plan::Observed;

use crate::adoption::{self, claim};
use crate::controller_history::{self, Parent};
use crate::controller_ref::controller_reference;
use crate::kinds::{CONTROLLER_REVISION, ControllerRevision, DAEMON_SET, DaemonSet, NODE, Node, POD, Pod};
use crate::object::{Object, OfKind, write_status};
use crate::{MANAGER, api_error, clock, pod_template};

/// The annotation of a DaemonSet with the generation of its template.
const GENERATION: &str = "deprecated.daemonset.template.generation";
/// The label of a pod with the generation of its template.
const POD_GENERATION: &str = "pod-template-generation";

/// The name of the index of all DaemonSets, and its only value: a node concerns every DaemonSet.
const ALL: &str = "all";

/// The controller of DaemonSets.
pub(crate) fn controller() -> Controller<Object> {
    let claimants = adoption::selects(adoption::selector);
    let all = Index::new(ALL, |_: &DaemonSet| vec![ALL.to_owned()]);
    Controller::new_with("daemonset-controller", DAEMON_SET.source(), reconcile)
        .owns_with(POD.source().index(adoption::orphans()))
        .watches_indexed_with(POD.source(), claimants, |pod: &Pod| adoption::orphan_keys(&pod.metadata))
        .watches_indexed_with(NODE.source(), all, |_: &Node| vec![ALL.to_owned()])
        .reads_with(CONTROLLER_REVISION.source().index(Index::by_owner()))
        .field_manager(MANAGER)
        .max_concurrent(2)
}

async fn reconcile(set: Arc<DaemonSet>, ctx: Ctx) -> Result<Action> {
    let Some(selector) = adoption::selector(&set) else { return Ok(Action::await_change()) };
    let sets = ctx.kind(&DAEMON_SET);
    let pods = claim(&ctx, (&DAEMON_SET, &set), &POD, &selector).await?;
    let history = ctx.kind(&CONTROLLER_REVISION).children()?;
    let Some(newest) = controller_history::sync(&ctx, &Parent::new(&DAEMON_SET, &set), &history).await?
    else {
        let mut status = set.at("status").clone();
        for required in plan::REQUIRED {
            status.set(required, status.i32(required).unwrap_or(0));
        }
        status.set("collisionCount", set.i32("status/collisionCount").unwrap_or(0).saturating_add(1));
        write_status(&ctx, &DAEMON_SET, &set, &status).await?;
        return Ok(Action::requeue_with_backoff());
    };
    let hash = newest.label(controller_history::HASH).unwrap_or_default().to_owned();
    let observed = Observed { set: set.clone(), nodes: ctx.kind(&NODE).cache()?.list(), pods, hash };
    let plan = plan::plan(&observed, clock::seconds(ctx.now()));
    for node in &plan.create {
        if !create(&ctx, &observed, node).await? {
            break;
        }
    }
    for pod in &plan.delete {
        ctx.kind(&POD).delete(pod).await?;
        sets.event(&set, "SuccessfulDelete", format!("Deleted pod: {}", pod.name()));
    }
    write_status(&ctx, &DAEMON_SET, &set, &plan.status).await.ignore_not_found()?;
    forget_history(&ctx, &observed, &history).await?;
    Ok(plan.look_again.map_or_else(Action::await_change, Action::requeue))
}

/// Creates the pod of one node. Returns whether to go on with the next.
async fn create(ctx: &Ctx, observed: &Observed, node: &str) -> Result<bool> {
    let set = &observed.set;
    let owner = controller_reference(&DAEMON_SET, set);
    let mut pod = pod_template::pod(set.at("spec/template"), set.in_namespace(), owner);
    let mut spec = placement::pod_spec(set);
    placement::assign(&mut spec, node);
    pod.set("spec", spec);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(controller_history::POD_REVISION.to_owned(), observed.hash.clone());
    if let Some(generation) = set.annotation(GENERATION) {
        labels.insert(POD_GENERATION.to_owned(), generation.to_owned());
    }
    let sets = ctx.kind(&DAEMON_SET);
    match ctx.kind(&POD).create(pod).await {
        Ok(pod) => {
            sets.event(set, "SuccessfulCreate", format!("Created pod: {}", pod.name()));
            Ok(true)
        }
        Err(error) if api_error::namespace_is_terminating(&error) => Ok(false),
        Err(error) => {
            sets.warning(set, "FailedCreate", format!("Error creating: {}", api_error::message(&error)));
            Err(error.into())
        }
    }
}

async fn forget_history(ctx: &Ctx, observed: &Observed, history: &[Arc<ControllerRevision>]) -> Result<()> {
    let used = observed.pods.iter().filter_map(|pod| pod.label(controller_history::POD_REVISION));
    let used: BTreeSet<_> = used.chain([observed.hash.as_str()]).collect();
    let is_live = |revision: &&Arc<ControllerRevision>| {
        revision.label(controller_history::HASH).is_some_and(|hash| used.contains(hash))
    };
    let live = history.iter().filter(is_live).map(|revision| revision.name().to_owned()).collect();
    let limit = observed.set.i32("spec/revisionHistoryLimit");
    for revision in controller_history::surplus(history, &live, limit) {
        ctx.kind(&CONTROLLER_REVISION).delete(&revision).await?;
    }
    Ok(())
}
