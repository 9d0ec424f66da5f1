//! The JSON patch in the response of a mutating webhook.
//!
//! The function changes a typed object. Its type may not know all fields that the API server sent, and may add fields
//! that were not sent (defaults, nulls). So the patch is not simply the difference between the received object and the
//! result: only the changes that the function made are merged into the received object.

use json_patch::Patch;
use serde_json::{Map, Value};

/// Returns the patch that makes the changes from `before` to `after` in `received`, or `None` if nothing changes.
/// `before` is `received` after a round trip through its type, and `after` is the changed object as encoded by its
/// type.
pub(super) fn patch(received: &Value, before: &Value, after: &Value) -> Option<Patch> {
    let merged = merge(received, before, after);
    let patch = json_patch::diff(received, &merged);
    (!patch.0.is_empty()).then_some(patch)
}

/// Applies the changes from `before` to `after` to `received`.
fn merge(received: &Value, before: &Value, after: &Value) -> Value {
    match (received, before, after) {
        _ if before == after => received.clone(),
        (Value::Object(received), Value::Object(before), Value::Object(after)) => {
            merge_objects(received, before, after).into()
        }
        (Value::Array(received), Value::Array(before), Value::Array(after))
            if received.len() == before.len() =>
        {
            merge_arrays(received, before, after).into()
        }
        _ => after.clone(),
    }
}

fn merge_objects(
    received: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = received.clone();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        merged.remove(key);
    }
    for (key, value) in after {
        match (received.get(key), before.get(key)) {
            (_, Some(before)) if before == value => {}
            (Some(received), Some(before)) => {
                merged.insert(key.clone(), merge(received, before, value));
            }
            _ => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    merged
}

/// Applies the changes of a list. Each item of `after` is matched with the received item that it was made from: the
/// equal one, else the one with the same name, else, if the lists have equal length, the one at the same index.
fn merge_arrays(received: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let mut origins: Vec<Option<usize>> = vec![None; after.len()];
    let mut taken = vec![false; before.len()];
    let mut find = |fits: &dyn Fn(usize, usize) -> bool| {
        for (index, origin) in origins.iter_mut().enumerate().filter(|(_, origin)| origin.is_none()) {
            *origin = (0..before.len()).find(|place| !taken[*place] && fits(*place, index));
            if let Some(place) = *origin {
                taken[place] = true;
            }
        }
    };
    find(&|place, index| place == index && before[place] == after[index]);
    find(&|place, index| before[place] == after[index]);
    find(&|place, index| name(&before[place]).is_some() && name(&before[place]) == name(&after[index]));
    if before.len() == after.len() {
        find(&|place, index| place == index);
    }
    let merged = after.iter().zip(origins).map(|(after, origin)| match origin {
        Some(place) => merge(&received[place], &before[place], after),
        None => after.clone(),
    });
    merged.collect()
}

/// Returns the name of an item, which identifies the items of most of Kubernetes' lists.
fn name(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, Pod};
    use serde_json::json;

    use super::*;

    /// Changes an object through its type, and returns the received object after applying the patch.
    fn changed(received: Value, change: impl FnOnce(&mut Pod)) -> (Value, Value) {
        let mut pod: Pod = serde_json::from_value(received.clone()).unwrap();
        let before = serde_json::to_value(&pod).unwrap();
        change(&mut pod);
        let patch = patch(&received, &before, &serde_json::to_value(&pod).unwrap());
        let mut result = received;
        if let Some(patch) = &patch {
            json_patch::patch(&mut result, patch).unwrap();
        }
        (result, serde_json::to_value(patch).unwrap())
    }

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "creationTimestamp": null },
            "futureField": { "a": 1 },
            "spec": {
                "newerField": "kept",
                "containers": [
                    { "name": "a", "image": "a:1", "newer": 1 }, { "name": "b", "image": "b:1", "newer": 2 },
                ],
            },
        })
    }

    #[test]
    fn nothing_changed_is_no_patch() {
        assert_eq!(changed(pod(), |_| {}), (pod(), Value::Null));
    }

    #[test]
    fn fields_that_the_type_does_not_know_stay() {
        let (result, patch) = changed(pod(), |pod| {
            pod.metadata.labels = Some([("a/b".to_owned(), "x".to_owned())].into());
            pod.spec.as_mut().unwrap().containers[1].image = Some("b:2".into());
        });
        let mut wanted = pod();
        wanted["metadata"]["labels"] = json!({ "a/b": "x" });
        wanted["spec"]["containers"][1]["image"] = "b:2".into();
        assert_eq!(result, wanted);
        assert_eq!(
            patch,
            json!([
                { "op": "add", "path": "/metadata/labels", "value": { "a/b": "x" } },
                { "op": "replace", "path": "/spec/containers/1/image", "value": "b:2" },
            ])
        );
    }

    #[test]
    fn items_keep_their_unknown_fields_when_the_list_changes() {
        let sidecar = Container { name: "sidecar".into(), ..Default::default() };
        let (result, _) = changed(pod(), |pod| {
            let containers = &mut pod.spec.as_mut().unwrap().containers;
            containers.insert(0, sidecar);
            containers[2].image = Some("b:2".into());
        });
        let containers = json!([
            { "name": "sidecar" },
            { "name": "a", "image": "a:1", "newer": 1 }, { "name": "b", "image": "b:2", "newer": 2 },
        ]);
        assert_eq!(result["spec"]["containers"], containers);
        let (result, _) = changed(pod(), |pod| {
            pod.spec.as_mut().unwrap().containers.remove(0);
        });
        let left = json!([{ "name": "b", "image": "b:1", "newer": 2 }]);
        assert_eq!(result["spec"]["containers"], left);
    }

    #[test]
    fn a_removed_field_is_removed_and_its_neighbours_stay() {
        let mut received = pod();
        received["spec"]["hostname"] = "h".into();
        let (result, patch) = changed(received, |pod| pod.spec.as_mut().unwrap().hostname = None);
        assert_eq!((result, patch), (pod(), json!([{ "op": "remove", "path": "/spec/hostname" }])));
    }
}
