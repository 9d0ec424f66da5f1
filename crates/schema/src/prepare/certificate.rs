//! CertificateSigningRequests: which subresource changes which conditions, and the times of conditions.

use jiff::Timestamp;

use super::{child, copy, object_of, put};
use crate::json::Value;
use crate::read::Read;
use crate::time::{self, Precision};

/// Prepares an update through the approval subresource, which changes conditions and nothing else.
pub(super) fn update_approval(new: &mut Value, old: &Value, now: Timestamp) {
    fill_times(new, old, now);
    let conditions = new.at("status").at("conditions").cloned();
    copy(object_of(new), Some(old), "spec");
    copy(object_of(new), Some(old), "status");
    let status = object_of(child(new, "status"));
    match conditions {
        Some(conditions) => put(status, "conditions", conditions),
        None => drop(status.remove("conditions")),
    }
}

/// Prepares an update through the status subresource, which keeps the conditions of the approval subresource. Validation
/// refuses a request that adds or removes such conditions.
pub(super) fn update_status(new: &mut Value, old: &Value, now: Timestamp) {
    for kept in ["Approved", "Denied"] {
        let before: Vec<Value> =
            old.at("status").list("conditions").iter().filter(|it| it.str("type") == kept).cloned().collect();
        let Some(Value::Array(conditions)) = child(new, "status").get_mut("conditions") else { continue };
        let present: Vec<&mut Value> =
            conditions.iter_mut().filter(|it| (&**it).str("type") == kept).collect();
        if present.len() == before.len() {
            present.into_iter().zip(before).for_each(|(condition, before)| *condition = before);
        }
    }
    fill_times(new, old, now);
}

/// Sets the missing times of conditions: `now`, or the old transition time if the status is unchanged.
fn fill_times(new: &mut Value, old: &Value, now: Timestamp) {
    let now = Value::from(time::print(now, Precision::Seconds));
    let Some(Value::Array(conditions)) = child(new, "status").get_mut("conditions") else { return };
    for condition in conditions {
        let same = |before: &&Value| {
            ["type", "status"].iter().all(|field| before.str(field) == (&*condition).str(field))
                && before.has("lastTransitionTime")
        };
        let transition = old.at("status").list("conditions").iter().find(same);
        let transition =
            transition.and_then(|before| before.get("lastTransitionTime")).unwrap_or(&now).clone();
        let fields = object_of(condition);
        for (field, time) in [("lastUpdateTime", now.clone()), ("lastTransitionTime", transition)] {
            if fields.get(field).is_none_or(Value::is_null) {
                put(fields, field, time);
            }
        }
    }
}
