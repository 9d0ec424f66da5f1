//! The health of nodes: taints that follow the conditions, and `Unknown` conditions for a node whose lease has expired.

mod taints;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, ResultExt, Source, Trigger};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::core::params::Patch;
use serde_json::json;

use crate::MANAGER;
use crate::clock::{self, Reminders};
use crate::node::LEASES;

/// How long a node may miss its heartbeat before it counts as lost: Kubernetes' default.
const GRACE: Duration = Duration::from_secs(50);

/// The controller of node health.
pub(crate) fn controller() -> Controller<Node> {
    let (reminders, due) = Reminders::channel();
    let leases = Source::<Lease>::new().namespace(LEASES);
    // A heartbeat triggers no reconcile: the lease is read when the node's grace period ends.
    let reappeared = Trigger::events(|event: &evenkeel_runtime::Event<Lease>| {
        event.old().is_none().then(|| Request::cluster(event.object().name_any()))
    });
    Controller::new("node-lifecycle-controller", reconcile)
        .watches_with(leases, reappeared)
        .stream("grace period", due)
        .field_manager(MANAGER)
        .state(reminders)
}

async fn reconcile(node: Arc<Node>, ctx: Ctx<Reminders>) -> Result<Action> {
    let now = clock::seconds(ctx.now());
    let silent = silence(&ctx, &node, now)?;
    if silent.is_some_and(|silent| silent > GRACE) {
        if let Some(status) = lost(&node, now) {
            ctx.status(&node, status).await.ignore_not_found()?;
            return Ok(Action::await_change());
        }
    } else if let Some(silent) = silent {
        // One second more: a node is lost only after more than the grace period.
        ctx.state().set(ctx.request(), Some(GRACE - silent + Duration::from_secs(1)));
    }
    if let Some(taints) = taints::wanted(&node, now) {
        let taints = if taints.is_empty() { json!(null) } else { json!(taints) };
        let patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}});
        ctx.patch(&node, &Patch::Merge(patch)).await.ignore_not_found()?;
    }
    Ok(Action::await_change())
}

/// Returns the time since the last heartbeat; `None` if the node has never sent one.
fn silence(ctx: &Ctx<Reminders>, node: &Node, now: Timestamp) -> Result<Option<Duration>> {
    let lease = ctx.get_at::<Lease>(&Request::namespaced(LEASES, node.name_any()))?;
    let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0));
    let ready =
        condition(node, "Ready").and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
    let heard = renewed.max(ready);
    Ok(heard.map(|heard| Duration::try_from(now.duration_since(heard)).unwrap_or(Duration::ZERO)))
}

fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// Returns the status of a lost node; `None` if the node already has it.
fn lost(node: &Node, now: Timestamp) -> Option<k8s_openapi::api::core::v1::NodeStatus> {
    const WATCHED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
    let mut status = node.status.clone().unwrap_or_default();
    let mut changed = false;
    for condition in status.conditions.iter_mut().flatten() {
        if WATCHED.contains(&condition.type_.as_str()) && condition.status != "Unknown" {
            condition.status = "Unknown".to_owned();
            condition.reason = Some("NodeStatusUnknown".to_owned());
            condition.message = Some("Kubelet stopped posting node status.".to_owned());
            condition.last_transition_time = Some(Time(now));
            changed = true;
        }
    }
    changed.then_some(status)
}
