//! Simulated nodes: they register, renew their leases, and run the pods that are bound to them.
//!
//! A node that is [stopped](STOPPED) is lost after a while, as a machine without power.
//!
//! [`behaviour`] describes what a container does on its node, and the words with which annotations, [`rules`] and tests
//! change that. [`logs`] holds what containers print.
//!
//! The pure core is `lifecycle`, which moves a pod forward by moving each `container`; `probe`, `script`, `references`
//! and `status` handle its parts, and `bounds` says what commands may take. `kubelet` is the adapter to the API server.
//!
//! *Invariant:* nodes write pods only through `/status`, and delete stopped pods with a grace period of zero.

mod addresses;
mod admission;
pub mod behaviour;
mod bounds;
mod container;
mod container_ids;
mod events;
mod kubelet;
mod lifecycle;
pub mod logs;
mod probe;
mod references;
pub(crate) mod registration;
mod restart_all;
pub mod rules;
mod script;
mod status;
mod wake;

pub(crate) use kubelet::kubelet;
pub(crate) use wake::Wakes;

pub(crate) use registration::LEASES;
pub use registration::NodeOptions;

use std::collections::BTreeSet;

use evenkeel_runtime::{Action, Controller, Ctx, Request, Result, ResultExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::core::DynamicObject;
use kube::core::params::Patch;
use parking_lot::Mutex;
use serde_json::json;

use crate::clock;
use crate::kinds::{LEASE, NODE, Node};
use crate::object::{Fields, OfKind};

/// The field manager of the nodes.
pub(crate) const MANAGER: &str = "kubelet";

/// The annotation of a Node object whose node has stopped, as if its machine had lost power: with the value `true`, the
/// node no longer renews its lease, and does nothing for its pods.
pub const STOPPED: &str = "node.evenkeel.dev/stopped";

/// Whether a node has stopped.
fn is_stopped(node: &Node) -> bool {
    node.annotation(STOPPED) == Some("true")
}

/// The state of the controller that registers the nodes.
#[derive(Debug)]
struct Registrar {
    options: NodeOptions,
    /// The nodes that have been registered once. A node that is deleted stays away, as a machine does until its kubelet is
    /// started again.
    registered: Mutex<BTreeSet<usize>>,
}

/// The controller that registers the nodes and renews their leases.
pub(crate) fn registrar(options: &NodeOptions) -> Controller<DynamicObject> {
    let keys: Vec<_> = (0..options.count).map(|index| Request::cluster(registration::name(index))).collect();
    // Nodes that are already registered only need their leases renewed.
    let (unregistered, registered) = match options.registered {
        true => (Vec::new(), (0..options.count).collect()),
        false => (keys.clone(), BTreeSet::new()),
    };
    Controller::without_primary("node-registrar", register)
        .at_start("start", unregistered)
        .every(options.heartbeat, move || keys.clone())
        .field_manager(MANAGER)
        .state(Registrar { options: options.clone(), registered: Mutex::new(registered) })
}

async fn register(key: Request, ctx: Ctx<Registrar>) -> Result<Action> {
    let Registrar { options, registered } = ctx.state();
    let Some(index) = (0..options.count).find(|index| registration::name(*index) == *key.name) else {
        return Ok(Action::await_change());
    };
    let now = clock::seconds(ctx.now());
    let nodes = ctx.kind(&NODE);
    let node = match nodes.fetch(&key).await? {
        Some(node) => node,
        None if registered.lock().contains(&index) => return Ok(Action::await_change()),
        None => nodes.create_unowned(registration::node(options, index, now)).await?,
    };
    registered.lock().insert(index);
    if is_stopped(&node) {
        return Ok(Action::await_change());
    }
    let ready = node.at("status").condition("Ready").is_some_and(|ready| ready.is("status", "True"));
    if !ready {
        let healthy = registration::status(options, index, now);
        nodes.status(&node, registration::recovered(node.at("status"), &healthy)).await?;
    } else if let Some(status) = registration::with_extended(node.at("status")) {
        nodes.status(&node, status).await?;
    }
    beat(&ctx, &node).await?;
    Ok(Action::await_change())
}

async fn beat(ctx: &Ctx<Registrar>, node: &Node) -> Result<()> {
    let lease = registration::lease(node, ctx.now());
    let key = Request::of(&lease);
    let patch = Patch::Merge(json!({"spec": {"renewTime": MicroTime(ctx.now())}}));
    let leases = ctx.kind(&LEASE);
    if leases.patch(&key, &patch).await.ignore_not_found()?.is_none() {
        leases.create_unowned(lease).await.ignore_already_exists()?;
    }
    Ok(())
}
