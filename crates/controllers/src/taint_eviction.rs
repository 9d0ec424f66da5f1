//! Evicts pods that do not tolerate the `NoExecute` taints of their node, or that have tolerated them long enough.

mod tolerance;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Event, Predicate, Request, Result, Trigger};
use evenkeel_tree::Tree;
use parking_lot::Mutex;
use tokio::time::Instant;
use tolerance::Tolerance;

use crate::clock::Reminders;
use crate::kinds::{NODE, Node, POD, Pod};
use crate::node::Wakes;
use crate::object::{Object, OfKind};
use crate::{MANAGER, disruption_target, pod};

/// The reason of the condition `DisruptionTarget` of a pod that a taint evicts.
const REASON: &str = "DeletionByTaintManager";
const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

/// What the triggers and the reconcile function share.
#[derive(Debug)]
struct Evictions {
    /// The nodes with `NoExecute` taints.
    tainted: Mutex<BTreeSet<String>>,
    /// When pods are evicted that tolerate a taint for a time: by the node and the uid of the pod.
    due: Mutex<BTreeMap<String, BTreeMap<String, Instant>>>,
    reminders: Reminders,
}

/// The controller that evicts pods by taints. Its keys are nodes.
pub(crate) fn controller() -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    let evictions = Arc::new(Evictions { tainted: Mutex::default(), due: Mutex::default(), reminders });
    let (by_nodes, by_pods) = (evictions.clone(), evictions.clone());
    Controller::new_with("taint-eviction-controller", NODE.source(), reconcile)
        .filter(Predicate::new(move |event: &Event<Node>| by_nodes.follow_node(event)))
        .watches_with(
            POD.source().index(pod::by_node()),
            Trigger::events(move |event: &Event<Pod>| by_pods.node_of(event)),
        )
        .stream("toleration", due)
        .field_manager(MANAGER)
        .event_source("taint-eviction-controller")
        .state(evictions)
}

/// Returns the `NoExecute` taints of a node.
fn taints(node: &Node) -> Vec<&Tree> {
    node.list("spec/taints").iter().filter(|taint| taint.is("effect", "NoExecute")).collect()
}

impl Evictions {
    /// Follows the taints of a node. Returns whether there are `NoExecute` taints, or were.
    fn follow_node(&self, event: &Event<Node>) -> bool {
        let name = event.object().name();
        let Some(node) = event.new_object() else {
            self.tainted.lock().remove(name);
            self.due.lock().remove(name);
            return false;
        };
        let mut tainted = self.tainted.lock();
        match taints(node).is_empty() {
            true => tainted.remove(name),
            false => {
                tainted.insert(name.to_owned());
                event.old().is_none_or(|old| taints(old) != taints(node))
            }
        }
    }

    /// Returns the key of a tainted node whose pod was bound to it, or tolerates other taints than before.
    fn node_of(&self, event: &Event<Pod>) -> Option<Request> {
        let node = pod::node_name(event.object())?;
        if !self.tainted.lock().contains(node) {
            return None;
        }
        let same = |old: &Arc<Pod>, new: &Arc<Pod>| {
            pod::node_name(old) == pod::node_name(new)
                && old.at("spec/tolerations") == new.at("spec/tolerations")
        };
        let changed = match (event.old(), event.new_object()) {
            (Some(old), Some(new)) => !same(old, new),
            _ => true,
        };
        changed.then(|| Request::cluster(node))
    }
}

async fn reconcile(node: Arc<Node>, ctx: Ctx<Evictions>) -> Result<Action> {
    let now = Instant::now();
    let taints = taints(&node);
    let mut due = ctx.state().due.lock().remove(node.name()).unwrap_or_default();
    let (mut later, mut wakes) = (BTreeMap::new(), Wakes::default());
    for pod in ctx.kind(&POD).cache()?.by_index(pod::BY_NODE, node.name())? {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let known = due.remove(&uid);
        if pod.is_deleting() {
            continue;
        }
        let at = match tolerance::of(pod.at("spec"), &taints) {
            Tolerance::Forever => None,
            Tolerance::None => Some(now),
            // A pod that waits for its eviction keeps the time that it was given first.
            Tolerance::For(time) => known.or_else(|| now.checked_add(time)),
        };
        let (namespace, name) = (pod.in_namespace(), pod.name());
        match at {
            Some(at) if at <= now => {
                let note = format!("Marking for deletion Pod {namespace}/{name}");
                ctx.kind(&POD).event(&pod, "TaintManagerEviction", note);
                disruption_target::mark_and_delete(&ctx, &pod, REASON, MESSAGE).await?;
            }
            Some(at) => {
                wakes.add(at - now);
                later.insert(uid, at);
            }
            None if known.is_some() => {
                let note = format!("Cancelling deletion of Pod {namespace}/{name}");
                ctx.kind(&POD).event(&pod, "TaintManagerEviction", note);
            }
            None => {}
        }
    }
    if !later.is_empty() {
        ctx.state().due.lock().insert(node.name().to_owned(), later);
    }
    ctx.state().reminders.set(ctx.request(), wakes.upkeep);
    Ok(wakes.work.map_or_else(Action::await_change, Action::requeue))
}
