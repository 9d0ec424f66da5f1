use super::*;
use crate::json::json;
use crate::types::builtin;

fn patched(kind: (&str, &str), mut object: Value, mut patch: Value) -> Result<Value, PatchError> {
    apply(builtin(kind.0, "v1", kind.1).unwrap(), &mut object, &mut patch)?;
    Ok(object)
}

fn pod(object: Value, patch: Value) -> Value {
    patched(("", "Pod"), object, patch).unwrap()
}

fn names(object: &Value) -> Vec<&str> {
    object["spec"]["containers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect()
}

fn containers(names: &[&str]) -> Value {
    json!({"spec": {"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}})
}

#[test]
fn maps_are_merged_and_null_removes() {
    let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}, "annotations": {"x": null, "y": "1"}}});
    let expected = json!({"metadata": {"labels": {"b": "2", "c": "3"}, "annotations": {"y": "1"}}});
    assert_eq!(pod(object, patch), expected);
}

#[test]
fn lists_are_merged_by_key_and_the_patch_comes_first() {
    let after = pod(containers(&["a", "b"]), containers(&["c", "b"]));
    assert_eq!(names(&after), ["c", "a", "b"]);
}

#[test]
fn an_order_is_set() {
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}],
        "containers": [{"name": "c"}]}});
    assert_eq!(names(&pod(containers(&["a", "x", "b"]), patch)), ["c", "a", "x", "b"]);
}

#[test]
fn an_item_is_deleted_and_a_list_replaced() {
    let patch = json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}});
    assert_eq!(names(&pod(containers(&["a", "b"]), patch)), ["b"]);
    let patch = json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}});
    assert_eq!(names(&pod(containers(&["a", "b"]), patch)), ["c"]);
}

#[test]
fn an_item_that_carries_replace_is_itself_dropped() {
    let patch = json!({"spec": {"containers": [{"name": "a", "image": "x", "$patch": "replace"}]}});
    assert!(pod(containers(&["a", "b"]), patch)["spec"]["containers"].as_array().unwrap().is_empty());
}

#[test]
fn a_map_is_replaced_or_deleted() {
    let object = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"nodeName": "n"}});
    let patch =
        json!({"metadata": {"labels": {"$patch": "replace", "b": "2"}}, "spec": {"$patch": "delete"}});
    assert_eq!(pod(object, patch), json!({"metadata": {"labels": {"b": "2"}}, "spec": {}}));
}

#[test]
fn scalars_of_a_set_are_added_and_deleted() {
    let object = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(pod(object, patch)["metadata"]["finalizers"], json!(["c", "b"]));
}

#[test]
fn retained_keys_are_all_that_stays() {
    let object = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let after = patched(("apps", "Deployment"), object.clone(), patch).unwrap();
    assert_eq!(after["spec"]["strategy"], json!({"type": "Recreate"}));

    let patch = json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}});
    let error = patched(("apps", "Deployment"), object, patch).unwrap_err();
    assert_eq!(error, PatchError::BadRequest("invalid patch format of retainKeys".into()));
}

#[test]
fn errors_are_worded_as_kubernetes_words_them() {
    let refused = |patch: Value| patched(("", "Pod"), containers(&["a"]), patch).unwrap_err().to_string();
    assert_eq!(
        refused(json!({"spec": {"containers": [{"image": "a:2"}]}})),
        "map: map[image:a:2] does not contain declared merge key: name"
    );
    assert_eq!(
        refused(json!({"spec": {"containers": [{"name": "a", "$patch": "bogus"}]}})),
        "unknown patch type: bogus in map: map[$patch:bogus name:a]"
    );
    assert_eq!(
        refused(json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}})),
        "merging lists cannot yet be specified in the patch"
    );
}
