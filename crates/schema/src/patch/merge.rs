//! JSON merge patch (RFC 7386).

use super::PatchError;
use crate::json::Value;

/// Merges a patch into an object: null removes a field, objects are merged, everything else is replaced.
///
/// ```
/// use evenkeel_schema::patch::merge;
/// use evenkeel_schema::json::json;
/// let mut object = json!({"data": {"a": "1", "b": "2"}});
/// merge::apply(&mut object, json!({"data": {"a": null, "c": "3"}})).unwrap();
/// assert_eq!(object, json!({"data": {"b": "2", "c": "3"}}));
/// ```
pub fn apply(object: &mut Value, patch: Value) -> Result<(), PatchError> {
    if !patch.is_object() {
        return Err(PatchError::BadRequest("Invalid JSON Patch".into()));
    }
    merge(object, patch);
    Ok(())
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                match target.get_mut(&key) {
                    _ if value.is_null() => {
                        target.remove(&key);
                    }
                    Some(old) if !old.is_null() => merge(old, value),
                    _ => {
                        target.insert(key, without_nulls(value));
                    }
                }
            }
        }
        // A patch that is not an object replaces an object unchanged, and any other value without nulls.
        (target @ Value::Object(_), patch) => *target = patch,
        (target, patch) => *target = without_nulls(patch),
    }
}

/// Removes nulls from a new value, in which they have nothing to remove.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn check(mut object: Value, patch: Value, expected: Value) {
        apply(&mut object, patch).unwrap();
        assert_eq!(object, expected);
    }

    #[test]
    fn the_examples_of_the_rfc() {
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
        check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
        check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
    }

    #[test]
    fn nulls_inside_of_lists_stay() {
        check(json!({}), json!({"a": [null, {"b": null}]}), json!({"a": [null, {}]}));
    }

    #[test]
    fn a_patch_is_an_object() {
        assert!(apply(&mut json!({}), json!([1])).is_err());
    }
}
