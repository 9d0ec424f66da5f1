//! Field sets compared with plain sets of paths.

use std::collections::BTreeSet;

use evenkeel_schema::fieldset::{FieldSet, Path, PathElement};
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::{managed_fields, types};
use proptest::prelude::*;

fn element() -> impl Strategy<Value = PathElement> {
    let value = prop_oneof![
        Just(json!("x")),
        Just(json!("a \"quoted\"/é")),
        Just(json!(1)),
        Just(json!(-2.5)),
        Just(json!(true))
    ];
    let name = prop_oneof![Just("a"), Just("b"), Just("a.b/c"), Just("")];
    prop_oneof![
        3 => name.clone().prop_map(PathElement::field),
        1 => (name, value.clone()).prop_map(|(name, value)| PathElement::key(vec![(name.into(), value)])),
        1 => value.prop_map(PathElement::Value),
        1 => (-2..3_i64).prop_map(PathElement::Index),
    ]
}

fn paths() -> impl Strategy<Value = BTreeSet<Path>> {
    let path = proptest::collection::vec(element(), 1..4).prop_map(Path);
    proptest::collection::btree_set(path, 0..8)
}

fn set(paths: &BTreeSet<Path>) -> FieldSet {
    paths.iter().cloned().collect()
}

fn members(set: &FieldSet) -> BTreeSet<Path> {
    set.paths().into_iter().collect()
}

proptest! {
    #![proptest_config(crate::cases())]

    #[test]
    fn a_set_survives_its_text(paths in paths()) {
        let set = set(&paths);
        prop_assert_eq!(members(&set), paths);
        prop_assert_eq!(&set.to_text().parse::<FieldSet>().unwrap(), &set);
        prop_assert_eq!(&FieldSet::from_json(&set.to_json()).unwrap(), &set);
    }

    #[test]
    fn the_algebra_is_that_of_sets(a in paths(), b in paths()) {
        let (x, y) = (set(&a), set(&b));
        prop_assert_eq!(members(&x.union(&y)), a.union(&b).cloned().collect());
        prop_assert_eq!(members(&x.intersection(&y)), a.intersection(&b).cloned().collect());
        prop_assert_eq!(members(&x.difference(&y)), a.difference(&b).cloned().collect());
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        let beneath = |path: &&Path| !b.iter().any(|taken| path.0.starts_with(&taken.0));
        prop_assert_eq!(members(&x.recursive_difference(&y)), a.iter().filter(beneath).cloned().collect());
        let is_leaf = |path: &&Path| !a.iter().any(|other| other != *path && other.0.starts_with(&path.0));
        prop_assert_eq!(members(&x.leaves()), a.iter().filter(is_leaf).cloned().collect());
    }
}

/// The recorded managedFields of a real Deployment are encoded as they were decoded.
#[test]
fn a_recorded_set_is_read_and_written() {
    let recorded = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {
                ".": {}, "f:image": {}, "f:name": {},
                "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}
            }}}}
        }
    });
    let set = FieldSet::from_json(&recorded).unwrap();
    assert_eq!(set.to_json(), recorded);
    let port =
        r#".spec.template.spec.containers[name="web"].ports[containerPort=80,protocol="TCP"].containerPort"#;
    assert!(set.paths().iter().any(|path| path.to_string() == port), "{set}");
}

#[test]
fn elements_of_an_unknown_kind_are_left_out() {
    let set = FieldSet::from_json(&json!({"f:a": {}, "z:new": {}})).unwrap();
    assert_eq!(set.to_json(), json!({"f:a": {}}));
    assert!(FieldSet::from_json(&json!({"no colon": {}})).is_err());
    assert!(FieldSet::from_json(&Value::from("text")).is_err());
}

#[test]
fn the_text_has_the_order_of_kubernetes() {
    let service = types::builtin("", "v1", "Service").unwrap();
    let ports: Vec<_> = [443, 80, 8080].iter().map(|port| json!({"port": port})).collect();
    let text = managed_fields::fields(service, &json!({"spec": {"ports": ports}})).to_text();
    let (a, b) = (text.find(":80,").unwrap(), text.find(":443,").unwrap());
    assert!(a < b, "numbers sort as numbers: {text}");
}
