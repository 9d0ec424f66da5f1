//! Deletion of unreadable objects, by the option `ignoreStoreReadErrorWithClusterBreakingPotential`.
//!
//! In Kubernetes v1.36 the option is behind a feature gate that is off by default, and is ignored then. This
//! server ignores it for readable objects, but honors it for unreadable ones, because nothing else can delete
//! them. The user needs a permission for it besides that to delete.

use evenkeel_schema::json::Value;

use super::{DeleteOptions, IGNORE_READ_ERROR};
use crate::access::{Attributes, Decision, Target};
use crate::commit::{RETRIES_MAX, remove};
use crate::context::RequestContext;
use crate::status::{Result, Status};
use crate::storage;

/// The verb that the user needs besides `delete`.
const VERB: &str = "unsafe-delete-ignore-read-errors";
/// The audit annotation of each attempt.
const ANNOTATION: &str = "apiserver.k8s.io/unsafe-delete-ignore-read-error";

/// Removes the object that the path names, if it is unreadable; `None` if it is readable or missing. As in
/// Kubernetes, this skips finalizers and admission, because the content of the object is not known.
///
/// # Errors
/// If other options do not fit this one, or the user lacks the permission.
pub(super) async fn delete_damaged(
    ctx: &RequestContext<'_>,
    options: &DeleteOptions,
) -> Result<Option<Status>> {
    let key = ctx.key();
    for _ in 0..RETRIES_MAX {
        let Some(entry) = ctx.services.store.get(&key) else { return Ok(None) };
        if storage::read::<Value>(&entry).is_ok() {
            return Ok(None);
        }
        options.validate_ignored_read_error()?;
        if let Some(trail) = ctx.audit {
            trail.annotate(ANNOTATION, "");
        }
        authorize(ctx)?;
        if remove(ctx, &key, entry.revision).await?.is_ok() {
            tracing::warn!(key, user = ctx.user.name, "an object that cannot be read was deleted");
            return Ok(Some(Status::deleted("", &ctx.info.kind, &ctx.path.name, "")));
        }
    }
    Err(super::super::update::conflict(ctx))
}

fn authorize(ctx: &RequestContext<'_>) -> Result<()> {
    let refuse = |why: &str| {
        let info = &ctx.info;
        Err(Status::not_admitted(&info.group, &info.plural, &ctx.path.name, why))
    };
    if !ctx.path.subresource.is_empty() {
        return refuse(&format!(
            "{IGNORE_READ_ERROR} delete option is not allowed on a subresource or non-resource request"
        ));
    }
    let target = Target::resource(ctx.path, &ctx.path.name);
    match ctx.services.authorizer.authorize(&Attributes { user: ctx.user, verb: VERB, target }) {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) => refuse(&format!("not permitted to do {VERB:?}, reason: {reason}")),
    }
}
