//! Evicting a pod, as far as its disruption budget allows.

use bytes::Bytes;
use evenkeel_schema::selector::LabelSelector;
use evenkeel_store::{Entry, Expect, Range};
use http::Response;
use serde_json::{Value, json};
use std::sync::Arc;

use super::{created, decode_other};
use crate::Header;
use crate::body::Body;
use crate::call::Call;
use crate::decode::Expected;
use crate::registry::storage_prefix;
use crate::status::{Cause, Result, Status};
use crate::write::{DeleteOptions, RETRIES_MAX, delete_object, put, write_query};

const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// When to ask again while a budget is still being worked out.
const RETRY_AFTER_SECONDS: u32 = 10;

/// Answers a POST to `pods/{name}/eviction`.
pub(super) async fn evict(call: &Call<'_>, body: Bytes) -> Result<Response<Body>> {
    let query = write_query(call, "CreateOptions")?;
    let expected = Expected { group: "policy", version: "v1", kind: "Eviction" };
    let eviction = decode_other(call, &expected, &body)?;
    if eviction["metadata"]["name"].as_str().unwrap_or_default() != call.path.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::of_value(&eviction["deleteOptions"])?;
    options.dry_run |= query.dry_run;
    let entry = call.server.store().get(&call.key()).ok_or_else(|| call.not_found())?;
    if !is_free(&entry) {
        take_from_budget(call, &entry, options.dry_run).await?;
    }
    delete_object(call, &options).await?;
    Ok(created())
}

/// Pods that do not run, or that go already, count in no budget.
fn is_free(entry: &Entry<Header>) -> bool {
    let pod: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    let phase = pod["status"]["phase"].as_str();
    entry.header.deleting || matches!(phase, Some("Succeeded" | "Failed" | "Pending"))
}

async fn take_from_budget(call: &Call<'_>, pod: &Entry<Header>, dry_run: bool) -> Result<()> {
    for _ in 0..RETRIES_MAX {
        let budgets = budgets_of(call, pod)?;
        let Some((entry, mut budget)) = budgets.into_iter().next() else { return Ok(()) };
        check(&budget)?;
        if dry_run {
            return Ok(());
        }
        let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
        budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
        if !budget["status"]["disruptedPods"].is_object() {
            budget["status"]["disruptedPods"] = json!({});
        }
        budget["status"]["disruptedPods"][&*pod.header.name] = call.server.now().into();
        if put(call, &entry.key, budget, Expect::Revision(entry.revision)).await?.is_ok() {
            return Ok(());
        }
    }
    Err(Status::too_many_requests(REFUSAL, RETRY_AFTER_SECONDS))
}

fn budgets_of(call: &Call<'_>, pod: &Entry<Header>) -> Result<Vec<(Arc<Entry<Header>>, Value)>> {
    let prefix = format!("{}{}/", storage_prefix("policy", "poddisruptionbudgets"), call.path.namespace);
    let page = call.server.store().range(&Range { prefix, ..Range::default() }).map_err(Status::internal)?;
    let mut budgets = Vec::new();
    for entry in page.entries {
        let budget: Value = serde_json::from_slice(&entry.value).map_err(Status::internal)?;
        let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
        if selector.is_ok_and(|it| it.matches(|key| pod.header.label(key))) {
            budgets.push((entry, budget));
        }
    }
    if budgets.len() > 1 {
        return Err(Status::internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    Ok(budgets)
}

fn check(budget: &Value) -> Result<()> {
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let status = &budget["status"];
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    if number(&status["observedGeneration"]) < number(&budget["metadata"]["generation"]) {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refuse(&why, RETRY_AFTER_SECONDS));
    }
    if number(&status["disruptionsAllowed"]) > 0 {
        return Ok(());
    }
    let (wanted, has) = (number(&status["desiredHealthy"]), number(&status["currentHealthy"]));
    Err(refuse(
        &format!("The disruption budget {name} needs {wanted} healthy pods and has {has} currently"),
        0,
    ))
}

fn refuse(why: &str, retry_after_seconds: u32) -> Status {
    let mut status = Status::too_many_requests(REFUSAL, retry_after_seconds);
    let cause =
        Cause { reason: "DisruptionBudget".to_owned(), message: why.to_owned(), field: String::new() };
    if let Some(details) = &mut status.details {
        details.causes.push(cause);
    }
    status
}
