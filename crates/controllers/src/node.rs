//! Simulated nodes: they register, renew their leases, and run the pods that are bound to them.
//!
//! [`behaviour`] describes what a pod does on its node, and the annotations by which a test changes that.
//!
//! *Invariant:* nodes write pods through `/status` alone, and delete stopped pods with a grace period of zero.

mod addresses;
pub mod behaviour;
mod container_ids;
mod lifecycle;
pub(crate) mod registration;
mod status;

pub(crate) use registration::LEASES;
pub use registration::NodeOptions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use addresses::Addresses;
use evenkeel_runtime::{Action, Controller, Ctx, Event, Predicate, Request, Result, ResultExt, Trigger};
use evenkeel_tree::Tree;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::DynamicObject;
use kube::core::params::{DeleteParams, Patch, Preconditions};
use lifecycle::{NextStep, Stage};
use parking_lot::Mutex;
use serde_json::json;
use status::Host;
use tokio::time::Instant;

use crate::clock::{self, Reminders};
use crate::kinds::{LEASE, NODE, Node, POD, Pod};
use crate::object::{Fields, Object, OfKind, write_status};
use crate::pod;

/// The field manager of the nodes.
pub(crate) const MANAGER: &str = "kubelet";

/// How often a node renews its lease: kubelet's value, a quarter of the duration of the lease.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How many pods are reconciled at once.
const CONCURRENT: usize = 8;

/// The controller that registers the nodes and renews their leases.
pub(crate) fn registrar(options: &NodeOptions) -> Controller<DynamicObject> {
    let keys: Vec<_> = (0..options.count).map(|index| Request::cluster(registration::name(index))).collect();
    // Nodes that are registered already are only to be kept alive.
    let unregistered = if options.registered { Vec::new() } else { keys.clone() };
    Controller::without_primary("node-registrar", register)
        .at_start("start", unregistered)
        .every(HEARTBEAT, move || keys.clone())
        .field_manager(MANAGER)
        .state(options.clone())
}

async fn register(key: Request, ctx: Ctx<NodeOptions>) -> Result<Action> {
    let options = ctx.state();
    let Some(index) = (0..options.count).find(|index| registration::name(*index) == *key.name) else {
        return Ok(Action::await_change());
    };
    let now = clock::seconds(ctx.now());
    let nodes = ctx.kind(&NODE);
    let node = match nodes.fetch(&key).await? {
        Some(node) => node,
        None => nodes.create_unowned(registration::node(options, index, now)).await?,
    };
    let ready = node.at("status").condition("Ready").is_some_and(|ready| ready.is("status", "True"));
    if !ready {
        nodes.status(&node, registration::status(options, index, now)).await?;
    }
    beat(&ctx, &node).await?;
    Ok(Action::await_change())
}

async fn beat(ctx: &Ctx<NodeOptions>, node: &Node) -> Result<()> {
    let lease = registration::lease(node, ctx.now());
    let key = Request::of(&lease);
    let patch = Patch::Merge(json!({"spec": {"renewTime": MicroTime(ctx.now())}}));
    let leases = ctx.kind(&LEASE);
    if leases.patch(&key, &patch).await.ignore_not_found()?.is_none() {
        leases.create_unowned(lease).await.ignore_already_exists()?;
    }
    Ok(())
}

/// The state that the kubelets of all nodes share.
#[derive(Debug)]
struct Kubelets {
    count: usize,
    addresses: Mutex<BTreeMap<usize, Addresses>>,
    /// The stage of each pod, and since when. Times in a status have whole seconds, but stages are shorter.
    since: Mutex<BTreeMap<String, (Stage, Instant)>>,
    reminders: Reminders,
}

/// The controller that runs the pods of all nodes.
pub(crate) fn kubelet(options: &NodeOptions) -> Controller<Object> {
    let (reminders, due) = Reminders::channel();
    let kubelets = Arc::new(Kubelets {
        count: options.count,
        addresses: Mutex::default(),
        since: Mutex::default(),
        reminders,
    });
    let (ours, gone) = (kubelets.clone(), kubelets.clone());
    Controller::new_with("kubelet", POD.source(), reconcile)
        .filter(Predicate::new(move |event: &Event<Pod>| ours.node_of(event.object()).is_some()))
        .watches_with(POD.source(), Trigger::events(move |event| gone.follow(event)))
        .stream("restart", due)
        .field_manager(MANAGER)
        .max_concurrent(CONCURRENT)
        .state(kubelets)
}

impl Kubelets {
    /// Returns the index of the simulated node that the pod is bound to.
    fn node_of(&self, pod: &Pod) -> Option<usize> {
        let number: usize = pod::node_name(pod)?.strip_prefix("node-")?.parse().ok()?;
        (1..=self.count).contains(&number).then(|| number - 1)
    }

    /// Follows the addresses of the pods. Triggers no reconcile.
    fn follow(&self, event: &Event<Pod>) -> Option<Request> {
        let pod = event.object();
        let (node, uid) = (self.node_of(pod)?, pod.metadata.uid.as_deref()?);
        let mut addresses = self.addresses.lock();
        let addresses = addresses.entry(node).or_default();
        match event.new_object().and_then(|pod| pod.str("status/podIP")) {
            Some(address) => addresses.observe(node, uid, address),
            None if event.new_object().is_none() => {
                addresses.forget(uid);
                self.since.lock().remove(uid);
            }
            None => {}
        }
        None
    }

    /// Returns how much of the delay `after` is left for a pod in this stage; `None` when it is over.
    fn left(&self, uid: &str, stage: Stage, after: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut since = self.since.lock();
        let entry = since.entry(uid.to_owned()).or_insert((stage, now));
        if entry.0 != stage {
            *entry = (stage, now);
        }
        let due = entry.1 + after;
        (due > now).then(|| due - now)
    }
}

async fn reconcile(pod: Arc<Pod>, ctx: Ctx<Kubelets>) -> Result<Action> {
    let kubelets = ctx.state();
    let (Some(node), Some(uid)) = (kubelets.node_of(&pod), pod.metadata.uid.as_deref()) else {
        return Ok(Action::await_change());
    };
    let host = Host {
        address: registration::address(node),
        pod_address: kubelets.addresses.lock().entry(node).or_default().of(node, uid),
        now: clock::seconds(ctx.now()),
    };
    let stage = lifecycle::stage(&pod);
    let next = lifecycle::next(&pod, &host);
    let (after, upkeep) = match &next {
        NextStep::Rest => return Ok(Action::await_change()),
        NextStep::Write { after, upkeep, .. } => (*after, *upkeep),
        NextStep::Remove { after, .. } => (*after, false),
    };
    if let Some(left) = kubelets.left(uid, stage, after) {
        if upkeep {
            kubelets.reminders.set(ctx.request(), Some(left));
            return Ok(Action::await_change());
        }
        return Ok(Action::requeue(left));
    }
    match next {
        NextStep::Rest => {}
        NextStep::Write { status, .. } => {
            write(&ctx, &pod, &status).await?;
            tell(&ctx, &pod, stage);
        }
        NextStep::Remove { status, .. } => {
            write(&ctx, &pod, &status).await?;
            remove(&ctx, &pod).await?;
        }
    }
    Ok(Action::await_change())
}

async fn write(ctx: &Ctx<Kubelets>, pod: &Pod, status: &Tree) -> Result<()> {
    write_status(ctx, &POD, pod, status).await.ignore_not_found()?;
    Ok(())
}

async fn remove(ctx: &Ctx<Kubelets>, pod: &Pod) -> Result<()> {
    let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
    let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }
        .preconditions(preconditions);
    ctx.kind(&POD).delete_with(&Request::of(pod), &params).await?;
    Ok(())
}

/// Records the events that `kubectl describe pod` shows.
fn tell(ctx: &Ctx<Kubelets>, pod: &Pod, left: Stage) {
    let pods = ctx.kind(&POD);
    for name in pod.list("spec/containers").iter().filter_map(|container| container.str("name")) {
        match left {
            Stage::Starting(_) => pods.event(pod, "Started", format!("Started container {name}")),
            Stage::BackingOff(_) => {
                let note = format!("Back-off restarting failed container {name} in pod {}", pod.name());
                pods.warning(pod, "BackOff", note);
            }
            _ => {}
        }
    }
}
