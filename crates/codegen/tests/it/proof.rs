//! The generated types are compiled, run, and compared with their source.

use std::path::PathBuf;

use evenkeel_codegen::{Crates, compare, generate};
use serde_json::{Value, json};

use crate::features::{self, v1};

fn source() -> Value {
    serde_saphyr::from_str(include_str!("../features.yaml")).expect("the definition is YAML")
}

/// `EVENKEEL_UPDATE=1` writes the file anew.
#[test]
fn the_compiled_file_is_what_is_generated() {
    let generated = generate(&[source()], Crates::Direct).expect("the definition is structural");
    assert_eq!(generated.notes, []);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/features.rs");
    if std::env::var_os("EVENKEEL_UPDATE").is_some() {
        std::fs::write(&path, &generated.source).expect("the file can be written");
    }
    let text = std::fs::read_to_string(&path).expect("the file is there");
    assert!(text == generated.source, "run this test with EVENKEEL_UPDATE=1, then look at the difference");
}

#[test]
fn the_types_describe_their_source() {
    let produced = serde_json::to_value(features::definition()).expect("a definition is JSON");
    let differences: Vec<String> = compare(&source(), &produced).iter().map(ToString::to_string).collect();
    assert_eq!(differences, Vec::<String>::new());
}

/// An object that uses what has a rule of its own comes back as it was.
#[test]
fn objects_pass_through_the_types_unchanged() {
    let object = json!({
        "apiVersion": "harbour.k8s.io/v1", "kind": "Boat", "metadata": {"name": "tern"},
        "spec": {
            "engine": "<=", "type": "sloop", "self": "x", "1st": "a", "a-b": "b", "aB": "c",
            "fuel": 3, "tank": "1Gi", "stores": {"rum": "2k"}, "key": "aGk=", "depth": 4_000_000_000_i64,
            "anything": [1], "open": {"a": null}, "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
            "marker": {}, "berths": [{"port": "A", "until": null}], "holes": [1, null],
            "times": ["2026-01-02T03:04:05Z"], "sail": {"area": 3, "sail": {"sail": {"area": 1, "more": true}}},
        },
        "status": {"conditions": [{"type": "Afloat", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}]},
    });
    let boat: v1::Boat = serde_json::from_value(object.clone()).expect("the object fits the types");
    assert_eq!(boat.spec.engine, Some(v1::BoatSpecEngine::LessEqual));
    assert_eq!(serde_json::to_value(&boat).expect("the object is JSON"), object);
}

#[test]
fn an_object_without_its_optional_spec_is_read() {
    let object = json!({"apiVersion": "harbour.k8s.io/v1", "kind": "Boat", "metadata": {"name": "tern"}});
    let boat: v1::Boat = serde_json::from_value(object).expect("the spec is optional");
    assert_eq!(boat.spec, v1::BoatSpec::default());
}

#[test]
fn fields_beside_spec_are_kept() {
    let object = json!({
        "apiVersion": "harbour.k8s.io/v1alpha1", "kind": "Boat", "metadata": {"name": "tern"},
        "crew": 3, "status": {"crew": 2},
    });
    let boat: features::v1alpha1::Boat = serde_json::from_value(object.clone()).expect("it fits");
    assert_eq!(boat.spec.crew, 3);
    assert_eq!(serde_json::to_value(&boat).expect("the object is JSON"), object);
}

/// An object of which the schema says nothing was refused by kube's derive, which needs a struct with named fields.
#[test]
fn an_object_without_any_named_field_keeps_all_of_them() {
    let object = json!({
        "apiVersion": "harbour.k8s.io/v1alpha2", "kind": "Boat", "metadata": {"name": "tern"},
        "crew": 3, "more": {"a": [1, null]},
    });
    let boat: features::v1alpha2::Boat = serde_json::from_value(object.clone()).expect("it fits");
    assert_eq!(boat.spec.other_fields["crew"], 3);
    assert_eq!(serde_json::to_value(&boat).expect("the object is JSON"), object);
}

#[test]
fn an_optional_spec_may_be_a_map() {
    let object = json!({
        "apiVersion": "harbour.k8s.io/v1beta1", "kind": "Boat", "metadata": {"name": "tern"}, "spec": {"a": "b"},
    });
    let boat: features::v1beta1::Boat = serde_json::from_value(object.clone()).expect("it fits");
    assert_eq!(boat.spec.0["a"], "b");
    assert_eq!(serde_json::to_value(&boat).expect("the object is JSON"), object);
    let without = json!({"apiVersion": "harbour.k8s.io/v1beta1", "kind": "Boat", "metadata": {}});
    let boat: features::v1beta1::Boat = serde_json::from_value(without).expect("the spec is optional");
    assert_eq!(boat.spec, features::v1beta1::BoatSpec::default());
}
