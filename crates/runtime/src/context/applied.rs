//! Whether a server-side apply would change anything, according to `managedFields`.

use serde_json::{Map, Value};

/// Whether a field manager that owns the fields `owned` owns exactly the wanted fields, with the wanted values.
///
/// `owned` is a `fieldsV1` tree: `f:` names a field, `k:` a list item by its keys, `v:` a set item by its value. A node
/// without children is owned as a whole.
pub(super) fn is_applied(owned: &Value, current: &Value, wanted: &Value) -> bool {
    let below = || below(owned).map(|below| below.count());
    match (current, wanted) {
        (Value::Object(current), Value::Object(wanted)) if below().is_some() => {
            below() == Some(wanted.len()) && fields_are_applied(owned, current, wanted)
        }
        (Value::Array(current), Value::Array(wanted)) if below().is_some() => {
            below() == Some(wanted.len()) && wanted.iter().all(|item| item_is_applied(owned, current, item))
        }
        (current, wanted) => current == wanted,
    }
}

fn fields_are_applied(owned: &Value, current: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(name, wanted)| match (owned.get(format!("f:{name}")), current.get(name)) {
        (Some(owned), Some(current)) => is_applied(owned, current, wanted),
        _ => false,
    })
}

fn item_is_applied(owned: &Value, current: &[Value], wanted: &Value) -> bool {
    let mut items = below(owned).into_iter().flatten();
    items.any(|(place, owned)| match place.split_at_checked(2) {
        Some(("k:", keys)) => match serde_json::from_str::<Map<String, Value>>(keys) {
            Ok(keys) if has(wanted, &keys) => {
                current.iter().any(|current| has(current, &keys) && is_applied(owned, current, wanted))
            }
            _ => false,
        },
        Some(("v:", value)) => {
            serde_json::from_str::<Value>(value).is_ok_and(|value| value == *wanted)
                && current.contains(wanted)
        }
        _ => false,
    })
}

fn has(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter().all(|(key, value)| item.get(key) == Some(value))
}

/// The owned children of a node, if it has any; `.` stands for the node itself.
fn below(owned: &Value) -> Option<impl Iterator<Item = (&String, &Value)>> {
    let map = owned.as_object().filter(|map| map.keys().any(|key| key != "."))?;
    Some(map.iter().filter(|(key, _)| *key != "."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_owned_must_be_what_is_wanted_with_its_values() {
        let owned = json!({
            "f:phase": {},
            "f:conditions": { "k:{\"type\":\"Ready\"}": { ".": {}, "f:type": {}, "f:status": {} } },
            "f:finalizers": { ".": {}, "v:\"a\"": {} },
            "f:ports": {},
        });
        let current = json!({
            "phase": "Up",
            "conditions": [{ "type": "Other", "status": "True" }, { "type": "Ready", "status": "True", "by": "them" }],
            "finalizers": ["a", "b"],
            "ports": [80],
            "theirs": 1,
        });
        let wanted = json!({
            "phase": "Up",
            "conditions": [{ "type": "Ready", "status": "True" }],
            "finalizers": ["a"],
            "ports": [80],
        });
        assert!(is_applied(&owned, &current, &wanted), "what others own is not looked at");
        let differs = |pointer: &str, value: Value| {
            let mut wanted = wanted.clone();
            *wanted.pointer_mut(pointer).unwrap() = value;
            !is_applied(&owned, &current, &wanted)
        };
        assert!(differs("/phase", json!("Down")));
        assert!(differs("/conditions/0/status", json!("False")));
        assert!(differs("/conditions/0/type", json!("Other")), "that one is not ours yet");
        assert!(differs("/conditions", json!([])), "ours is given up");
        assert!(differs("/conditions/0", json!({ "type": "Ready" })), "a field of it is given up");
        assert!(differs("/finalizers/0", json!("b")));
        assert!(differs("/ports", json!([80, 81])), "a list that is owned as a whole is compared as a whole");
        let mut more = wanted.clone();
        more["theirs"] = json!(1);
        assert!(!is_applied(&owned, &current, &more), "the same value, but not ours");
        let mut less = wanted.clone();
        less.as_object_mut().unwrap().remove("phase");
        assert!(!is_applied(&owned, &current, &less), "a field is given up");
        less["theirs"] = json!(1);
        assert!(!is_applied(&owned, &current, &less), "one for another");
    }
}
