//! Properties of field ownership that hold for any sequence of writes.

use std::collections::BTreeSet;

use evenkeel_schema::fieldset::{FieldSet, Path, PathElement};
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::managed_fields::{self, ApplyError, Context, OneVersion, Reset};
use evenkeel_schema::types;
use jiff::Timestamp;
use proptest::prelude::*;

use crate::pods::pod;

fn context(manager: &str) -> Context<'_> {
    Context {
        schema: types::builtin("", "v1", "Pod").unwrap(),
        api_version: "v1",
        kind: "Pod",
        manager,
        subresource: "",
        now: Timestamp::from_second(1_700_000_000).unwrap(),
        reset: Reset::none(),
        versions: &OneVersion,
    }
}

/// The object as it would be stored: with a UID, without nulls.
fn stored(mut object: Value) -> Value {
    fn without_nulls(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                map.values_mut().for_each(without_nulls);
            }
            Value::Array(items) => items.iter_mut().for_each(without_nulls),
            _ => {}
        }
    }
    object["metadata"]["uid"] = "1".into();
    without_nulls(&mut object);
    object
}

fn apply(manager: &str, live: Option<&Value>, config: &Value) -> Value {
    stored(managed_fields::apply(&context(manager), live.cloned(), config, true).unwrap())
}

fn update(manager: &str, live: Option<&Value>, new: &Value) -> Value {
    let mut new = new.clone();
    if let Some(live) = live {
        new["metadata"]["managedFields"] = live["metadata"]["managedFields"].clone();
        new["metadata"]["uid"] = "1".into();
    }
    stored(managed_fields::update(&context(manager), live, new))
}

/// The fields that a manager owns in all its entries, or the fields of all managers.
fn owned_by(object: &Value, manager: Option<&str>) -> FieldSet {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .filter(|entry| manager.is_none_or(|manager| entry["manager"] == manager))
        .map(|entry| FieldSet::from_json(&entry["fieldsV1"]).unwrap())
        .fold(FieldSet::new(), |all, set| all.union(&set))
}

/// The fields of an object that can be owned.
fn ownable(object: &Value) -> FieldSet {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["name", "uid", "managedFields"] {
        metadata.remove(name);
    }
    let nothing_left = metadata.is_empty();
    let fields = object.as_object_mut().unwrap();
    if nothing_left {
        fields.remove("metadata");
    }
    fields.remove("apiVersion");
    fields.remove("kind");
    managed_fields::fields(types::builtin("", "v1", "Pod").unwrap(), &object)
}

/// The object without its managedFields.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}

/// Whether a path is in the set or is a parent of a path in it.
fn exists(fields: &BTreeSet<Path>, path: &Path) -> bool {
    fields.iter().any(|field| field.0.starts_with(&path.0))
}

/// Whether a path is that of a map or list. One that became empty is removed, but, as in Kubernetes, its
/// owner still owns it.
fn may_be_emptied(path: &Path) -> bool {
    let containers = ["labels", "annotations", "finalizers", "containers", "env", "ports"];
    matches!(path.0.last(), Some(PathElement::Field(name)) if containers.contains(&name.as_ref()))
}

#[derive(Debug, Clone)]
enum Step {
    Apply(&'static str, Value),
    Update(&'static str, Value),
}

fn step() -> impl Strategy<Value = Step> {
    let manager = prop_oneof![Just("one"), Just("two"), Just("three")];
    (manager, any::<bool>(), pod()).prop_map(|(manager, applies, pod)| match applies {
        true => Step::Apply(manager, pod),
        false => Step::Update(manager, pod),
    })
}

fn run(steps: &[Step]) -> Value {
    let mut live: Option<Value> = None;
    for step in steps {
        live = Some(match step {
            Step::Apply(manager, config) => apply(manager, live.as_ref(), config),
            Step::Update(manager, new) => update(manager, live.as_ref(), new),
        });
    }
    live.unwrap()
}

proptest! {
    #![proptest_config(crate::cases())]

    #[test]
    fn applying_twice_is_applying_once(before in proptest::collection::vec(step(), 0..3), config in pod()) {
        let live = (!before.is_empty()).then(|| run(&before));
        let once = apply("me", live.as_ref(), &config);
        prop_assert_eq!(&apply("me", Some(&once), &config), &once);
    }

    #[test]
    fn managers_of_other_fields_commute(pod in pod(), seed in any::<u64>()) {
        let (a, b) = split(&pod, seed);
        let one = apply("b", Some(&apply("a", None, &a)), &b);
        let other = apply("a", Some(&apply("b", None, &b)), &a);
        prop_assert_eq!(sorted(one), sorted(other));
    }

    #[test]
    fn owned_is_what_exists(steps in proptest::collection::vec(step(), 1..6)) {
        let object = run(&steps);
        let there: BTreeSet<Path> = ownable(&object).paths().into_iter().collect();
        let owned = owned_by(&object, None);
        for path in owned.paths().into_iter().filter(|path| !may_be_emptied(path)) {
            prop_assert!(exists(&there, &path), "{} is owned but not there: {:#}", path, object);
        }
        for path in ownable(&object).leaves().paths() {
            let held = (1..=path.0.len()).any(|length| owned.has(&path.0[..length]));
            prop_assert!(held, "{} is there but not owned: {:#}", path, object);
        }
    }

    #[test]
    fn who_stops_applying_leaves_what_others_own(mine in pod(), theirs in pod()) {
        let nothing = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
        let alone = apply("them", None, &theirs);
        let both = apply("me", Some(&alone), &mine);
        let kept = owned_by(&both, Some("them"));
        let after = apply("me", Some(&both), &nothing);
        prop_assert_eq!(owned_by(&after, Some("me")), FieldSet::new());
        prop_assert_eq!(owned_by(&after, Some("them")), kept);
        // Applying again restores exactly the applied configuration.
        let again = apply("them", Some(&after), &theirs);
        prop_assert_eq!(ownable(&again), ownable(&alone));
    }

    #[test]
    fn a_conflict_changes_nothing_and_names_what_differs(mine in pod(), theirs in pod()) {
        let live = apply("them", None, &theirs);
        match managed_fields::apply(&context("me"), Some(live.clone()), &mine, false) {
            Ok(merged) => prop_assert!(owned_by(&live, Some("them")).is_subset(&owned_by(&merged, Some("them")))),
            Err(ApplyError::Conflicts(conflicts)) => {
                let forced = apply("me", Some(&live), &mine);
                for conflict in conflicts.0 {
                    prop_assert!(owned_by(&live, Some("them")).has(&conflict.path.0));
                    prop_assert!(!owned_by(&forced, Some("them")).has(&conflict.path.0));
                }
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn an_update_that_changes_nothing_keeps_the_record(steps in proptest::collection::vec(step(), 1..4)) {
        let live = run(&steps);
        let again = update("somebody", Some(&live), &content(&live));
        prop_assert_eq!(again, live);
    }
}

/// Splits a configuration into two with disjoint fields: map keys and list items go to one or the other.
fn split(pod: &Value, seed: u64) -> (Value, Value) {
    let (mut a, mut b) = (pod.clone(), pod.clone());
    let mut coin = seed;
    let mut flip = || {
        coin = coin.rotate_left(1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1);
        coin & 1 == 0
    };
    for pointer in ["/metadata/labels", "/metadata/annotations"] {
        let keys: Vec<_> = pod
            .pointer(pointer)
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|map| map.keys().cloned())
            .collect();
        for key in keys {
            let loser = if flip() { &mut a } else { &mut b };
            loser.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(&key);
        }
    }
    for (parent, field) in [
        ("/metadata", "finalizers"),
        ("/spec", "nodeSelector"),
        ("/spec", "tolerations"),
        ("/spec", "hostname"),
    ] {
        let loser = if flip() { &mut a } else { &mut b };
        loser.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
    }
    // Each container goes to one of the two configurations; the other does not contain it.
    let containers = pod["spec"]["containers"].as_array().unwrap().clone();
    let (mine, yours): (Vec<_>, Vec<_>) = containers.into_iter().partition(|_| flip());
    a["spec"]["containers"] = mine.into();
    b["spec"]["containers"] = yours.into();
    for object in [&mut a, &mut b] {
        prune_empty(object);
    }
    (a, b)
}

/// Sorts the containers, because their order depends on the order of the applies.
fn sorted(mut object: Value) -> Value {
    if let Some(containers) = object["spec"]["containers"].as_array_mut() {
        containers.sort_by_key(|container| container["name"].to_string());
    }
    object
}

fn prune_empty(object: &mut Value) {
    for (parent, field) in
        [("/metadata", "labels"), ("/metadata", "annotations"), ("/spec", "containers"), ("", "spec")]
    {
        let map = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        let empty = map.get(field).is_some_and(|value| match value {
            Value::Object(map) => map.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        });
        if empty {
            map.remove(field);
        }
    }
}
