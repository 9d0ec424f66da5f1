//! Create if missing, update if different, nothing if equal.
//!
//! "Different" must not mean "not the same JSON": the API server fills in defaults, so that what is read back is
//! never what was written, and an operator that compares whole specs writes for ever. What counts is whether the
//! object has everything that we want it to have.

use std::sync::Arc;

use evenkeel::kube::ResourceExt;
use evenkeel::{Context, Object, Result};
use serde_json::Value;

/// Brings a child to `desired`, and gives it as it is then.
pub async fn ensure<K, S>(ctx: &Context<S>, desired: K) -> Result<Arc<K>>
where
    K: Object<DynamicType: Default>,
{
    if let Some(actual) = ctx.get::<K>(&desired.name_any())?
        && covers(&serde_json::to_value(&*actual)?, &serde_json::to_value(&desired)?)
    {
        return Ok(actual);
    }
    Ok(Arc::new(ctx.apply(desired).await?))
}

/// Whether `actual` has everything that `desired` asks for. What it has beyond that is not our business.
pub fn covers(actual: &Value, desired: &Value) -> bool {
    match (actual, desired) {
        (_, Value::Null) => true,
        (Value::Object(actual), Value::Object(desired)) => desired.iter().all(|(key, wanted)| {
            wanted.is_null() || actual.get(key).is_some_and(|found| covers(found, wanted))
        }),
        (Value::Array(actual), Value::Array(desired)) => {
            actual.len() == desired.len()
                && actual.iter().zip(desired).all(|(found, wanted)| covers(found, wanted))
        }
        (actual, desired) => actual == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::covers;
    use serde_json::json;

    #[test]
    fn defaults_are_not_a_difference() {
        let desired = json!({"containers": [{"name": "a", "image": "i"}]});
        let actual = json!({"containers": [{"name": "a", "image": "i", "imagePullPolicy": "Always"}], "dnsPolicy": "x"});
        assert!(covers(&actual, &desired));
    }

    #[test]
    fn a_changed_field_a_missing_field_and_a_longer_list_are() {
        let desired = json!({"replicas": 2, "ports": [1]});
        assert!(!covers(&json!({"replicas": 3, "ports": [1]}), &desired));
        assert!(!covers(&json!({"ports": [1]}), &desired));
        assert!(!covers(&json!({"replicas": 2, "ports": [1, 2]}), &desired));
    }
}
