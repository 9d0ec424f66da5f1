//! Deletes pods on behalf of a controller, and tells so in its events.

use evenkeel_runtime::{Ctx, Result};

use crate::api_error;
use crate::kinds::{POD, Pod};
use crate::object::{Kind, Object, OfKind};

/// Deletes a pod, and records an event about the object whose controller does that.
pub(crate) async fn delete_told<S>(
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
