//! Conditions of a status: set by type, with a transition time that changes only with the status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use kube::Resource;

use crate::Ctx;
use crate::object::AsObject;

/// The status of a condition.
///
/// ```
/// use evenkeel_runtime::conditions::ConditionStatus;
///
/// let (ready, wanted) = (2, 3);
/// assert_eq!(ConditionStatus::from(ready == wanted).as_str(), "False");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The controller cannot tell whether the condition holds.
    Unknown,
}

impl ConditionStatus {
    /// The text that the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// A condition to set.
///
/// ```
/// use evenkeel_runtime::conditions::{self, ConditionStatus, NewCondition};
///
/// let now = "2026-01-01T00:00:00Z".parse().unwrap();
/// let later = "2026-01-01T01:00:00Z".parse().unwrap();
/// let mut list = Vec::new();
/// conditions::set(&mut list, NewCondition::new("Ready", ConditionStatus::False, "Starting", "waits for pods"), now);
/// conditions::set(&mut list, NewCondition::new("Ready", ConditionStatus::False, "Starting", "waits for 1 pod"), later);
/// assert_eq!(list[0].last_transition_time.0, now);
/// assert_eq!(list[0].message, "waits for 1 pod");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct NewCondition {
    type_: String,
    status: ConditionStatus,
    reason: String,
    message: String,
    observed_generation: Option<i64>,
}

impl NewCondition {
    /// A condition of this type, with a reason in one CamelCase word and a message for users.
    pub fn new(
        type_: impl Into<String>,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
        }
    }

    /// Sets `observedGeneration` to the generation of this object.
    pub fn observed<O: AsObject<M>, M>(mut self, object: &O) -> Self {
        self.observed_generation = object.as_object().meta().generation;
        self
    }
}

/// Sets a condition in the list. Returns whether the list changed.
pub fn set(conditions: &mut Vec<Condition>, condition: NewCondition, now: Timestamp) -> bool {
    let mut new = Condition {
        type_: condition.type_,
        status: condition.status.as_str().into(),
        reason: condition.reason,
        message: condition.message,
        observed_generation: condition.observed_generation,
        last_transition_time: Time(whole_seconds(now)),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == new.type_) {
        None => {
            conditions.push(new);
            true
        }
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            let changed = *old != new;
            *old = new;
            changed
        }
    }
}

/// Finds the condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the list has a condition of this type with the status `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Removes the condition of this type. Returns whether it was in the list.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// The schema of a list of conditions, for the status of a custom resource: a map by type, as in built-in kinds.
///
/// ```
/// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// #[derive(schemars::JsonSchema)]
/// struct Status {
///     #[schemars(schema_with = "evenkeel_runtime::conditions::schema")]
///     conditions: Vec<Condition>,
/// }
/// ```
pub fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0}
            }
        }
    })
}

impl<S, D> Ctx<S, D> {
    /// Sets a condition in the list, with the current time for its transition. Returns whether the list changed.
    pub fn set_condition(&self, conditions: &mut Vec<Condition>, condition: NewCondition) -> bool {
        set(conditions, condition, self.now())
    }
}

/// Drops fractions of a second, which `metav1.Time` does not have: the object would differ from the one read back.
fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn the_transition_time_moves_with_the_status_alone() {
        let mut conditions = Vec::new();
        let mut object = ConfigMap::default();
        object.metadata.generation = Some(7);
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut put = |holds: bool, reason: &str, second| {
            let changed = set(
                &mut conditions,
                NewCondition::new("Ready", holds, reason, "").observed(&object),
                at(second),
            );
            let ready = find(&conditions, "Ready").unwrap();
            assert_eq!(ready.observed_generation, Some(7));
            (changed, ready.last_transition_time.0.as_second())
        };
        let precise = Timestamp::new(9, 999_999_999).unwrap();
        let mut other = Vec::new();
        set(&mut other, NewCondition::new("Ready", true, "Fast", ""), precise);
        assert_eq!(other[0].last_transition_time.0, at(9), "as it is read back from the server");
        assert_eq!(put(false, "Starting", 10), (true, 10));
        assert_eq!(put(false, "Starting", 20), (false, 10), "nothing is new");
        assert_eq!(put(false, "Slow", 30), (true, 10), "a reason is no transition");
        assert_eq!(put(true, "Started", 40), (true, 40));
        assert!(is_true(&conditions, "Ready") && remove(&mut conditions, "Ready") && conditions.is_empty());
    }
}
