//! The health of nodes: taints that follow the conditions, and `Unknown` conditions for a node whose lease has expired.

mod taints;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Event, Request, Result, ResultExt, Trigger};
use evenkeel_tree::Tree;
use jiff::Timestamp;
use kube::core::params::Patch;
use serde_json::{Value, json};

use crate::MANAGER;
use crate::clock::{self, Reminders};
use crate::kinds::{LEASE, Lease, NODE, Node};
use crate::node::LEASES;
use crate::object::{Fields, Object, OfKind, time, write_status};

/// How long a node may miss its heartbeat before it counts as lost: Kubernetes' default.
const GRACE: Duration = Duration::from_secs(50);

/// The controller of node health.
pub(crate) fn controller() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    // A heartbeat triggers no reconcile: the lease is read when the node's grace period ends.
    let reappeared = Trigger::events(|event: &Event<Lease>| {
        event.old().is_none().then(|| Request::cluster(event.object().name()))
    });
    Controller::new_with("node-lifecycle-controller", NODE.source(), reconcile)
        .watches_with(LEASE.source().namespace(LEASES), reappeared)
        .stream("grace period", due)
        .field_manager(MANAGER)
        .state(reminders)
}

async fn reconcile(node: Arc<Node>, ctx: Ctx<Reminders>) -> Result<Action> {
    let now = clock::seconds(ctx.now());
    let silent = silence(&ctx, &node, now)?;
    if silent.is_some_and(|silent| silent > GRACE) {
        if let Some(status) = lost(&node, now) {
            write_status(&ctx, &NODE, &node, &status).await.ignore_not_found()?;
            return Ok(Action::await_change());
        }
    } else if let Some(silent) = silent {
        // One second more: a node is lost only after more than the grace period.
        ctx.state().set(ctx.request(), Some(GRACE - silent + Duration::from_secs(1)));
    }
    if let Some(patch) = taint_patch(&node, now) {
        ctx.kind(&NODE).patch(ctx.request(), &patch).await.ignore_not_found()?;
    }
    Ok(Action::await_change())
}

/// Returns the patch that sets the taints which follow from a node's conditions, or `None` if the node already has
/// them.
pub(crate) fn taint_patch(node: &Node, now: Timestamp) -> Option<Patch<Value>> {
    let taints = taints::wanted(node, now)?;
    let taints = if taints.is_empty() { json!(null) } else { json!(taints) };
    let patch =
        json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}});
    Some(Patch::Merge(patch))
}

/// Returns the time since the last heartbeat; `None` if the node has never sent one.
fn silence(ctx: &Ctx<Reminders>, node: &Node, now: Timestamp) -> Result<Option<Duration>> {
    let lease = ctx.kind(&LEASE).get(&Request::namespaced(LEASES, node.name()))?;
    let renewed = lease.and_then(|lease| lease.time("spec/renewTime"));
    let ready = node.at("status").condition("Ready").and_then(|ready| ready.time("lastHeartbeatTime"));
    let heard = renewed.max(ready);
    Ok(heard.map(|heard| Duration::try_from(now.duration_since(heard)).unwrap_or(Duration::ZERO)))
}

/// Returns the status of a lost node; `None` if the node already has it.
fn lost(node: &Node, now: Timestamp) -> Option<Tree> {
    const WATCHED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
    let mut conditions = node.list("status/conditions").to_vec();
    for condition in &mut conditions {
        let watched = WATCHED.iter().any(|watched| condition.is("type", watched));
        if watched && !condition.is("status", "Unknown") {
            condition.set("status", "Unknown");
            condition.set("reason", "NodeStatusUnknown");
            condition.set("message", "Kubelet stopped posting node status.");
            condition.set("lastTransitionTime", time(now));
        }
    }
    let changed = conditions != node.list("status/conditions");
    let mut status = node.at("status").clone();
    status.set("conditions", conditions);
    changed.then_some(status)
}
