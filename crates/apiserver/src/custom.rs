//! CustomResourceDefinitions: which resources they declare, and what the server says back in their status.

use serde_json::{Value, json};

/// Says in a definition's status that its objects are about to go.
pub(crate) fn mark_terminating(definition: &mut Value, now: &str) {
    let condition = json!({
        "type": "Terminating", "status": "True", "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    set_condition(definition, condition);
}

/// Sets a condition by its type; the time of transition stays where the status does.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    let status = &mut object["status"];
    if !status.is_object() {
        *status = json!({});
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|it| it["type"] == condition["type"]) {
        Some(old) => {
            let since = old["lastTransitionTime"].clone();
            let same = old["status"] == condition["status"];
            *old = condition;
            if same {
                old["lastTransitionTime"] = since;
            }
        }
        None => conditions.push(condition),
    }
}
