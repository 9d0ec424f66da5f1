//! The object that a creation is compared with: what Go's zero value of the kind prints.
//!
//! Parts that are never absent in Go (`spec` of a Pod) are there from the beginning; nobody adds them, so nobody
//! owns them as such.

use super::Context;
use crate::json::Value;

/// The empty object of a kind. A custom one has nothing but its type.
pub(super) fn object(ctx: &Context<'_>) -> Value {
    let mut object = type_meta(ctx);
    let (group, version) = crate::kinds::split_api_version(ctx.api_version);
    crate::normalize::normalize(group, version, ctx.kind, &mut object);
    object
}

/// An object that has nothing but its type.
pub(super) fn type_meta(ctx: &Context<'_>) -> Value {
    serde_json::json!({"apiVersion": ctx.api_version, "kind": ctx.kind})
}
