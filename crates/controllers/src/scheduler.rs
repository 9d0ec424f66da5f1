//! The scheduler: it binds pods to nodes.
//!
//! One key stands for the whole [`SchedulingQueue`]: each reconcile takes pods from it, by priority, until none is
//! active. The [`SchedulerCache`] holds what is taken on each node. It follows every change of a pod and every placement
//! that the scheduler makes, so that two pods never get the same room.
//!
//! *Invariant:* the scheduler writes pods through `/binding` and `/status` alone.

pub(crate) mod affinity;
mod cache;
mod placement;
mod queue;

use std::sync::Arc;

use cache::{PodRequests, SchedulerCache};
use evenkeel_runtime::{Action, Controller, Ctx, Error, Event, Request, Result, ResultExt, Trigger};
use kube::Api;
use kube::core::DynamicObject;
use kube::core::params::{Patch, PostParams};
use parking_lot::Mutex;
use queue::SchedulingQueue;
use serde_json::json;

use crate::kinds::{NODE, Node, POD, Pod};
use crate::object::{OfKind, time};
use crate::{clock, pod};

/// The field manager of the scheduler.
const MANAGER: &str = "kube-scheduler";

/// The state that the triggers and the reconcile function share.
#[derive(Debug, Default)]
struct SchedulerState {
    cache: SchedulerCache,
    queue: SchedulingQueue,
}

/// The scheduler as a controller.
pub(crate) fn controller() -> Controller<DynamicObject> {
    let state = Arc::new(Mutex::new(SchedulerState::default()));
    let (by_pods, by_nodes) = (state.clone(), state.clone());
    Controller::without_primary("default-scheduler", reconcile)
        .watches_with(POD.source(), Trigger::events(move |event| by_pods.lock().follow_pod(event).then(key)))
        .watches_with(
            NODE.source(),
            Trigger::events(move |event| by_nodes.lock().follow_node(event).then(key)),
        )
        .field_manager(MANAGER)
        .state(state)
}

/// The one key, which stands for all pods that wait.
fn key() -> Request {
    Request::cluster("pods")
}

impl SchedulerState {
    /// Follows a change of a pod. Returns whether a pod is active.
    fn follow_pod(&mut self, event: &Event<Pod>) -> bool {
        let key = Request::of(&**event.object());
        let Some(pod) = event.new_object() else {
            self.cache.forget(event.object().metadata.uid.as_deref().unwrap_or_default());
            self.queue.remove(&key);
            return self.retry();
        };
        self.cache.observe(pod);
        if queue::is_waiting(pod) {
            let known =
                event.old().is_some_and(|old| old.at("spec") == pod.at("spec") && queue::is_waiting(old));
            if !known {
                self.queue.add(key, queue::priority(pod));
            }
            return self.queue.has_next();
        }
        self.queue.remove(&key);
        pod::is_finished(pod) && !event.old().is_some_and(|old| pod::is_finished(old)) && self.retry()
    }

    /// Follows a change of a node. Returns whether a pod is active that may fit now.
    fn follow_node(&mut self, event: &Event<Node>) -> bool {
        match event.new_object() {
            Some(node) => self.cache.observe_node(node),
            None => self.cache.forget_node(event.object().name()),
        }
        let matters = match (event.old(), event.new_object()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(old), Some(new)) => {
                ["spec", "status/allocatable"].iter().any(|part| old.at(part) != new.at(part))
                    || old.metadata.labels != new.metadata.labels
            }
        };
        matters && self.retry()
    }

    /// Makes the unschedulable pods active again: there may be room now. Returns whether a pod is active.
    fn retry(&mut self) -> bool {
        self.queue.retry();
        self.queue.has_next()
    }
}

async fn reconcile(_: Request, ctx: Ctx<Mutex<SchedulerState>>) -> Result<Action> {
    let mut failed = Vec::new();
    loop {
        let next = ctx.state().lock().queue.next();
        let Some((key, priority)) = next else { break };
        if let Err(error) = schedule(&ctx, &key).await {
            failed.push((key, priority, error));
        }
    }
    // Failed pods are tried again after the backoff. Pods that arrive in the meantime do not wait for them.
    let mut last = Ok(Action::await_change());
    for (key, priority, error) in failed {
        ctx.state().lock().queue.add(key, priority);
        last = Err(error);
    }
    last
}

async fn schedule(ctx: &Ctx<Mutex<SchedulerState>>, key: &Request) -> Result<()> {
    let Some(pod) = ctx.kind(&POD).get(key)? else { return Ok(()) };
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let nodes = ctx.kind(&NODE).cache()?.list();
    let requests = PodRequests::of(&pod);
    let placed = {
        let mut state = ctx.state().lock();
        if !queue::is_waiting(&pod) || state.cache.is_placed(&uid) {
            return Ok(());
        }
        let placed = placement::place(&pod, &requests, &nodes, &state.cache);
        match &placed {
            // Placed before the binding is written, so that no other pod gets the room in the meantime.
            Ok(node) => state.cache.place(&uid, node, requests),
            Err(_) => state.queue.add_unschedulable(key.clone(), queue::priority(&pod)),
        }
        placed
    };
    match placed {
        Ok(node) => {
            let bound = bind(ctx, &pod, &node).await;
            if bound.is_err() {
                ctx.state().lock().cache.forget(&uid);
            }
            bound
        }
        Err(unschedulable) => report(ctx, &pod, &unschedulable.message).await,
    }
}

async fn bind(ctx: &Ctx<Mutex<SchedulerState>>, pod: &Pod, node: &str) -> Result<()> {
    let (namespace, name) = (pod.in_namespace(), pod.name());
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node},
        "metadata": {"name": name, "namespace": namespace, "uid": pod.metadata.uid},
    });
    let pods = Api::<Pod>::namespaced_with(ctx.client().clone(), namespace, &&POD);
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.to_owned()) };
    let answer = pods.create_subresource::<_, serde_json::Value>("binding", name, &params, &binding).await;
    if answer.ignore_not_found()?.is_some() {
        let note = format!("Successfully assigned {namespace}/{name} to {node}");
        ctx.kind(&POD).event(pod, "Scheduled", note);
    }
    Ok(())
}

/// Writes to the pod's status why it is unschedulable, unless the status says so already.
async fn report(ctx: &Ctx<Mutex<SchedulerState>>, pod: &Pod, message: &str) -> Result<()> {
    let told = pod::condition(pod, "PodScheduled").filter(|told| told.is("status", "False"));
    if told.is_some_and(|told| told.is("message", message)) {
        return Ok(());
    }
    let since = told.map(|told| told.at("lastTransitionTime").clone());
    let since = since.unwrap_or_else(|| time(clock::seconds(ctx.now())));
    let condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": since, "observedGeneration": pod.metadata.generation,
    });
    let status = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
    let (pods, patch) = (ctx.kind(&POD), Patch::Strategic(status));
    let written = pods.patch_subresource("status", &Request::of(pod), &patch).await;
    written.ignore_not_found().map_err(Error::from)?;
    pods.warning(pod, "FailedScheduling", message);
    Ok(())
}
