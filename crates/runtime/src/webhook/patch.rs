//! The JSON patch in the response of a mutating webhook.
//!
//! The function changes a typed object. Its type may not know all fields that the API server sent, and may add fields
//! that were not sent (defaults, nulls). So the patch is not simply the difference between the received object and the
//! result: only the changes that the function made are merged into the received object.

use std::collections::{BTreeMap, VecDeque};

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

/// Applies the changes of a list. Each item of `after` is matched with the received item that it was made from.
fn merge_arrays(received: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let merged = after.iter().zip(origins(before, after)).map(|(after, origin)| match origin {
        Some(place) => merge(&received[place], &before[place], after),
        None => after.clone(),
    });
    merged.collect()
}

/// Returns, for each item of `after`, the index of the item of `before` that it was made from: the item that is equal,
/// else the one of the same name, else, in a list of the same length, the one at the same index. Whoever creates an
/// object chooses how long its lists are, and the review runs on the manager's threads: the time must not grow with the
/// square of the length.
fn origins(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut origins = Origins { of: vec![None; after.len()], taken: vec![false; before.len()] };
    origins.at_the_same_place(before, after, |before, after| before == after);
    origins.by_key(before, after, |item| Some(item.to_string()));
    origins.by_key(before, after, |item| name(item).map(str::to_owned));
    if before.len() == after.len() {
        origins.at_the_same_place(before, after, |_, _| true);
    }
    origins.of
}

/// Which items of a list were found in the list before. Each of those is the origin of one item only.
struct Origins {
    of: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl Origins {
    fn at_the_same_place(
        &mut self,
        before: &[Value],
        after: &[Value],
        fits: impl Fn(&Value, &Value) -> bool,
    ) {
        for (place, (before, after)) in before.iter().zip(after).enumerate() {
            if self.of[place].is_none() && !self.taken[place] && fits(before, after) {
                self.of[place] = Some(place);
                self.taken[place] = true;
            }
        }
    }

    fn by_key(&mut self, before: &[Value], after: &[Value], key: impl Fn(&Value) -> Option<String>) {
        let mut places: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
        for (place, item) in before.iter().enumerate().filter(|(place, _)| !self.taken[*place]) {
            if let Some(key) = key(item) {
                places.entry(key).or_default().push_back(place);
            }
        }
        for (index, item) in after.iter().enumerate() {
            if self.of[index].is_none()
                && let Some(place) = key(item).and_then(|key| places.get_mut(&key)?.pop_front())
            {
                self.of[index] = Some(place);
                self.taken[place] = true;
            }
        }
    }
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
    fn an_item_is_found_by_equality_then_name_then_place() {
        let check = |before: Value, after: Value, wanted: &[Option<usize>]| {
            let lists = (before.as_array().unwrap(), after.as_array().unwrap());
            assert_eq!(origins(lists.0, lists.1), wanted, "{before} {after}");
        };
        check(json!([1, 2, 3]), json!([3, 1, 2]), &[Some(2), Some(0), Some(1)]);
        check(json!([1, 1]), json!([1, 1, 1]), &[Some(0), Some(1), None]);
        check(json!([1, 2]), json!([2]), &[Some(1)]);
        check(json!([1, 2]), json!([1, 5]), &[Some(0), Some(1)]);
        check(json!([{"name": "a", "x": 1}, 7]), json!([8, {"name": "a", "x": 2}]), &[None, Some(0)]);
        check(json!([]), json!([1]), &[None]);
    }

    /// Whoever creates an object chooses the length of its lists. A list of 200,000 items to which the function added one
    /// took minutes, in which the review's time limit could not end it.
    #[test]
    fn the_time_does_not_grow_with_the_square_of_a_list() {
        const ITEMS: usize = 200_000;
        let before: Vec<Value> = (0..ITEMS).map(|n| json!({"name": n.to_string()})).collect();
        let mut after = vec![json!({"name": "sidecar"})];
        after.extend(before.iter().rev().cloned());
        let found = origins(&before, &after);
        assert_eq!(found[0], None);
        assert!(found[1..].iter().enumerate().all(|(at, origin)| *origin == Some(ITEMS - 1 - at)));
    }

    #[test]
    fn a_removed_field_is_removed_and_its_neighbours_stay() {
        let mut received = pod();
        received["spec"]["hostname"] = "h".into();
        let (result, patch) = changed(received, |pod| pod.spec.as_mut().unwrap().hostname = None);
        assert_eq!((result, patch), (pod(), json!([{ "op": "remove", "path": "/spec/hostname" }])));
    }
}
