//! Deletes objects whose time is over.

use std::time::Duration;

use evenkeel_runtime::{Action, Ctx, Result};
use jiff::Timestamp;
use kube::core::params::{DeleteParams, Preconditions};

use crate::clock::{self, Reminders};
use crate::object::{Kind, Object, OfKind};

/// Deletes the reconciled object at `end`, or sets a reminder until then. Does nothing if there is no end, or if the
/// object is being deleted. The deletion fails if the object has changed since it was read.
pub(crate) async fn delete_at(
    ctx: &Ctx<Reminders>,
    (kind, object): (&'static Kind, &Object),
    end: Option<Timestamp>,
    params: DeleteParams,
) -> Result<Action> {
    let Some(end) = end.filter(|_| !object.is_deleting()) else { return Ok(Action::await_change()) };
    let left = Duration::try_from(end.duration_since(clock::seconds(ctx.now()))).unwrap_or(Duration::ZERO);
    if !left.is_zero() {
        ctx.state().set(ctx.request(), Some(left));
        return Ok(Action::await_change());
    }
    let (uid, resource_version) = (object.metadata.uid.clone(), object.metadata.resource_version.clone());
    let params = params.preconditions(Preconditions { uid, resource_version });
    ctx.kind(kind).delete_with(ctx.request(), &params).await?;
    Ok(Action::await_change())
}
