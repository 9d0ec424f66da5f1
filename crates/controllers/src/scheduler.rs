//! The scheduler: pods to nodes.
//!
//! One key stands for the whole line: each reconcile takes pods from it, by priority, until none is left. What is
//! taken on each node is kept in an [`Account`] that follows every change of a pod and every placement of our own, so
//! that two pods are never given the same room.
//!
//! *Invariant:* it writes through `/binding` and `/status` alone.

pub(crate) mod affinity;
mod pending;
mod placement;
pub(crate) mod resources;

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Error, Event, Request, Result, ResultExt, Trigger};
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use kube::core::params::{Patch, PostParams};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use pending::Pending;
use resources::{Account, Demand};
use serde_json::json;

use crate::{clock, pod};

/// The field manager of its writes.
const MANAGER: &str = "kube-scheduler";

/// What the triggers and the reconcile share.
#[derive(Debug, Default)]
struct Line {
    account: Account,
    pending: Pending,
}

/// The controller.
pub(crate) fn controller() -> Controller<DynamicObject> {
    let line = Arc::new(Mutex::new(Line::default()));
    let (by_pods, by_nodes) = (line.clone(), line.clone());
    Controller::without_primary("default-scheduler", reconcile)
        .watches(Trigger::<Pod>::events(move |event| by_pods.lock().follow_pod(event).then(key)))
        .watches(Trigger::<Node>::events(move |event| by_nodes.lock().follow_node(event).then(key)))
        .field_manager(MANAGER)
        .state(line)
}

/// The one key.
fn key() -> Request {
    Request::cluster("pods")
}

impl Line {
    /// Takes note of a pod's change; says whether there is something to do.
    fn follow_pod(&mut self, event: &Event<Pod>) -> bool {
        let key = Request::of(&**event.object());
        let Some(pod) = event.new_object() else {
            self.account.forget(&event.object().uid().unwrap_or_default());
            self.pending.remove(&key);
            return self.retry();
        };
        self.account.observe(pod);
        if pending::is_waiting(pod) {
            let told = event.old().is_some_and(|old| old.spec == pod.spec && pending::is_waiting(old));
            if !told {
                self.pending.add(key, pending::priority(pod));
            }
            return self.pending.has_next();
        }
        self.pending.remove(&key);
        pod::is_finished(pod) && !event.old().is_some_and(|old| pod::is_finished(old)) && self.retry()
    }

    /// Takes note of a node's change; says whether there is something to do.
    fn follow_node(&mut self, event: &Event<Node>) -> bool {
        let matters = match (event.old(), event.new_object()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(old), Some(new)) => {
                let given = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
                old.spec != new.spec || old.metadata.labels != new.metadata.labels || given(old) != given(new)
            }
        };
        matters && self.retry()
    }

    /// Puts those that fitted nowhere back in line: there may be room now.
    fn retry(&mut self) -> bool {
        self.pending.retry();
        self.pending.has_next()
    }
}

async fn reconcile(_: Request, ctx: Ctx<Mutex<Line>>) -> Result<Action> {
    let mut failed = Vec::new();
    loop {
        let next = ctx.state().lock().pending.next();
        let Some((key, priority)) = next else { break };
        if let Err(error) = schedule(&ctx, &key).await {
            failed.push((key, priority, error));
        }
    }
    // They are tried again after the backoff; others that come meanwhile do not wait for them.
    let mut last = Ok(Action::await_change());
    for (key, priority, error) in failed {
        ctx.state().lock().pending.add(key, priority);
        last = Err(error);
    }
    last
}

async fn schedule(ctx: &Ctx<Mutex<Line>>, key: &Request) -> Result<()> {
    let Some(pod) = ctx.get_at::<Pod>(key)? else { return Ok(()) };
    let uid = pod.uid().unwrap_or_default();
    let nodes = ctx.list::<Node>()?;
    let placed = {
        let mut line = ctx.state().lock();
        if !pending::is_waiting(&pod) || line.account.is_placed(&uid) {
            return Ok(());
        }
        let placed = placement::place(&pod, &nodes, &line.account);
        match &placed {
            // Entered before it is written, so that the room is not given away meanwhile.
            Ok(node) => line.account.place(&uid, node, Demand::of(&pod)),
            Err(_) => line.pending.set_aside(key.clone(), pending::priority(&pod)),
        }
        placed
    };
    match placed {
        Ok(node) => {
            let bound = bind(ctx, &pod, &node).await;
            if bound.is_err() {
                ctx.state().lock().account.forget(&uid);
            }
            bound
        }
        Err(unschedulable) => report(ctx, &pod, &unschedulable.message).await,
    }
}

async fn bind(ctx: &Ctx<Mutex<Line>>, pod: &Pod, node: &str) -> Result<()> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            uid: pod.uid(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let pods = Api::<Pod>::namespaced(ctx.client().clone(), &namespace);
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.to_owned()) };
    let answer = pods.create_subresource::<_, serde_json::Value>("binding", &name, &params, &binding).await;
    if answer.ignore_not_found()?.is_some() {
        ctx.event(pod, "Scheduled", format!("Successfully assigned {namespace}/{name} to {node}"));
    }
    Ok(())
}

/// Says on the pod why it waits, unless it says so already.
async fn report(ctx: &Ctx<Mutex<Line>>, pod: &Pod, message: &str) -> Result<()> {
    let told = pod::condition(pod, "PodScheduled");
    let same = |shown: &str| {
        told.is_some_and(|told| told.status == "False" && told.message.as_deref() == Some(shown))
    };
    if same(message) {
        return Ok(());
    }
    let since = told.filter(|told| told.status == "False").and_then(|told| told.last_transition_time.clone());
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(clock::seconds(ctx.now()));
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": since.unwrap_or(now), "observedGeneration": pod.metadata.generation,
    });
    let patch =
        Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}}));
    let objects = ctx.objects::<Pod>(());
    objects
        .patch_subresource("status", &Request::of(pod), &patch)
        .await
        .ignore_not_found()
        .map_err(Error::from)?;
    ctx.warning(pod, "FailedScheduling", message);
    Ok(())
}
