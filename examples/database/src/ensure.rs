//! Create if missing, update if different, nothing if equal.
//!
//! "Different" must not mean "not the same JSON". The API server fills in defaults, so that an object is never read
//! back as it was written, and an operator that compares whole specs writes forever. What matters is whether the object
//! has all desired fields. A field that is no longer desired shows in the annotation [`WANTED`], which changes with the
//! desired state.

use std::sync::Arc;

use evenkeel::kinds::Owns;
use evenkeel::kube::ResourceExt;
use evenkeel::{ContextError, Ctx, Object};
use serde_json::Value;

/// The annotation with a hash of the desired state of a child.
pub const WANTED: &str = "example.com/wanted";

/// Creates or updates a child so that it has all fields of `desired`, and returns it.
///
/// # Errors
/// Fails if the API server refuses the request.
pub async fn ensure<K, S, D>(ctx: &Ctx<S, D>, mut desired: K) -> Result<Arc<K>, ContextError>
where
    K: Object<DynamicType: Default>,
    D: Owns<K>,
{
    let digest = digest(&json(&desired)?);
    desired.annotations_mut().insert(WANTED.to_owned(), digest);
    match ctx.get::<K>(&desired.name_any())? {
        Some(actual) if covers(&json(&*actual)?, &json(&desired)?) => Ok(actual),
        _ => Ok(Arc::new(ctx.apply(desired).await?)),
    }
}

fn json<K: Object<DynamicType: Default>>(object: &K) -> Result<Value, ContextError> {
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    serde_json::to_value(object).map_err(|source| ContextError::Encode { kind, source })
}

/// The FNV-1a hash of the JSON with sorted keys. Unlike the standard library's hashes, it is the same in every build.
fn digest(value: &Value) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = value.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}")
}

/// Whether `actual` has all fields of `desired`. Other fields of `actual` are ignored.
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
