//! Deletes pods that nobody else will: those whose node is gone or out of service, and those that are deleted before they
//! have a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_runtime::{Action, Controller, Ctx, Event, Request, Result, Trigger};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kinds::{NODE, Node, POD, Pod};
use crate::object::{Fields, OfKind};
use crate::{MANAGER, disruption_target, pod};

/// How long a node must be gone before its pods are deleted: it may come back with a new object. Kubernetes' value.
const QUARANTINE: Duration = Duration::from_secs(40);

/// The taint by which an administrator says that a node will not come back.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The reason of the condition `DisruptionTarget` of a pod whose node is gone.
const ORPHANED: (&str, &str) = ("DeletionByPodGC", "PodGC: node no longer exists");

/// What the triggers and the reconcile function share.
#[derive(Debug, Default)]
struct Known {
    nodes: Mutex<BTreeSet<String>>,
    /// The nodes that will not come back.
    out_of_service: Mutex<BTreeSet<String>>,
    /// Since when nodes with pods are gone.
    gone: Mutex<BTreeMap<String, Instant>>,
}

/// The controller that deletes abandoned pods. Its keys are nodes, and pods without a node.
pub(crate) fn controller() -> Controller<DynamicObject> {
    let known = Arc::new(Known::default());
    let (by_nodes, by_pods) = (known.clone(), known.clone());
    Controller::without_primary("pod-garbage-collector-controller", reconcile)
        .watches_with(NODE.source(), Trigger::events(move |event: &Event<Node>| by_nodes.follow_node(event)))
        .watches_with(
            POD.source().index(pod::by_node()),
            Trigger::events(move |event: &Event<Pod>| by_pods.follow_pod(event)),
        )
        .field_manager(MANAGER)
        .state(known)
}

/// Whether a node will not come back, so that nothing has to wait for its terminating pods.
fn is_out_of_service(node: &Node) -> bool {
    let ready = node.at("status").condition("Ready").is_some_and(|ready| ready.is("status", "True"));
    !ready && node.list("spec/taints").iter().any(|taint| taint.is("key", OUT_OF_SERVICE))
}

impl Known {
    /// Follows the nodes. Returns the key of one that is gone, or out of service from now on.
    fn follow_node(&self, event: &Event<Node>) -> Option<Request> {
        let name = event.object().name();
        let out = event.new_object().is_some_and(|node| is_out_of_service(node));
        let was_out = match out {
            true => !self.out_of_service.lock().insert(name.to_owned()),
            false => self.out_of_service.lock().remove(name),
        };
        match event.new_object() {
            Some(_) => self.nodes.lock().insert(name.to_owned()),
            None => self.nodes.lock().remove(name),
        };
        let back = event.old().is_none() && self.gone.lock().contains_key(name);
        (event.new_object().is_none() || (out && !was_out) || back).then(|| Request::cluster(name))
    }

    /// Returns the key to reconcile after a change of a pod: its node, if that does not exist, or is out of service
    /// while the pod is being deleted; or the pod itself, if it is being deleted and was never bound.
    fn follow_pod(&self, event: &Event<Pod>) -> Option<Request> {
        let pod = event.new_object()?;
        let Some(node) = pod::node_name(pod) else {
            return pod::is_terminating(pod).then(|| Request::of(&**pod));
        };
        let bound = event.old().is_none_or(|old| pod::node_name(old).is_none());
        let orphaned = bound && !self.nodes.lock().contains(node);
        let stuck = pod.is_deleting() && self.out_of_service.lock().contains(node);
        (orphaned || stuck).then(|| Request::cluster(node))
    }
}

async fn reconcile(key: Request, ctx: Ctx<Known>) -> Result<Action> {
    if key.namespace.is_some() {
        let pod = ctx.kind(&POD).get(&key)?;
        if let Some(pod) = pod.filter(|pod| pod::node_name(pod).is_none() && pod::is_terminating(pod)) {
            disruption_target::fail_and_delete(&ctx, &pod, None).await?;
        }
        return Ok(Action::await_change());
    }
    let pods = ctx.kind(&POD).cache()?.by_index(pod::BY_NODE, &key.name)?;
    if let Some(node) = ctx.kind(&NODE).get(&key)? {
        ctx.state().gone.lock().remove(&*key.name);
        for pod in pods.iter().filter(|pod| pod.is_deleting() && is_out_of_service(&node)) {
            disruption_target::fail_and_delete(&ctx, pod, None).await?;
        }
        return Ok(Action::await_change());
    }
    if pods.is_empty() {
        ctx.state().gone.lock().remove(&*key.name);
        return Ok(Action::await_change());
    }
    let since = *ctx.state().gone.lock().entry(key.name.to_string()).or_insert_with(Instant::now);
    let left = QUARANTINE.saturating_sub(since.elapsed());
    if !left.is_zero() {
        return Ok(Action::requeue(left));
    }
    // The cache may not show a node that has just come back.
    if ctx.kind(&NODE).fetch(&key).await?.is_some() {
        return Ok(Action::requeue_with_backoff());
    }
    for pod in &pods {
        disruption_target::fail_and_delete(&ctx, pod, Some(ORPHANED)).await?;
    }
    ctx.state().gone.lock().remove(&*key.name);
    Ok(Action::await_change())
}
