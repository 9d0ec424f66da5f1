//! The garbage collector: it deletes objects whose owners are gone.
//!
//! The [`graph`] follows all objects and tells which of them must be checked. A check reads owners that the graph does not
//! know from the API server, [`decide`]s, and acts on the live object. So a watch that lags behind can delay a deletion
//! but never cause a wrong one.

mod decide;
mod graph;

use std::collections::BTreeSet;
use std::sync::Arc;

use decide::{Decision, OwnerState, Propagation, decide};
use evenkeel_runtime::recorder::EventType;
use evenkeel_runtime::{Action, Controller, Ctx, Env, EventMeta, Request, Result, ResultExt};
use futures::Stream;
use graph::{FOREGROUND, Graph, Node, ORPHAN, is_reachable};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::DynamicObject;
use kube::core::params::{DeleteParams, Patch, Preconditions, PropagationPolicy};
use parking_lot::Mutex;
use serde_json::json;

use crate::MANAGER;
use crate::key_channel::{self, KeySender};
use crate::metadata_informers::{Metadata, MetadataInformers, Resource};

/// How many objects are checked at once: Kubernetes' default.
const CONCURRENT: usize = 20;

/// The graph of owners and dependents, which the metadata informers update.
pub(crate) struct GarbageCollector {
    graph: Mutex<Graph>,
    /// The uids of objects with an owner of an unknown kind, or of a kind that is not watched. They are checked again
    /// when the list of known or watched kinds changes.
    unresolved: Mutex<BTreeSet<String>>,
    keys: KeySender,
}

impl GarbageCollector {
    /// A garbage collector, and the stream of the uids to check.
    pub(crate) fn new(env: &Env) -> (Arc<Self>, impl Stream<Item = Request> + Send + 'static) {
        let (keys, due) = key_channel::channel(env, "garbage collector: objects to check");
        (Arc::new(Self { graph: Mutex::default(), unresolved: Mutex::default(), keys }), due)
    }

    /// Follows a change of an object of any kind.
    pub(crate) fn follow(&self, resource: &Arc<Resource>, event: &EventMeta<'_>) {
        if let (Some(old), Some(new)) = (event.old, event.new)
            && is_same_node(old, new)
        {
            return;
        }
        let concerned = match event.new {
            Some(metadata) => match Node::new(resource, metadata) {
                Some(node) => self.replace(event, node),
                None => return,
            },
            None => {
                let uid = event.old.and_then(|old| old.uid.clone()).unwrap_or_default();
                self.unresolved.lock().remove(&uid);
                self.graph.lock().forget(&uid)
            }
        };
        concerned.into_iter().for_each(|uid| self.keys.send(Request::cluster(uid)));
    }

    /// Replaces a node. The object may have a new uid if the watch missed a deletion.
    fn replace(&self, event: &EventMeta<'_>, node: Node) -> BTreeSet<String> {
        let mut graph = self.graph.lock();
        let before = event.old.and_then(|old| old.uid.clone()).filter(|uid| *uid != node.uid);
        let mut concerned = before.map(|uid| graph.forget(&uid)).unwrap_or_default();
        concerned.extend(graph.observe(node));
        concerned
    }

    /// Checks the objects with an owner of unknown kind again, because the list of kinds has changed.
    pub(crate) fn kinds_changed(&self) {
        let again = std::mem::take(&mut *self.unresolved.lock());
        again.into_iter().for_each(|uid| self.keys.send(Request::cluster(uid)));
    }
}

/// Whether two states of an object are equal for the graph. Most changes of an object affect neither its owners nor its
/// deletion.
fn is_same_node(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    old.uid == new.uid
        && old.owner_references == new.owner_references
        && old.finalizers == new.finalizers
        && old.deletion_timestamp.is_some() == new.deletion_timestamp.is_some()
}

/// The state of the controller.
struct CollectorState {
    collector: Arc<GarbageCollector>,
    informers: Arc<MetadataInformers>,
}

/// The controller that checks objects for garbage.
pub(crate) fn controller(
    collector: Arc<GarbageCollector>,
    informers: Arc<MetadataInformers>,
    due: impl Stream<Item = Request> + Send + 'static,
) -> Controller<DynamicObject> {
    Controller::without_primary("garbage-collector-controller", reconcile)
        .wakes_on_any_use()
        .stream("owner or dependent changed", due)
        .field_manager(MANAGER)
        .event_source("garbage-collector-controller")
        .max_concurrent(CONCURRENT)
        .state(CollectorState { collector, informers })
}

async fn reconcile(key: Request, ctx: Ctx<CollectorState>) -> Result<Action> {
    let node = ctx.state().collector.graph.lock().get(&key.name).cloned();
    let Some(node) = node else { return Ok(Action::await_change()) };
    if node.orphans_dependents() {
        orphan(&ctx, &node).await?;
    } else if node.waits_for_dependents() {
        let blocked =
            ctx.state().collector.graph.lock().dependents(&node.uid).any(|other| other.blocks(&node.uid));
        if !blocked {
            remove_finalizer(&ctx, &node, FOREGROUND).await?;
        }
    } else if !node.deleting && !node.owners.is_empty() {
        check_owners(&ctx, node).await?;
    }
    Ok(Action::await_change())
}

/// Checks the owners of an object, first as the graph shows it. Unless all owners exist, reads the object and checks again.
async fn check_owners(ctx: &Ctx<CollectorState>, node: Node) -> Result<()> {
    let states = states(ctx, &node).await?;
    if states.iter().all(|state| *state == OwnerState::Solid) {
        return Ok(());
    }
    let Some(live) = fetch(ctx, &node).await? else { return Ok(()) };
    let Some(node) = Node::new(&node.resource, &live).filter(|live| live.uid == node.uid) else {
        return Ok(());
    };
    let states = self::states(ctx, &node).await?;
    let dependents: Vec<_> = ctx.state().collector.graph.lock().dependents(&node.uid).cloned().collect();
    match decide(&node, &states, !dependents.is_empty()) {
        Decision::Keep => Ok(()),
        Decision::Disown(owners) => set_owners(ctx, &node, &live, &owners).await,
        Decision::Delete(propagation) => {
            if propagation == Propagation::Foreground && dependents.iter().any(Node::waits_for_dependents) {
                unblock(ctx, &node, &live).await?;
            }
            delete(ctx, &node, &live, propagation).await
        }
    }
}

async fn states(ctx: &Ctx<CollectorState>, node: &Node) -> Result<Vec<OwnerState>> {
    let mut states = Vec::with_capacity(node.owners.len());
    for owner in &node.owners {
        states.push(state(ctx, node, owner).await?);
    }
    Ok(states)
}

async fn state(ctx: &Ctx<CollectorState>, node: &Node, owner: &OwnerReference) -> Result<OwnerState> {
    let known = ctx.state().collector.graph.lock().get(&owner.uid).cloned();
    if let Some(known) = known.filter(|known| is_reachable(known, node) && known.name == owner.name) {
        return Ok(if known.waits_for_dependents() { OwnerState::Waiting } else { OwnerState::Solid });
    }
    let Some(resource) = ctx.state().informers.find(&owner.api_version, &owner.kind) else {
        ctx.state().collector.unresolved.lock().insert(node.uid.clone());
        return Ok(OwnerState::Unknown);
    };
    if resource.namespaced && node.namespace.is_none() {
        record_invalid_owner(ctx, node, owner);
        return Ok(OwnerState::Unknown);
    }
    let namespace = node.namespace.as_deref().filter(|_| resource.namespaced);
    let key = Request::new(namespace, owner.name.as_str());
    let live = ctx.objects::<Metadata>(resource.api.clone()).fetch(&key).await?;
    let live =
        live.and_then(|live| Node::new(&resource, &live.metadata)).filter(|live| live.uid == owner.uid);
    if live.is_some() && !ctx.state().informers.is_followed(&resource) {
        ctx.state().collector.unresolved.lock().insert(node.uid.clone());
    }
    Ok(match live {
        Some(live) if live.waits_for_dependents() => OwnerState::Waiting,
        Some(_) => OwnerState::Solid,
        None => {
            let in_other_namespace = ctx.state().collector.graph.lock().get(&owner.uid).is_some();
            if in_other_namespace {
                record_invalid_owner(ctx, node, owner);
            }
            OwnerState::Absent
        }
    })
}

/// Records an event about an owner reference that can never be valid.
fn record_invalid_owner(ctx: &Ctx<CollectorState>, node: &Node, owner: &OwnerReference) {
    let namespace = node.namespace.as_deref().unwrap_or_default();
    let note = format!(
        "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace \"{namespace}\"",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    let about = ObjectReference {
        api_version: Some(node.resource.api.api_version.clone()),
        kind: Some(node.resource.api.kind.clone()),
        namespace: node.namespace.clone(),
        name: Some(node.name.clone()),
        uid: Some(node.uid.clone()),
        ..ObjectReference::default()
    };
    ctx.recorder().record_about(about, EventType::Warning, "OwnerRefInvalidNamespace", note);
}

/// Removes the owner reference from all dependents, then the finalizer from the owner.
async fn orphan(ctx: &Ctx<CollectorState>, node: &Node) -> Result<()> {
    let dependents: Vec<_> = ctx.state().collector.graph.lock().dependents(&node.uid).cloned().collect();
    for dependent in dependents {
        let Some(live) = fetch(ctx, &dependent).await? else { continue };
        let mut owners = live.owner_references.clone().unwrap_or_default();
        owners.retain(|owner| owner.uid != node.uid);
        set_owners(ctx, &dependent, &live, &owners).await?;
    }
    remove_finalizer(ctx, node, ORPHAN).await
}

/// Lets the object no longer block its owners. Otherwise two objects could wait for each other for ever.
async fn unblock(ctx: &Ctx<CollectorState>, node: &Node, live: &ObjectMeta) -> Result<()> {
    let mut owners = live.owner_references.clone().unwrap_or_default();
    owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
    set_owners(ctx, node, live, &owners).await
}

async fn fetch(ctx: &Ctx<CollectorState>, node: &Node) -> Result<Option<ObjectMeta>> {
    let live = ctx.objects::<Metadata>(node.resource.api.clone()).fetch(&key_of(node)).await?;
    Ok(live.map(|live| live.metadata).filter(|live| live.uid.as_ref() == Some(&node.uid)))
}

async fn set_owners(
    ctx: &Ctx<CollectorState>,
    node: &Node,
    live: &ObjectMeta,
    owners: &[OwnerReference],
) -> Result<()> {
    if live.owner_references.as_deref().unwrap_or_default() == owners {
        return Ok(());
    }
    let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
    patch(
        ctx,
        node,
        json!({"metadata": {"resourceVersion": live.resource_version, "ownerReferences": owners}}),
    )
    .await
}

async fn remove_finalizer(ctx: &Ctx<CollectorState>, node: &Node, finalizer: &str) -> Result<()> {
    let Some(live) = fetch(ctx, node).await? else { return Ok(()) };
    let mut finalizers = live.finalizers.clone().unwrap_or_default();
    let before = finalizers.len();
    finalizers.retain(|present| present != finalizer);
    if finalizers.len() == before {
        return Ok(());
    }
    patch(
        ctx,
        node,
        json!({"metadata": {"resourceVersion": live.resource_version, "finalizers": finalizers}}),
    )
    .await
}

async fn patch(ctx: &Ctx<CollectorState>, node: &Node, body: serde_json::Value) -> Result<()> {
    let objects = ctx.objects::<Metadata>(node.resource.api.clone());
    objects.patch(&key_of(node), &Patch::Merge(body)).await.ignore_not_found()?;
    Ok(())
}

async fn delete(
    ctx: &Ctx<CollectorState>,
    node: &Node,
    live: &ObjectMeta,
    propagation: Propagation,
) -> Result<()> {
    let policy = match propagation {
        Propagation::Background => PropagationPolicy::Background,
        Propagation::Foreground => PropagationPolicy::Foreground,
        Propagation::Orphan => PropagationPolicy::Orphan,
    };
    // The precondition is the uid alone: our own patch may have changed the resource version.
    let preconditions = Preconditions { uid: live.uid.clone(), resource_version: None };
    let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() }
        .preconditions(preconditions);
    ctx.objects::<Metadata>(node.resource.api.clone()).delete_with(&key_of(node), &params).await?;
    Ok(())
}

fn key_of(node: &Node) -> Request {
    Request::new(node.namespace.as_deref(), node.name.as_str())
}
