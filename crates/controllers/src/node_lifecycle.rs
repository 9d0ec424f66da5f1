//! The health of nodes: `Unknown` conditions for a node whose lease has expired, taints that follow from the conditions, and
//! pods that are not ready because their node is not.

mod taints;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Event, Request, Result, ResultExt, Trigger};
use evenkeel_tree::Tree;
use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::params::Patch;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::{self, Reminders};
use crate::kinds::{LEASE, Lease, NODE, Node, POD};
use crate::node::LEASES;
use crate::object::{Fields, OfKind, time, write_status};
use crate::{MANAGER, pod};

/// How long a node may miss its heartbeat before it counts as lost: Kubernetes' default.
const GRACE: Duration = Duration::from_secs(50);

/// How old a node may be when it is reported as new: the period in which kube-controller-manager looks for new nodes. The
/// nodes of a new cluster are older when this controller is first needed.
const NEW_NODE_AGE_MAX: Duration = Duration::from_secs(5);

/// What the triggers and the reconcile function share.
#[derive(Debug)]
struct Health {
    reminders: Reminders,
    /// What happened to nodes and is not recorded as an event yet.
    news: Mutex<BTreeMap<String, Vec<News>>>,
}

/// What happened to a node, for its events.
#[derive(Clone, Debug)]
enum News {
    Registered,
    NotReady,
    Removed(Arc<Node>),
}

/// The controller of node health.
pub(crate) fn controller() -> Controller<DynamicObject> {
    let (reminders, due) = Reminders::channel();
    let health = Arc::new(Health { reminders, news: Mutex::default() });
    let by_nodes = health.clone();
    // A heartbeat triggers no reconcile: the lease is read when the node's grace period ends.
    let reappeared = Trigger::events(|event: &Event<Lease>| {
        event.old().is_none().then(|| Request::cluster(event.object().name()))
    });
    Controller::without_primary("node-controller", reconcile)
        .watches_with(NODE.source(), Trigger::events(move |event: &Event<Node>| by_nodes.follow(event)))
        .watches_with(LEASE.source().namespace(LEASES), reappeared)
        .reads_with(POD.source().index(pod::by_node()))
        .stream("grace period", due)
        .field_manager(MANAGER)
        .event_source("node-controller")
        .state(health)
}

impl Health {
    /// Notes what happened to a node.
    fn follow(&self, event: &Event<Node>) -> Option<Request> {
        let name = event.object().name();
        let news = match (event.old(), event.new_object()) {
            (None, Some(_)) if !event.is_replay() => Some(News::Registered),
            (Some(old), None) => Some(News::Removed(old.clone())),
            (Some(old), Some(new)) if is_ready(old) == Some(true) && is_ready(new) == Some(false) => {
                Some(News::NotReady)
            }
            _ => None,
        };
        if let Some(news) = news {
            self.news.lock().entry(name.to_owned()).or_default().push(news);
        }
        Some(Request::cluster(name))
    }
}

/// Whether the node is ready; `None` if it has never reported its status.
fn is_ready(node: &Node) -> Option<bool> {
    node.at("status").condition("Ready").map(|ready| ready.is("status", "True"))
}

async fn reconcile(key: Request, ctx: Ctx<Health>) -> Result<Action> {
    let node = ctx.kind(&NODE).get(&key)?;
    tell(&ctx, &key.name, node.as_deref());
    let Some(node) = node else {
        ctx.state().reminders.set(&key, None);
        return Ok(Action::await_change());
    };
    let now = clock::seconds(ctx.now());
    let silent = silence(&ctx, &node, now)?;
    if silent.is_some_and(|silent| silent > GRACE) {
        if let Some(status) = lost(&node, now) {
            write_status(&ctx, &NODE, &node, &status).await.ignore_not_found()?;
            return Ok(Action::await_change());
        }
    } else if let Some(silent) = silent {
        // One second more: a node is lost only after more than the grace period.
        ctx.state().reminders.set(ctx.request(), Some(GRACE - silent + Duration::from_secs(1)));
    }
    if let Some(patch) = taint_patch(&node, now) {
        ctx.kind(&NODE).patch(ctx.request(), &patch).await.ignore_not_found()?;
    }
    if is_ready(&node) == Some(false) {
        mark_pods_unready(&ctx, &node, now).await?;
    }
    Ok(Action::await_change())
}

/// Whether a node is so young that it is reported as new.
fn is_new(node: &Node, now: Timestamp) -> bool {
    node.metadata.creation_timestamp.as_ref().is_some_and(|created| {
        Duration::try_from(now.duration_since(created.0)).is_ok_and(|age| age <= NEW_NODE_AGE_MAX)
    })
}

/// Records the events about a node that are not recorded yet.
fn tell(ctx: &Ctx<Health>, name: &str, node: Option<&Node>) {
    let nodes = ctx.kind(&NODE);
    for news in ctx.state().news.lock().remove(name).into_iter().flatten() {
        match (news, node) {
            (News::Registered, Some(node)) if is_new(node, ctx.now()) => {
                let note = format!("Node {name} event: Registered Node {name} in Controller");
                nodes.event(node, "RegisteredNode", note);
            }
            (News::NotReady, Some(node)) => {
                nodes.event(node, "NodeNotReady", format!("Node {name} status is now: NodeNotReady"));
            }
            (News::Removed(node), _) => {
                let note = format!("Node {name} event: Removing Node {name} from Controller");
                nodes.event(&node, "RemovingNode", note);
            }
            _ => {}
        }
    }
}

/// Marks the pods of a node that is not ready as not ready, so that Services do not send requests to them.
async fn mark_pods_unready(ctx: &Ctx<Health>, node: &Node, now: Timestamp) -> Result<()> {
    let pods = ctx.kind(&POD);
    for pod in pods.cache()?.by_index(pod::BY_NODE, node.name())? {
        if pod::is_ready(&pod) {
            let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": time(now)});
            let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
            let patch = Patch::Strategic(patch);
            pods.patch_subresource("status", &Request::of(&*pod), &patch).await.ignore_not_found()?;
            pods.warning(&pod, "NodeNotReady", "Node is not ready");
        }
    }
    Ok(())
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
fn silence(ctx: &Ctx<Health>, node: &Node, now: Timestamp) -> Result<Option<Duration>> {
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
