//! Removes finalizers.

use evenkeel_runtime::{Ctx, Object, Result, ResultExt};
use kube::core::params::Patch;
use serde_json::json;

/// Removes a finalizer from an object, unless the object has changed since it was read.
pub(crate) async fn remove<K: Object<DynamicType = ()>, S>(
    ctx: &Ctx<S>,
    object: &K,
    finalizer: &str,
) -> Result<()> {
    let metadata = object.meta();
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    let before = finalizers.len();
    finalizers.retain(|present| present != finalizer);
    if finalizers.len() == before {
        return Ok(());
    }
    let finalizers = if finalizers.is_empty() { json!(null) } else { json!(finalizers) };
    let patch = json!({"metadata": {
        "uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers}});
    ctx.patch(object, &Patch::Merge(patch)).await.ignore_not_found()?;
    Ok(())
}
