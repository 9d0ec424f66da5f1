//! Type checks of the expressions of ValidatingAdmissionPolicies, whose warnings go to the status.

use std::sync::Arc;

use evenkeel_runtime::{Action, Controller, Ctx, Result, ResultExt};
use evenkeel_schema::admission::type_check;
use serde_json::{Map, Value, json};

use crate::MANAGER;
use crate::kinds::{VALIDATING_ADMISSION_POLICY, ValidatingAdmissionPolicy};
use crate::object::{Object, OfKind};

/// The controller that type-checks ValidatingAdmissionPolicies.
pub(crate) fn controller() -> Controller<Object> {
    let name = "validatingadmissionpolicy-status-controller";
    Controller::new_with(name, VALIDATING_ADMISSION_POLICY.source(), reconcile).field_manager(MANAGER)
}

async fn reconcile(policy: Arc<ValidatingAdmissionPolicy>, ctx: Ctx) -> Result<Action> {
    let generation = policy.metadata.generation;
    if policy.i64("status/observedGeneration") == generation || policy.is_deleting() {
        return Ok(Action::await_change());
    }
    let warnings: Vec<Value> = type_check(&policy.at("spec").into())
        .into_iter()
        .map(|warning| json!({"fieldRef": warning.field, "warning": warning.text}))
        .collect();
    let mut checked = Map::new();
    if !warnings.is_empty() {
        checked.insert("expressionWarnings".to_owned(), warnings.into());
    }
    let status = json!({"observedGeneration": generation, "typeChecking": checked});
    ctx.kind(&VALIDATING_ADMISSION_POLICY).status(&policy, status).await.ignore_not_found()?;
    Ok(Action::await_change())
}
