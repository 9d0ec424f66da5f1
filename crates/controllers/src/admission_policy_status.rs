//! Type checks of the expressions of ValidatingAdmissionPolicies, whose warnings go to the status.

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Result, ResultExt};
use evenkeel_schema::admission::type_check;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::{Map, Value, json};

use crate::MANAGER;

/// The controller that type-checks ValidatingAdmissionPolicies.
pub(crate) fn controller() -> Controller<ValidatingAdmissionPolicy> {
    Controller::new("validatingadmissionpolicy-status-controller", reconcile).field_manager(MANAGER)
}

async fn reconcile(policy: Arc<ValidatingAdmissionPolicy>, ctx: Ctx) -> Result<Action> {
    let generation = policy.metadata.generation;
    let seen = policy.status.as_ref().and_then(|status| status.observed_generation);
    if seen == generation || policy.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let spec = serde_json::to_value(&policy.spec)?;
    let warnings: Vec<Value> = type_check(&spec)
        .into_iter()
        .map(|warning| json!({"fieldRef": warning.field, "warning": warning.text}))
        .collect();
    let mut checked = Map::new();
    if !warnings.is_empty() {
        checked.insert("expressionWarnings".to_owned(), warnings.into());
    }
    let status = json!({"observedGeneration": generation, "typeChecking": checked});
    ctx.status(&policy, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}
