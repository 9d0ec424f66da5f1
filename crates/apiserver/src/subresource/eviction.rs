//! The subresource `pods/eviction`: deleting a pod as far as its disruption budget allows.

mod budget;

use bytes::Bytes;
use evenkeel_store::{Entry, Expect};
use http::Response;
use serde_json::{Value, json};

use super::{created, decode_other};
use crate::Header;
use crate::body::Body;
use crate::call::Call;
use crate::decode::Expected;
use crate::status::{Result, Status};
use crate::stored;
use crate::write::{
    DeleteOptions, RETRIES_MAX, check_preconditions, conflict, delete_object, put, write_query,
};

/// The decision on an eviction.
enum Verdict {
    /// The pod may be deleted, even if it changes in the meantime.
    Free,
    /// The pod may be deleted in its present state only: it is not ready, and a ready pod would count against
    /// the budget. Carries the name of the disruption budget, if there is one.
    AsItIs(Option<String>),
}

/// Answers a POST to `pods/{name}/eviction`.
pub(super) async fn evict(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    write_query(call, "CreateOptions")?;
    let expected = Expected { group: "policy", version: "v1", kind: "Eviction" };
    let eviction = decode_other(call, &expected, &body)?;
    if eviction["metadata"]["name"].as_str().unwrap_or_default() != call.path.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::of_value(&eviction["deleteOptions"]);
    options.join_dry_run(call.request.query.all("dryRun"))?;
    let chosen = options.resource_version.is_some();
    let mut refusal = None;
    for _ in 0..RETRIES_MAX {
        let entry = call.server.store().get(&call.key()).ok_or_else(|| call.not_found())?;
        options.validate()?;
        let verdict = judge(call, &entry, &options).await?;
        let mut options = options.clone();
        if matches!(verdict, Verdict::AsItIs(_)) && !chosen {
            options.resource_version = Some(entry.revision.to_string());
        }
        match (carry_out(call, options).await, verdict) {
            (Ok(()), _) => return Ok(created()),
            (Err(status), _) if status.code != 409 || chosen => return Err(status),
            (Err(_), Verdict::AsItIs(Some(name))) => return Err(budget::busy(&name)),
            (Err(status), Verdict::Free) => return Err(status),
            (Err(status), Verdict::AsItIs(None)) => refusal = Some(status),
        }
    }
    Err(refusal.unwrap_or_else(|| conflict(call)))
}

async fn judge(call: &Call<'_>, entry: &Entry<Header>, options: &DeleteOptions) -> Result<Verdict> {
    let pod: Value = stored::read(entry)?;
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    // Pods that do not run or are being deleted do not count in any budget.
    if entry.header.deleting || matches!(phase, "Succeeded" | "Failed") {
        return Ok(Verdict::Free);
    }
    if phase == "Pending" {
        return Ok(Verdict::AsItIs(None));
    }
    budget::ask(call, entry, &pod, options.dry_run).await
}

/// Sets the condition `DisruptionTarget` on the pod, then deletes the pod.
async fn carry_out(call: &Call<'_>, mut options: DeleteOptions) -> Result<()> {
    if !options.dry_run {
        let marked = mark(call, &options).await?;
        if options.resource_version.is_some() {
            // The client's precondition named the revision before the condition was written.
            options.resource_version = Some(marked.to_string());
        }
    }
    delete_object(call, &options).await?;
    Ok(())
}

/// Writes the condition `DisruptionTarget`; returns the pod's new revision.
async fn mark(call: &Call<'_>, options: &DeleteOptions) -> Result<u64> {
    for _ in 0..RETRIES_MAX {
        let entry = call.server.store().get(&call.key()).ok_or_else(|| call.not_found())?;
        check_preconditions(call, options, &entry)?;
        let mut pod: Value = stored::read(&entry)?;
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let index = conditions.iter().position(|it| it["type"] == "DisruptionTarget");
        let told = index.map(|index| conditions.remove(index));
        let since = told.filter(|it| it["status"] == "True").map(|it| it["lastTransitionTime"].clone());
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null,
            "lastTransitionTime": since.unwrap_or_else(|| call.server.now().into()),
        });
        conditions.insert(index.unwrap_or(conditions.len()), condition);
        if !pod["status"].is_object() {
            pod["status"] = json!({});
        }
        pod["status"]["conditions"] = conditions.into();
        if let Ok(written) = put(call, &entry.key, pod, Expect::Revision(entry.revision), false).await? {
            return Ok(written.revision);
        }
    }
    Err(conflict(call))
}
