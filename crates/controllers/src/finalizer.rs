//! Removes finalizers.

use evenkeel_runtime::{Ctx, Request, Result, ResultExt};
use kube::core::params::Patch;
use serde_json::json;

use crate::object::{Kind, Object, OfKind};

/// Removes a finalizer from an object, unless the object has changed since it was read.
pub(crate) async fn remove<S>(
    ctx: &Ctx<S>,
    kind: &'static Kind,
    object: &Object,
    finalizer: &str,
) -> Result<()> {
    let metadata = &object.metadata;
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    let before = finalizers.len();
    finalizers.retain(|present| present != finalizer);
    if finalizers.len() == before {
        return Ok(());
    }
    let finalizers = if finalizers.is_empty() { json!(null) } else { json!(finalizers) };
    let patch = json!({"metadata": {
        "uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers}});
    ctx.kind(kind).patch(&Request::of(object), &Patch::Merge(patch)).await.ignore_not_found()?;
    Ok(())
}
