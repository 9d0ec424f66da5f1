//! The scheduler: it binds pods to nodes.
//!
//! One key stands for the whole [`SchedulingQueue`]: each reconcile takes pods from it, by priority, until none is
//! active. The [`SchedulerCache`] holds what is taken on each node. It follows every change of a pod and every placement
//! that the scheduler makes, so that two pods never get the same room. A pod that fits nowhere may make room by
//! [`preemption`].
//!
//! *Invariant:* the scheduler writes pods through `/binding` and `/status`, and deletes only those that it preempts.

pub(crate) mod affinity;
mod cache;
mod claims;
mod groups;
mod interpod;
mod placement;
mod preempt;
mod preemption;
mod queue;
mod spread;
mod terms;

use std::sync::Arc;

use cache::{PlacedPod, SchedulerCache};
pub(crate) use cache::{PodRequests, allocatable, subtract};
use evenkeel_runtime::{
    Action, Controller, Ctx, Error, Event, EventType, Request, Result, ResultExt, Trigger,
};
use kube::core::DynamicObject;
use kube::core::params::{Patch, PostParams};
use kube::{Api, Resource as _};
use parking_lot::Mutex;
use placement::{Misfit, Misfits, NO_NODES, Placement, describe};
use preemption::{Candidate, Refused};
use queue::{Needs, SchedulingQueue};
use serde_json::{Value, json};

use crate::kinds::{
    NAMESPACE, NODE, Namespace, Node, PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET,
    PersistentVolumeClaim, Pod,
};
use crate::object::{OfKind, time};
use crate::{clock, pod};

/// The field manager of the scheduler.
const MANAGER: &str = "kube-scheduler";

/// The state that the triggers and the reconcile function share.
#[derive(Debug, Default)]
struct SchedulerState {
    cache: SchedulerCache,
    queue: SchedulingQueue,
    /// The pods that wait for their claims.
    unbound: claims::Waiting,
}

/// The scheduler as a controller.
pub(crate) fn controller() -> Controller<DynamicObject> {
    let state = Arc::new(Mutex::new(SchedulerState::default()));
    let (by_pods, by_nodes, by_namespaces) = (state.clone(), state.clone(), state.clone());
    let by_claims = state.clone();
    Controller::without_primary("default-scheduler", reconcile)
        .watches_with(POD.source(), Trigger::events(move |event| by_pods.lock().follow_pod(event).then(key)))
        .watches_with(
            NODE.source(),
            Trigger::events(move |event| by_nodes.lock().follow_node(event).then(key)),
        )
        .watches_with(
            NAMESPACE.source(),
            Trigger::events(move |event| by_namespaces.lock().follow_namespace(event).then(key)),
        )
        .watches_with(
            PERSISTENT_VOLUME_CLAIM.source(),
            Trigger::events(move |_: &Event<PersistentVolumeClaim>| {
                by_claims.lock().follow_claim().then(key)
            }),
        )
        .reads_with(POD_DISRUPTION_BUDGET.source())
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
            let uid = event.object().metadata.uid.as_deref().unwrap_or_default();
            self.cache.forget(uid);
            self.cache.forget_nomination(uid);
            self.queue.remove(&key);
            self.unbound.forget(&key);
            return self.retry();
        };
        self.cache.observe(pod);
        if queue::is_waiting(pod) {
            let same = |old: &Arc<Pod>| {
                old.at("spec") == pod.at("spec") && old.metadata.labels == pod.metadata.labels
            };
            if !event.old().is_some_and(|old| queue::is_waiting(old) && same(old)) {
                self.queue.add(key, queue::priority(pod));
            }
            return self.queue.has_next();
        }
        self.queue.remove(&key);
        if pod::is_finished(pod) {
            return !event.old().is_some_and(|old| pod::is_finished(old)) && self.retry();
        }
        let same =
            |old: &Arc<Pod>| pod::node_name(old) == pod::node_name(pod) && groups::same_group(old, pod);
        if pod::node_name(pod).is_some() && !event.old().is_some_and(same) {
            self.queue.retry_related();
            return self.queue.has_next();
        }
        false
    }

    /// Follows the claims. Returns whether a pod is active.
    fn follow_claim(&mut self) -> bool {
        self.queue.retry_claims();
        self.queue.has_next()
    }

    /// Follows the labels of namespaces, which terms of affinity select. Returns whether a pod is active.
    fn follow_namespace(&mut self, event: &Event<Namespace>) -> bool {
        let labels = event.new_object().map(|it| it.metadata.labels.clone().unwrap_or_default());
        self.cache.observe_namespace(event.object().name(), labels);
        if event.old().map(|old| &old.metadata.labels) == event.new_object().map(|new| &new.metadata.labels) {
            return false;
        }
        self.queue.retry_related();
        self.queue.has_next()
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
    {
        let mut state = ctx.state().lock();
        let ended = state.unbound.ended();
        ended.iter().for_each(|pod| state.queue.retry_one(pod));
    }
    loop {
        let next = ctx.state().lock().queue.next();
        let Some((key, priority)) = next else { break };
        if let Err(error) = schedule(&ctx, &key).await {
            failed.push((key, priority, error));
        }
    }
    // Failed pods are tried again after the backoff. Pods that arrive in the meantime do not wait for them.
    let patience = ctx.state().lock().unbound.ends_in();
    let mut last = Ok(patience.map_or_else(Action::await_change, Action::requeue));
    for (key, priority, error) in failed {
        ctx.state().lock().queue.add(key, priority);
        last = Err(error);
    }
    last
}

async fn schedule(ctx: &Ctx<Mutex<SchedulerState>>, key: &Request) -> Result<()> {
    let Some(pod) = ctx.kind(&POD).get(key)? else { return Ok(()) };
    let incoming = PlacedPod::new(pod.clone());
    let trouble = claims::trouble(&pod, |claim| Ok(ctx.kind(&PERSISTENT_VOLUME_CLAIM).get(claim)?))?;
    if let Some(trouble) = trouble {
        return wait_for_claims(ctx, key, &incoming, &trouble).await;
    }
    let placed = {
        let mut state = ctx.state().lock();
        state.unbound.forget(key);
        if !queue::is_waiting(&pod) || state.cache.is_placed(incoming.uid()) {
            return Ok(());
        }
        let placed = placement::place(&incoming, &mut state.cache);
        match &placed {
            // Placed before the binding is written, so that no other pod gets the room in the meantime.
            Placement::Node(node) => {
                state.cache.nominate(&pod, None);
                state.cache.place(node, incoming.clone());
                state.queue.retry_related();
            }
            Placement::None(_) => {
                let needs = Needs { pods: needs_pods(&pod), ..Needs::default() };
                state.queue.add_unschedulable(key.clone(), queue::priority(&pod), needs);
            }
        }
        placed
    };
    match placed {
        Placement::Node(node) => {
            let bound = bind(ctx, &pod, &node).await;
            if bound.is_err() {
                ctx.state().lock().cache.forget(incoming.uid());
            }
            bound
        }
        Placement::None(misfits) => {
            let message = describe(misfits.len(), misfits.values());
            fail(ctx, &incoming, &misfits, message).await
        }
    }
}

/// Sets a pod aside whose claims keep it from being placed, and reports why, unless that may pass in a moment.
async fn wait_for_claims(
    ctx: &Ctx<Mutex<SchedulerState>>,
    key: &Request,
    incoming: &PlacedPod,
    trouble: &claims::Trouble,
) -> Result<()> {
    let misfits = {
        let mut state = ctx.state().lock();
        if !queue::is_waiting(&incoming.pod) || state.cache.is_placed(incoming.uid()) {
            state.unbound.forget(key);
            return Ok(());
        }
        let needs = Needs { claims: true, ..Needs::default() };
        state.queue.add_unschedulable(key.clone(), queue::priority(&incoming.pod), needs);
        if state.unbound.is_patient(key, trouble) {
            return Ok(());
        }
        let nowhere = |node: &Arc<Node>| (node.name().to_owned(), Misfit::new(&trouble.why, false));
        state.cache.nodes().map(nowhere).collect::<Misfits>()
    };
    let message = format!("0/{} nodes are available: {}.", misfits.len(), trouble.why);
    fail(ctx, incoming, &misfits, message).await
}

/// Whether the placement of other pods may make room for a pod that fits nowhere.
fn needs_pods(pod: &Pod) -> bool {
    let affinity = pod.at("spec/affinity");
    affinity.has("podAffinity")
        || affinity.has("podAntiAffinity")
        || pod.has("spec/topologySpreadConstraints")
}

/// Evicts other pods for a pod that fits nowhere, or reports why that would not help.
async fn fail(
    ctx: &Ctx<Mutex<SchedulerState>>,
    incoming: &PlacedPod,
    misfits: &Misfits,
    message: String,
) -> Result<()> {
    let pod = &incoming.pod;
    if misfits.is_empty() {
        return report(ctx, pod, NO_NODES, &Value::Null).await;
    }
    let budgets = ctx.kind(&POD_DISRUPTION_BUDGET).cache()?.list();
    let budgets: Vec<_> = budgets.iter().filter_map(|budget| preemption::Budget::of(budget)).collect();
    let chosen = {
        let mut state = ctx.state().lock();
        let chosen = preemption::evaluate(incoming, misfits, &budgets, &mut state.cache);
        match &chosen {
            Ok(candidate) => state.cache.nominate(pod, Some(&candidate.node)),
            Err(refused) if !refused.keeps_nomination => state.cache.nominate(pod, None),
            Err(_) => {}
        }
        chosen
    };
    let nominated = pod.at("status/nominatedNodeName");
    match chosen {
        Ok(Candidate { node, victims, .. }) => {
            report(ctx, pod, &message, &json!({"nominatedNodeName": node})).await?;
            preempt::make_room(ctx, pod, &node, &victims).await
        }
        Err(Refused { message: why, keeps_nomination }) => {
            // kube-scheduler would look at resource claims first. This cluster has none.
            let message = format!("{message} no new claims to deallocate, preemption: {why}");
            let ends = !keeps_nomination && !nominated.is_null();
            let status = if ends { json!({"nominatedNodeName": null}) } else { Value::Null };
            report(ctx, pod, &message, &status).await
        }
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
        tell(ctx, (pod, None), EventType::Normal, ("Scheduled", "Binding"), note);
    }
    Ok(())
}

/// Writes to the pod's status why it is unschedulable, and the node that the pod is nominated to, unless the status has
/// both already.
async fn report(
    ctx: &Ctx<Mutex<SchedulerState>>,
    pod: &Pod,
    message: &str,
    nomination: &Value,
) -> Result<()> {
    let told = pod::condition(pod, "PodScheduled").filter(|told| told.is("status", "False"));
    let known = told.is_some_and(|told| told.is("message", message));
    let nominated = nomination
        .get("nominatedNodeName")
        .is_none_or(|node| pod.str("status/nominatedNodeName") == node.as_str());
    if known && nominated {
        return Ok(());
    }
    let mut status = if nomination.is_object() { nomination.clone() } else { json!({}) };
    if !known {
        let since = told.map(|told| told.at("lastTransitionTime").clone());
        let since = since.unwrap_or_else(|| time(clock::seconds(ctx.now())));
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": since, "observedGeneration": pod.metadata.generation,
        }]);
    }
    let patch = Patch::Strategic(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}));
    let pods = ctx.kind(&POD);
    let written = pods.patch_subresource("status", &Request::of(pod), &patch).await;
    written.ignore_not_found().map_err(Error::from)?;
    if !known {
        tell(ctx, (pod, None), EventType::Warning, ("FailedScheduling", "Scheduling"), message);
    }
    Ok(())
}

/// Records an event about a pod, and about another pod that it concerns, with its reason and action.
fn tell<S>(
    ctx: &Ctx<S>,
    (pod, related): (&Pod, Option<&Pod>),
    event_type: EventType,
    words: (&str, &str),
    note: impl Into<String>,
) {
    let reference = |pod: &Pod| pod.object_ref(&&POD);
    ctx.recorder().record_action(reference(pod), related.map(reference), event_type, words, note);
}
