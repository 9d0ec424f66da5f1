//! Evicts the pods that [`preemption`](super::preemption) has chosen.

use std::sync::Arc;

use evenkeel_runtime::{Ctx, EventType, Request, Result, ResultExt};
use kube::core::params::Patch;
use parking_lot::Mutex;
use serde_json::json;

use super::{SchedulerState, preemption, queue, tell};
use crate::disruption_target;
use crate::kinds::{POD, Pod};
use crate::object::OfKind;

/// Evicts the victims on a node, so that a pod of higher priority can be placed there. Pods of lower priority that were
/// nominated to the node lose their nomination and are scheduled again.
pub(super) async fn make_room(
    ctx: &Ctx<Mutex<SchedulerState>>,
    pod: &Pod,
    node: &str,
    victims: &[Arc<Pod>],
) -> Result<()> {
    let priority = queue::priority(pod);
    let displaced: Vec<_> = {
        let state = ctx.state().lock();
        let nominated = state.cache.nominated(node);
        nominated.map(|it| it.pod.clone()).filter(|other| queue::priority(other) < priority).collect()
    };
    for other in displaced {
        let patch = Patch::Strategic(json!({"status": {"nominatedNodeName": null}}));
        let key = Request::of(&*other);
        ctx.kind(&POD).patch_subresource("status", &key, &patch).await.ignore_not_found()?;
        let mut state = ctx.state().lock();
        state.cache.nominate(&other, None);
        state.queue.add(key, queue::priority(&other));
    }
    for victim in victims.iter().filter(|victim| !victim.is_deleting()) {
        let message = format!("{}: preempting to accommodate a higher priority pod", queue::NAME);
        if disruption_target::mark_and_delete(ctx, victim, preemption::REASON, &message).await? {
            let uid = pod.metadata.uid.as_deref().unwrap_or_default();
            let note = format!("Preempted by pod {uid} on node {node}");
            tell(ctx, (victim, Some(pod)), EventType::Normal, ("Preempted", "Preempting"), note);
        }
    }
    Ok(())
}
