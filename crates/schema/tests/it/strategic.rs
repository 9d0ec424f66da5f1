//! A strategic merge patch that is computed like kubectl's leads from one object to another.

use evenkeel_schema::json::{Map, Value, json};
use evenkeel_schema::patch::strategic;
use evenkeel_schema::types::{self, Schema};
use proptest::prelude::*;

use crate::pods::{pod, pod_with_volumes};

/// Computes the patch from one object to another; `None` if they are equal.
fn diff(schema: &Schema, from: &Map, to: &Map) -> Option<Map> {
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, new) in to {
        let old = from.get(key);
        if old == Some(new) {
            continue;
        }
        let field = schema.field(key).unwrap();
        match (old, new) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let mut beneath = diff(field, old, new).unwrap_or_default();
                if field.patch_strategy.retain_keys {
                    beneath.insert("$retainKeys".into(), new.keys().cloned().collect());
                }
                patch.insert(key.clone(), beneath.into());
            }
            (Some(Value::Array(old)), Value::Array(new)) if field.patch_strategy.merge => {
                diff_list(field, key, old, new, &mut patch);
            }
            _ => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    (!patch.is_empty()).then_some(patch)
}

fn diff_list(field: &Schema, key: &str, old: &[Value], new: &[Value], patch: &mut Map) {
    let Some(merge_key) = field.patch_merge_key.as_deref() else {
        let gone: Vec<_> = old.iter().filter(|item| !new.contains(item)).cloned().collect();
        let come: Vec<_> = new.iter().filter(|item| !old.contains(item)).cloned().collect();
        if !gone.is_empty() {
            patch.insert(format!("$deleteFromPrimitiveList/{key}").into(), gone.into());
        }
        if !come.is_empty() {
            patch.insert(key.into(), come.into());
        }
        patch.insert(format!("$setElementOrder/{key}").into(), new.to_vec().into());
        return;
    };
    let find = |items: &[Value], id: &Value| items.iter().find(|item| &item[merge_key] == id).cloned();
    let mut items = Vec::new();
    for item in new {
        let id = &item[merge_key];
        match find(old, id) {
            None => items.push(item.clone()),
            Some(before) => {
                let (before, after) = (before.as_object().unwrap().clone(), item.as_object().unwrap());
                if let Some(mut change) = diff(field.items().unwrap(), &before, after) {
                    change.insert(merge_key.into(), id.clone());
                    if field.patch_strategy.retain_keys {
                        // As in kubectl, removed fields are expressed by the fields that stay, not by nulls.
                        change.retain(|_, value| !value.is_null());
                        change.insert("$retainKeys".into(), after.keys().cloned().collect());
                    }
                    items.push(change.into());
                }
            }
        }
    }
    for item in old.iter().filter(|item| find(new, &item[merge_key]).is_none()) {
        items.push(json!({merge_key: item[merge_key], "$patch": "delete"}));
    }
    if !items.is_empty() {
        patch.insert(key.into(), items.into());
    }
    let order: Vec<_> = new.iter().map(|item| json!({merge_key: item[merge_key]})).collect();
    patch.insert(format!("$setElementOrder/{key}").into(), order.into());
}

/// Removes ports with the same number, because a strategic merge patch identifies ports by their number
/// alone.
fn one_port_each(mut pod: Value) -> Value {
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        if let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) {
            ports.dedup_by_key(|port| port["containerPort"].clone());
        }
    }
    pod
}

proptest! {
    #![proptest_config(crate::cases())]

    #[test]
    fn a_computed_patch_leads_to_the_target(from in pod_with_volumes(), to in pod_with_volumes()) {
        let schema = types::builtin("", "v1", "Pod").unwrap();
        let (mut object, to) = (one_port_each(from), one_port_each(to));
        let patch = diff(schema, object.as_object().unwrap(), to.as_object().unwrap());
        let mut patch = Value::Object(patch.unwrap_or_default());
        strategic::apply(schema, &mut object, &mut patch).unwrap();
        prop_assert_eq!(object, to);
    }

    #[test]
    fn an_empty_patch_changes_nothing(pod in pod()) {
        let mut object = pod.clone();
        strategic::apply(types::builtin("", "v1", "Pod").unwrap(), &mut object, &mut json!({})).unwrap();
        prop_assert_eq!(object, pod);
    }
}
