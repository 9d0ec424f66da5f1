//! The object that a created object is compared with: Go's zero value of the kind.
//!
//! Structs that are never absent in Go, such as `spec` of a Pod, are part of it. No manager adds them, so no manager owns
//! them.

use super::Context;
use crate::json::Value;

/// The zero value of a kind. That of a custom resource has only `apiVersion` and `kind`.
pub(super) fn object(ctx: &Context<'_>) -> Value {
    let mut object = type_meta(ctx);
    let (group, version) = crate::api_resources::split_api_version(ctx.api_version);
    crate::normalize::normalize(group, version, ctx.kind, &mut object);
    object
}

/// An object that has only `apiVersion` and `kind`.
pub(super) fn type_meta(ctx: &Context<'_>) -> Value {
    crate::json::json!({"apiVersion": ctx.api_version, "kind": ctx.kind})
}
