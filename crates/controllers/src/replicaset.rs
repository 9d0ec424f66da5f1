//! ReplicaSets and ReplicationControllers, which keep a number of pods running.
//!
//! The adapter adopts and releases pods, does what [`plan`] says, and writes the status. No pod is created twice: the
//! next reconcile of the set waits until the cache shows the writes of this one, and lists the pods from the API server
//! if the cache stays behind.
//!
//! A change of one pod costs the same whatever the size of the set: [`census`] counts the pods by an index, and
//! [`pace`] limits how often a large set writes its status.

mod census;
mod pace;
pub(crate) mod plan;
mod ranking;
pub(crate) mod status;

pub(crate) use plan::{BURST, Pods};

use std::sync::Arc;
use std::time::Duration;

use census::Census;
use evenkeel_runtime::{Action, ContextError, Controller, Ctx, Index, Result, ResultExt};
use evenkeel_tree::Tree;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Api;
use kube::core::params::ListParams;
use pace::Pace;
use plan::Scale;
use status::Failure;

use crate::adoption::{self, claim};
use crate::controller_ref::{controller_of, controller_reference, is_controlled_by};
use crate::kinds::{POD, Pod, REPLICA_SET, REPLICATION_CONTROLLER, ReplicaSet};
use crate::object::{Fields, Kind, Object, OfKind, write_status};
use crate::{MANAGER, api_error, clock, pod_template};

/// How many sets are reconciled at once: Kubernetes' default.
const CONCURRENT: usize = 5;

/// The controller of ReplicaSets.
pub(crate) fn controller() -> Controller<Object> {
    replicated("replicaset-controller", &REPLICA_SET).index(Index::by_owner())
}

/// The controller of ReplicationControllers.
pub(crate) fn replication_controllers() -> Controller<Object> {
    replicated("replication-controller", &REPLICATION_CONTROLLER)
}

fn replicated(name: &str, kind: &'static Kind) -> Controller<Object> {
    let claimants = adoption::selects(move |set| selector(kind, set));
    Controller::new_with(name, kind.source(), move |set, ctx| reconcile(kind, set, ctx))
        .owns_with(POD.source().index(adoption::orphans()).index(census::index()))
        .watches_indexed_with(POD.source(), claimants, |pod: &Pod| adoption::orphan_keys(&pod.metadata))
        .field_manager(MANAGER)
        .event_source(name)
        .max_concurrent(CONCURRENT)
        .state(Pace::default())
}

/// Returns the label selector of a set. A ReplicationController's selector is a map of labels.
fn selector(kind: &Kind, set: &Object) -> Option<LabelSelector> {
    if *kind != REPLICATION_CONTROLLER {
        return adoption::selector(set);
    }
    let match_labels = set.has("spec/selector").then(|| set.text_map("spec/selector"));
    Some(LabelSelector { match_labels, match_expressions: None })
}

async fn reconcile(kind: &'static Kind, set: Arc<Object>, ctx: Ctx<Pace>) -> Result<Action> {
    let Some(selector) = selector(kind, &set) else { return Ok(Action::await_change()) };
    if set.is_deleting() {
        ctx.state().forget(ctx.request());
    }
    let now = clock::seconds(ctx.now());
    let wanted = usize::try_from(set.i32("spec/replicas").unwrap_or(1)).unwrap_or(0);
    let known = match ctx.is_behind() {
        true => None,
        false => Census::indexed(&ctx.kind(&POD).cache()?, &set, &selector)?,
    };
    // The pods themselves matter only if some of them must be deleted.
    if let Some(census) = known.filter(|census| census.active <= wanted || set.is_deleting()) {
        let scale = match set.is_deleting() {
            true => Scale::Enough,
            false => plan::scale_up(wanted, census.active),
        };
        return act(&ctx, (kind, &set), scale, census, now, None).await;
    }
    let owned = match ctx.is_behind() {
        true => live(&ctx, &set).await?,
        false => claim(&ctx, (kind, &set), &POD, &selector).await?,
    };
    let pods = Pods::of(owned);
    let scale = match set.is_deleting() {
        true => Scale::Enough,
        false => plan::scale(
            wanted,
            &pods.active,
            || related(&ctx, &set).unwrap_or_else(|| pods.active.clone()),
            now,
        ),
    };
    let census = Census::of(&set, &pods, now);
    act(&ctx, (kind, &set), scale, census, now, status::next_available(&set, &pods, now)).await
}

/// Creates or deletes pods, and writes the status. `look_again` is when the next ready pod becomes available.
async fn act(
    ctx: &Ctx<Pace>,
    (kind, set): (&'static Kind, &Object),
    scale: Scale,
    census: Census,
    now: Timestamp,
    look_again: Option<Duration>,
) -> Result<Action> {
    let is_enough = scale == Scale::Enough;
    let outcome = match scale {
        Scale::Enough => Ok(()),
        Scale::Create(count) => create(ctx, (kind, set), count).await,
        Scale::Delete(victims) => delete(ctx, (kind, set), &victims).await,
    };
    let failure = outcome.as_ref().err().map(|(failure, _)| failure);
    let mut status = status::status(set, census, failure, now);
    if *kind == REPLICATION_CONTROLLER {
        status.set("terminatingReplicas", Tree::Null);
    }
    if *set.at("status") != status {
        if is_enough && let Some(wait) = ctx.state().wait(ctx.request(), census.active) {
            return Ok(Action::requeue(wait));
        }
        write_status(ctx, kind, set, &status).await.ignore_not_found()?;
    }
    if let Err((_, error)) = outcome {
        return Err(error.into());
    }
    Ok(look_again.map_or_else(Action::await_change, Action::requeue))
}

/// Lists the pods of the set from the API server, for a cache that does not show our own writes yet.
async fn live(ctx: &Ctx<Pace>, set: &ReplicaSet) -> Result<Vec<Arc<Pod>>> {
    let pods = Api::<Pod>::namespaced_with(ctx.client().clone(), set.in_namespace(), &&POD);
    let pods = pods.list(&ListParams::default()).await?;
    let ours = |pod: &Pod| is_controlled_by(&pod.metadata, set.metadata.uid.as_deref());
    Ok(pods.items.into_iter().filter(ours).map(Arc::new).collect())
}

/// Returns the pods of all ReplicaSets of the same Deployment; `None` if the set has no controller.
fn related(ctx: &Ctx<Pace>, set: &ReplicaSet) -> Option<Vec<Arc<Pod>>> {
    let owner = controller_of(&set.metadata)?;
    let pods = ctx.kind(&POD).cache().ok()?;
    let mut related = Vec::new();
    for sibling in ctx.kind(&REPLICA_SET).cache().ok()?.owned_by(&owner.uid).ok()? {
        related.extend(pods.owned_by(sibling.metadata.uid.as_deref().unwrap_or_default()).ok()?);
    }
    Some(related)
}

type Outcome = std::result::Result<(), (Failure, ContextError)>;

async fn create(ctx: &Ctx<Pace>, (kind, set): (&'static Kind, &Object), count: usize) -> Outcome {
    let (sets, pods) = (ctx.kind(kind), ctx.kind(&POD));
    for batch in plan::batches(count) {
        let owner = || controller_reference(kind, set);
        let pod = || pod_template::pod(set.at("spec/template"), set.in_namespace(), owner());
        let mut failed = None;
        for made in join_all((0..batch).map(|_| pods.create_unread(pod()))).await {
            match made {
                Ok(pod) => sets.event(set, "SuccessfulCreate", format!("Created pod: {}", pod.name)),
                // The API server rejects new pods here, and deletes the existing ones.
                Err(error) if api_error::namespace_is_terminating(&error) => return Ok(()),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            let message = api_error::message(&error);
            sets.warning(set, "FailedCreate", format!("Error creating: {message}"));
            return Err((Failure { reason: "FailedCreate", message }, error));
        }
    }
    Ok(())
}

async fn delete(ctx: &Ctx<Pace>, (kind, set): (&'static Kind, &Object), victims: &[Arc<Pod>]) -> Outcome {
    let (sets, pods) = (ctx.kind(kind), ctx.kind(&POD));
    let mut outcome = Ok(());
    for (pod, gone) in victims.iter().zip(join_all(victims.iter().map(|pod| pods.delete(pod))).await) {
        match gone {
            Ok(_) => sets.event(set, "SuccessfulDelete", format!("Deleted pod: {}", pod.name())),
            Err(error) => {
                let message = api_error::message(&error);
                sets.warning(set, "FailedDelete", format!("Error deleting: {message}"));
                outcome = Err((Failure { reason: "FailedDelete", message }, error));
            }
        }
    }
    outcome
}
