//! DaemonSets: one pod on each node.
//!
//! The adapter keeps the revision history, asks [`plan`] for the next steps, and does them.

mod placement;
pub(crate) mod plan;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Index, Result, ResultExt};
use parking_lot::Mutex;
use plan::Observed;
use tokio::time::Instant;

use crate::adoption::{self, claim};
use crate::clock::Reminders;
use crate::controller_history::{self, Parent};
use crate::controller_ref::controller_reference;
use crate::kinds::{CONTROLLER_REVISION, ControllerRevision, DAEMON_SET, DaemonSet, NODE, Node, POD, Pod};
use crate::object::{Object, OfKind, write_status};
use crate::pod_removal::delete_with_event;
use crate::{MANAGER, api_error, clock, pod, pod_template};

/// The annotation of a DaemonSet with the generation of its template.
const GENERATION: &str = "deprecated.daemonset.template.generation";
/// The label of a pod with the generation of its template.
const POD_GENERATION: &str = "pod-template-generation";

/// The name of the index of all DaemonSets, and its only value: a node concerns every DaemonSet.
const ALL: &str = "all";

/// The controller of DaemonSets.
pub(crate) fn controller() -> Controller<Object> {
    let claimants = adoption::selects(adoption::selector);
    let (reminders, due) = Reminders::channel();
    let all = Index::new(ALL, |_: &DaemonSet| vec![ALL.to_owned()]);
    Controller::new_with("daemonset-controller", DAEMON_SET.source(), reconcile)
        .owns_with(POD.source().index(adoption::orphans()))
        .watches_indexed_with(POD.source(), claimants, |pod: &Pod| adoption::orphan_keys(&pod.metadata))
        .watches_indexed_with(NODE.source(), all, |_: &Node| vec![ALL.to_owned()])
        .reads_with(CONTROLLER_REVISION.source().index(Index::by_owner()))
        .field_manager(MANAGER)
        .event_source("daemonset-controller")
        .stream("back-off of failed pods", due)
        .max_concurrent(2)
        .state(DaemonState { reminders, failures: Mutex::default() })
}

/// How long a node waits after a failure of its pod before the next failed pod is replaced. The time doubles with each
/// failure, up to [`BACK_OFF_MAX`].
const BACK_OFF: Duration = Duration::from_secs(1);
/// The longest wait before a failed pod is replaced.
const BACK_OFF_MAX: Duration = Duration::from_secs(15 * 60);

/// What the controller keeps between reconciles.
#[derive(Debug)]
struct DaemonState {
    reminders: Reminders,
    /// When a pod of a set last failed on a node and how long the next one has to wait, by the uid of the set and the node.
    failures: Mutex<BTreeMap<(String, String), (Instant, Duration)>>,
}

impl DaemonState {
    /// Returns the nodes whose failed pods have to wait, and how long.
    fn backing_off(&self, set: &str) -> BTreeMap<String, Duration> {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        // A node without failures for that long starts with the first delay again.
        failures.retain(|_, (since, _)| now.saturating_duration_since(*since) <= 2 * BACK_OFF_MAX);
        let of_set = failures.iter().filter(|((uid, _), _)| uid == set);
        let left = of_set.map(|((_, node), (since, wait))| {
            (node.clone(), (*since + *wait).saturating_duration_since(now))
        });
        left.filter(|(_, left)| !left.is_zero()).collect()
    }

    /// Notes that a pod of a set has failed on a node.
    fn failed(&self, set: &str, node: &str) {
        let mut failures = self.failures.lock();
        let before = failures.get(&(set.to_owned(), node.to_owned())).map(|(_, wait)| *wait);
        let wait = before.map_or(BACK_OFF, |before| (before * 2).min(BACK_OFF_MAX));
        failures.insert((set.to_owned(), node.to_owned()), (Instant::now(), wait));
    }
}

async fn reconcile(set: Arc<DaemonSet>, ctx: Ctx<DaemonState>) -> Result<Action> {
    let Some(selector) = adoption::selector(&set) else { return Ok(Action::await_change()) };
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
    let hash = controller_history::hash_of(&newest).unwrap_or_default().to_owned();
    let uid = set.metadata.uid.clone().unwrap_or_default();
    let backing_off = ctx.state().backing_off(&uid);
    let nodes = ctx.kind(&NODE).cache()?.list();
    let observed = Observed { set: set.clone(), nodes, pods, hash, backing_off };
    let plan = plan::plan(&observed, clock::seconds(ctx.now()));
    for (pod, node) in &plan.ended {
        if pod::phase(pod) == "Failed" {
            ctx.state().failed(&uid, node);
        }
        tell_ended(&ctx, &set, pod, node);
    }
    for node in &plan.create {
        if !create(&ctx, &observed, node).await? {
            break;
        }
    }
    for pod in &plan.delete {
        delete_with_event(&ctx, (&DAEMON_SET, &set), pod).await?;
    }
    write_status(&ctx, &DAEMON_SET, &set, &plan.status).await.ignore_not_found()?;
    forget_history(&ctx, &observed, &history).await?;
    // The end of a back-off is upkeep: `settled()` does not wait for a pod that fails again and again.
    ctx.state().reminders.set(ctx.request(), plan.replace_in);
    Ok(plan.look_again.map_or_else(Action::await_change, Action::requeue))
}

/// Records an event about a pod that has ended and is replaced now.
fn tell_ended(ctx: &Ctx<DaemonState>, set: &DaemonSet, pod: &Pod, node: &str) {
    let (namespace, name) = (pod.in_namespace(), pod.name());
    let sets = ctx.kind(&DAEMON_SET);
    match pod::phase(pod) {
        "Failed" => {
            let note =
                format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
            sets.warning(set, "FailedDaemonPod", note);
        }
        _ => {
            let note = format!(
                "Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it"
            );
            sets.event(set, "SucceededDaemonPod", note);
        }
    }
}

/// Creates the pod of one node. Returns whether to go on with the next.
async fn create(ctx: &Ctx<DaemonState>, observed: &Observed, node: &str) -> Result<bool> {
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

async fn forget_history(
    ctx: &Ctx<DaemonState>,
    observed: &Observed,
    history: &[Arc<ControllerRevision>],
) -> Result<()> {
    let used = observed.pods.iter().filter_map(|pod| pod.label(controller_history::POD_REVISION));
    let used: BTreeSet<_> = used.chain([observed.hash.as_str()]).collect();
    let is_live = |revision: &&Arc<ControllerRevision>| {
        controller_history::hash_of(revision).is_some_and(|hash| used.contains(hash))
    };
    let live = history.iter().filter(is_live).map(|revision| revision.name().to_owned()).collect();
    controller_history::clean_up(ctx, &observed.set, history, &live).await
}
