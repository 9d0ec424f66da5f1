//! The subresource `pods/eviction`: deleting a pod as far as its disruption budget allows.

mod budget;

use bytes::Bytes;
use evenkeel_schema::field::FieldError;
use evenkeel_schema::json::{Value, json};
use evenkeel_store::{Entry, Expect};
use http::Response;

use super::{created, decode_other};
use crate::Header;
use crate::body::Body;
use crate::commit::{RETRIES_MAX, put};
use crate::context::RequestContext;
use crate::decode::Expected;
use crate::incoming::write_query;
use crate::status::{Result, Status};
use crate::storage;
use crate::storage::ManagedFields;
use crate::write::{DeleteOptions, IGNORE_READ_ERROR, check_preconditions, conflict, delete_object};

/// The decision on an eviction.
enum Verdict {
    /// The pod may be deleted, even if it changes in the meantime.
    Free,
    /// The pod may be deleted in its present state only: it is not ready, and a ready pod would count against
    /// the budget. Carries the name of the disruption budget, if there is one.
    AsItIs(Option<String>),
}

/// Answers a POST to `pods/{name}/eviction`.
pub(super) async fn evict(ctx: &RequestContext<'_>, body: Bytes) -> Result<Response<Body>> {
    write_query(ctx, "CreateOptions")?;
    let eviction = decode_eviction(ctx, &body)?;
    if eviction["metadata"]["name"].as_str().unwrap_or_default() != ctx.path.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::of_value(&eviction["deleteOptions"]);
    if options.ignore_read_error {
        let why = "can not be set for pod eviction, try after removing the option";
        let error = FieldError::invalid(format!("deleteOptions.{IGNORE_READ_ERROR}"), true, why);
        return Err(Status::invalid("policy", "Eviction", &ctx.path.name, &[error]));
    }
    options.join_dry_run(ctx.request.query.all("dryRun"))?;
    let chosen = options.resource_version.is_some();
    let mut refusal = None;
    for _ in 0..RETRIES_MAX {
        let entry = ctx.services.store.get(&ctx.key()).ok_or_else(|| ctx.not_found())?;
        options.validate()?;
        let verdict = decide(ctx, &entry, &options).await?;
        let mut options = options.clone();
        if matches!(verdict, Verdict::AsItIs(_)) && !chosen {
            options.resource_version = Some(entry.revision.to_string());
        }
        match (carry_out(ctx, options).await, verdict) {
            (Ok(()), _) => return Ok(created()),
            (Err(status), _) if status.code != 409 || chosen => return Err(status),
            (Err(_), Verdict::AsItIs(Some(name))) => return Err(budget::busy(&name)),
            (Err(status), Verdict::Free) => return Err(status),
            (Err(status), Verdict::AsItIs(None)) => refusal = Some(status),
        }
    }
    Err(refusal.unwrap_or_else(|| conflict(ctx)))
}

/// Decodes an Eviction of the current version or of `v1beta1`, which has the same fields.
fn decode_eviction(ctx: &RequestContext<'_>, body: &[u8]) -> Result<Value> {
    let expected = |version| Expected { group: "policy", version, kind: "Eviction" };
    decode_other(ctx, &expected("v1"), body)
        .or_else(|refusal| decode_other(ctx, &expected("v1beta1"), body).map_err(|_| refusal))
}

async fn decide(ctx: &RequestContext<'_>, entry: &Entry<Header>, options: &DeleteOptions) -> Result<Verdict> {
    let pod: Value = storage::read(entry)?;
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    // Pods that do not run or are being deleted do not count in any budget.
    if entry.header.deleting || matches!(phase, "Succeeded" | "Failed") {
        return Ok(Verdict::Free);
    }
    if phase == "Pending" {
        return Ok(Verdict::AsItIs(None));
    }
    budget::ask(ctx, entry, &pod, options.dry_run).await
}

/// Sets the condition `DisruptionTarget` on the pod, then deletes the pod.
async fn carry_out(ctx: &RequestContext<'_>, mut options: DeleteOptions) -> Result<()> {
    if !options.dry_run {
        let marked = mark(ctx, &options).await?;
        if options.resource_version.is_some() {
            // The client's precondition named the revision before the condition was written.
            options.resource_version = Some(marked.to_string());
        }
    }
    delete_object(ctx, &options).await?;
    Ok(())
}

/// Writes the condition `DisruptionTarget`; returns the pod's new revision.
async fn mark(ctx: &RequestContext<'_>, options: &DeleteOptions) -> Result<u64> {
    for _ in 0..RETRIES_MAX {
        let entry = ctx.services.store.get(&ctx.key()).ok_or_else(|| ctx.not_found())?;
        check_preconditions(ctx, options, &entry)?;
        let mut pod: Value = storage::read(&entry)?;
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let index = conditions.iter().position(|it| it["type"] == "DisruptionTarget");
        let told = index.map(|index| conditions.remove(index));
        let since = told.filter(|it| it["status"] == "True").map(|it| it["lastTransitionTime"].clone());
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null,
            "lastTransitionTime": since.unwrap_or_else(|| ctx.services.now().into()),
        });
        conditions.insert(index.unwrap_or(conditions.len()), condition);
        if !pod["status"].is_object() {
            pod["status"] = json!({});
        }
        pod["status"]["conditions"] = conditions.into();
        if let Ok(written) =
            put(ctx, &entry.key, pod, Expect::Revision(entry.revision), ManagedFields::MayBeDropped).await?
        {
            return Ok(written.revision);
        }
    }
    Err(conflict(ctx))
}
