//! Deletes pods on behalf of a controller, with an event about each.

use evenkeel_runtime::{Ctx, Result};

use crate::api_error;
use crate::kinds::{POD, Pod};
use crate::object::{Kind, Object, OfKind};

/// Deletes a pod, and records an event about `owner`, the object for which its controller does this.
pub(crate) async fn delete_with_event<S>(
    ctx: &Ctx<S>,
    (kind, owner): (&'static Kind, &Object),
    pod: &Pod,
) -> Result<()> {
    let owners = ctx.kind(kind);
    match ctx.kind(&POD).delete(pod).await {
        Ok(_) => {
            owners.event(owner, "SuccessfulDelete", format!("Deleted pod: {}", pod.name()));
            Ok(())
        }
        Err(error) => {
            owners.warning(owner, "FailedDelete", format!("Error deleting: {}", api_error::message(&error)));
            Err(error.into())
        }
    }
}
