//! The disruption budget of a pod: whether it allows an eviction, and how the eviction is recorded in it.

use std::sync::Arc;

use evenkeel_schema::json::{Value, json};
use evenkeel_schema::selector::LabelSelector;
use evenkeel_store::{Entry, Expect, Range};

use super::Verdict;
use crate::Header;
use crate::commit::{RETRIES_MAX, put};
use crate::context::RequestContext;
use crate::registry::storage_prefix;
use crate::status::{Cause, Result, Status};
use crate::storage;
use crate::storage::ManagedFields;

const REFUSAL: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// When the client should retry while the controller has not processed the budget yet.
const RETRY_AFTER_SECONDS: u32 = 10;
/// How many evictions may wait for the disruption controller to observe them.
const DISRUPTED_MAX: usize = 2000;

/// Asks the budget of a running pod, and records the eviction in it if the pod counts.
pub(super) async fn ask(
    ctx: &RequestContext<'_>,
    entry: &Entry<Header>,
    pod: &Value,
    dry_run: bool,
) -> Result<Verdict> {
    for _ in 0..RETRIES_MAX {
        let Some((kept, mut budget)) = budget_of(ctx, entry)? else { return Ok(Verdict::Free) };
        if !is_ready(pod) && allows_unready_eviction(&budget) {
            return Ok(Verdict::AsItIs(Some(name(&budget).to_owned())));
        }
        check(&budget)?;
        if dry_run {
            return Ok(Verdict::Free);
        }
        take(&mut budget, &entry.header.name, &ctx.services.now());
        if put(ctx, &kept.key, budget, Expect::Revision(kept.revision), ManagedFields::MayBeDropped)
            .await?
            .is_ok()
        {
            return Ok(Verdict::Free);
        }
    }
    Err(Status::too_many_requests(REFUSAL, RETRY_AFTER_SECONDS))
}

/// The error if the controller has not processed the budget yet, or the pod changed in the meantime.
pub(super) fn busy(name: &str) -> Status {
    let why = format!("The disruption budget {name} is still being processed by the server.");
    with_cause(Status::too_many_requests(REFUSAL, RETRY_AFTER_SECONDS), why)
}

fn budget_of(ctx: &RequestContext<'_>, pod: &Entry<Header>) -> Result<Option<(Arc<Entry<Header>>, Value)>> {
    let prefix = format!("{}{}/", storage_prefix("policy", "poddisruptionbudgets"), ctx.path.namespace);
    let page = ctx.services.store.range(&Range { prefix, ..Range::default() }).map_err(Status::internal)?;
    let mut found = None;
    for entry in page.entries {
        let budget: Value = storage::read(&entry)?;
        let selector = LabelSelector::from_object(&budget["spec"]["selector"]);
        if !selector.is_ok_and(|it| it.matches(|key| pod.header.label(key))) {
            continue;
        }
        if found.is_some() {
            return Err(Status::server_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        found = Some((entry, budget));
    }
    Ok(found)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Whether pods that are not ready may be evicted without counting: by the budget's policy, or because enough
/// pods are healthy.
fn allows_unready_eviction(budget: &Value) -> bool {
    let (has, wanted) = (count(budget, "currentHealthy"), count(budget, "desiredHealthy"));
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || (has >= wanted && wanted > 0)
}

fn check(budget: &Value) -> Result<()> {
    let name = name(budget);
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or_default();
    if count(budget, "observedGeneration") < generation {
        return Err(busy(name));
    }
    let currently = format!("The disruption budget {name} does not allow evicting pods currently");
    let forbidden = |why: &str| Status::not_admitted("policy", "poddisruptionbudget", name, why);
    let allowed = count(budget, "disruptionsAllowed");
    if allowed < 0 {
        let why = "pdb disruptions allowed is negative";
        return Err(with_cause(forbidden(why), format!("{currently}: {why}")));
    }
    if budget["status"]["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_MAX) {
        let status =
            forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
        let why = "too many pending evictions not confirmed by PDB controller";
        return Err(with_cause(status, format!("{currently}: {why}")));
    }
    if allowed > 0 {
        return Ok(());
    }
    Err(with_cause(Status::too_many_requests(REFUSAL, 0), denial_reason(budget, &currently)))
}

fn denial_reason(budget: &Value, currently: &str) -> String {
    let conditions = budget["status"]["conditions"].as_array();
    let told = conditions.into_iter().flatten().find(|it| it["type"] == "DisruptionAllowed");
    let told = told.filter(|it| it["status"] == "False").and_then(|it| {
        let message = it["message"].as_str().filter(|message| !message.is_empty())?;
        Some((it["reason"].as_str().unwrap_or_default(), message))
    });
    let (has, wanted) = (count(budget, "currentHealthy"), count(budget, "desiredHealthy"));
    match told {
        Some(("SyncFailed", message)) => format!("{currently} because it failed sync: {message}"),
        _ if has <= wanted => {
            let name = name(budget);
            format!("The disruption budget {name} needs {wanted} healthy pods and has {has} currently")
        }
        Some((reason, message)) => format!("{currently} ({reason}): {message}"),
        None => currently.to_owned(),
    }
}

/// Records a pod as disrupted, so that it counts until the disruption controller has observed its deletion.
fn take(budget: &mut Value, pod: &str, now: &str) {
    let left = count(budget, "disruptionsAllowed") - 1;
    let generation = budget["status"]["observedGeneration"].clone();
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = left.into();
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = now.into();
    if left > 0 {
        return;
    }
    let conditions = status["conditions"].as_array_mut();
    let told = conditions.into_iter().flatten().find(|it| it["type"] == "DisruptionAllowed");
    if let Some(condition) = told.filter(|it| it["status"] != "False") {
        condition["status"] = "False".into();
        condition["reason"] = "InsufficientPods".into();
        condition["observedGeneration"] = generation;
        condition["lastTransitionTime"] = now.into();
    }
}

fn name(budget: &Value) -> &str {
    budget["metadata"]["name"].as_str().unwrap_or_default()
}

fn count(budget: &Value, field: &str) -> i64 {
    budget["status"][field].as_i64().unwrap_or_default()
}

fn with_cause(mut status: Status, why: String) -> Status {
    let cause = Cause { reason: "DisruptionBudget".to_owned(), message: why, field: String::new() };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(spec: Value, status: Value) -> Value {
        json!({"metadata": {"name": "b", "generation": 1}, "spec": spec, "status": status})
    }

    fn cause(budget: &Value) -> (u16, String) {
        let status = check(budget).expect_err("a budget that allows nothing");
        let details = status.details.expect("a cause");
        (status.code, details.causes[0].message.clone())
    }

    #[test]
    fn unready_pods_go_while_enough_others_are_healthy_or_always_where_the_budget_says_so() {
        let enough = json!({"currentHealthy": 2, "desiredHealthy": 2});
        let short = json!({"currentHealthy": 1, "desiredHealthy": 2});
        let always = json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"});
        assert!(allows_unready_eviction(&budget(json!({}), enough)));
        assert!(!allows_unready_eviction(&budget(json!({}), short.clone())));
        assert!(!allows_unready_eviction(&budget(
            json!({}),
            json!({"currentHealthy": 0, "desiredHealthy": 0})
        )));
        assert!(allows_unready_eviction(&budget(always, short)));
    }

    #[test]
    fn a_refusal_names_what_is_short() {
        let stale = budget(json!({}), json!({"disruptionsAllowed": 1}));
        assert_eq!(
            cause(&stale),
            (429, "The disruption budget b is still being processed by the server.".into())
        );
        let condition = |reason: &str| json!([{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": "m"}]);
        let seen = |has: i64, conditions: Value| {
            budget(
                json!({}),
                json!({"observedGeneration": 1, "currentHealthy": has, "desiredHealthy": 2, "conditions": conditions}),
            )
        };
        let start = "The disruption budget b does not allow evicting pods currently";
        for (budget, message) in [
            (
                seen(1, json!([])),
                "The disruption budget b needs 2 healthy pods and has 1 currently".to_owned(),
            ),
            (seen(1, condition("SyncFailed")), format!("{start} because it failed sync: m")),
            (seen(3, condition("Other")), format!("{start} (Other): m")),
            (seen(3, json!([])), start.to_owned()),
        ] {
            assert_eq!(cause(&budget), (429, message));
        }
        let mut negative = seen(3, json!([]));
        negative["status"]["disruptionsAllowed"] = (-1).into();
        assert_eq!(cause(&negative), (403, format!("{start}: pdb disruptions allowed is negative")));
    }

    #[test]
    fn the_last_disruption_that_is_allowed_closes_the_budget() {
        let open = json!([{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods"}]);
        let mut budget =
            budget(json!({}), json!({"observedGeneration": 1, "disruptionsAllowed": 2, "conditions": open}));
        take(&mut budget, "p", "now");
        assert_eq!(budget["status"]["conditions"][0]["status"], "True");
        take(&mut budget, "q", "now");
        assert_eq!(budget["status"]["conditions"][0]["reason"], "InsufficientPods");
        assert_eq!(budget["status"]["disruptedPods"], json!({"p": "now", "q": "now"}));
        assert!(check(&budget).is_err());
    }
}
