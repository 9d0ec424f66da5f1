//! DaemonSets: one pod on each node.
//!
//! Not implemented: `maxSurge`.

mod placement;
pub(crate) mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Index, Result, ResultExt, Source};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use plan::Observed;

use crate::adoption::{self, claim};
use crate::controller_history::{self, Parent};
use crate::controller_ref::controller_reference;
use crate::openapi_compat::HasSpec as _;
use crate::{MANAGER, api_error, clock, pod_template};

/// The annotation of a DaemonSet with the generation of its template.
const GENERATION: &str = "deprecated.daemonset.template.generation";
/// The label of a pod with the generation of its template.
const POD_GENERATION: &str = "pod-template-generation";

/// The name of the index of all DaemonSets, and its only value: a node concerns every DaemonSet.
const ALL: &str = "all";

/// The controller of DaemonSets.
pub(crate) fn controller() -> Controller<DaemonSet> {
    let selector = |set: &DaemonSet| set.spec().map(|spec| spec.selector.clone());
    let all = Index::new(ALL, |_: &DaemonSet| vec![ALL.to_owned()]);
    Controller::new("daemonset-controller", reconcile)
        .owns_with(Source::<Pod>::new().index(adoption::orphans()))
        .watches_indexed(adoption::selects(selector), |pod: &Pod| adoption::orphan_keys(&pod.metadata))
        .watches_indexed(all, |_: &Node| vec![ALL.to_owned()])
        .reads_with(Source::<ControllerRevision>::new().index(Index::by_owner()))
        .field_manager(MANAGER)
        .max_concurrent(2)
}

async fn reconcile(set: Arc<DaemonSet>, ctx: Ctx) -> Result<Action> {
    let Some(spec) = set.spec() else { return Ok(Action::await_change()) };
    let pods = claim(&ctx, &*set, &spec.selector).await?;
    let history = ctx.children::<ControllerRevision>()?;
    let Some(hash) = newest(&ctx, &set, &history).await? else {
        let mut status = set.status.clone().unwrap_or_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
        ctx.status(&set, status).await?;
        return Ok(Action::requeue_with_backoff());
    };
    let observed = Observed { set: set.clone(), nodes: ctx.list::<Node>()?, pods, hash };
    let plan = plan::plan(&observed, clock::seconds(ctx.now()));
    for node in &plan.create {
        if !create(&ctx, &observed, node).await? {
            break;
        }
    }
    for pod in &plan.delete {
        ctx.delete(pod).await?;
        ctx.event(&set, "SuccessfulDelete", format!("Deleted pod: {}", pod.name_any()));
    }
    ctx.status(&set, &plan.status).await.ignore_not_found()?;
    forget_history(&ctx, &observed, &history).await?;
    Ok(plan.look_again.map_or_else(Action::await_change, Action::requeue))
}

/// Returns the hash of the present template, whose revision is created if necessary. `None` after a collision of names.
async fn newest(ctx: &Ctx, set: &DaemonSet, history: &[Arc<ControllerRevision>]) -> Result<Option<String>> {
    let spec = set.spec().cloned().unwrap_or_default();
    let parent = Parent {
        owner: controller_reference(set),
        namespace: set.namespace(),
        annotations: set.annotations().clone(),
        template: &spec.template,
        collisions: set.status.as_ref().and_then(|status| status.collision_count),
    };
    let revision = controller_history::sync(ctx, &parent, history).await?;
    Ok(revision.map(|it| it.labels().get(controller_history::HASH).cloned().unwrap_or_default()))
}

/// Creates the pod of one node. Returns whether to go on with the next.
async fn create(ctx: &Ctx, observed: &Observed, node: &str) -> Result<bool> {
    let set = &observed.set;
    let spec = set.spec().cloned().unwrap_or_default();
    let mut pod =
        pod_template::pod(&spec.template, &set.namespace().unwrap_or_default(), controller_reference(&**set));
    let mut pod_spec = placement::pod_spec(&spec);
    placement::assign(&mut pod_spec, node);
    pod.spec = Some(pod_spec);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(controller_history::POD_REVISION.to_owned(), observed.hash.clone());
    if let Some(generation) = set.annotations().get(GENERATION) {
        labels.insert(POD_GENERATION.to_owned(), generation.clone());
    }
    match ctx.create(pod).await {
        Ok(pod) => {
            ctx.event(set, "SuccessfulCreate", format!("Created pod: {}", pod.name_any()));
            Ok(true)
        }
        Err(error) if api_error::namespace_is_terminating(&error) => Ok(false),
        Err(error) => {
            ctx.warning(set, "FailedCreate", format!("Error creating: {}", api_error::message(&error)));
            Err(error.into())
        }
    }
}

async fn forget_history(ctx: &Ctx, observed: &Observed, history: &[Arc<ControllerRevision>]) -> Result<()> {
    let used: BTreeSet<_> = observed
        .pods
        .iter()
        .filter_map(|pod| pod.labels().get(controller_history::POD_REVISION).cloned())
        .chain([observed.hash.clone()])
        .collect();
    let live = history.iter().filter(|revision| {
        revision.labels().get(controller_history::HASH).is_some_and(|hash| used.contains(hash))
    });
    let live: BTreeSet<_> = live.map(|revision| revision.name_any()).collect();
    let limit = observed.set.spec().and_then(|spec| spec.revision_history_limit);
    for revision in controller_history::surplus(history, &live, limit) {
        ctx.delete(&revision).await?;
    }
    Ok(())
}
