//! Objects that were sent to Kubernetes v1.36, with its responses. Each goes through all steps of a create.

use evenkeel_schema::json::Value;
use evenkeel_schema::{defaults, normalize, prepare, validate};
use jiff::Timestamp;

const REFUSALS: &str = include_str!("../recorded/refusals.json");
pub(crate) const DEFAULTS: &str = include_str!("../recorded/defaults.json");

pub(crate) fn cases(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("the recording is JSON")
}

/// The object as it would be stored, and its errors as pairs of field and message.
fn create(case: &Value) -> (Value, Vec<(String, String)>) {
    let text = |name: &str| case[name].as_str().expect("a string");
    let (group, version, kind) = (text("group"), text("version"), text("kind"));
    let mut object = case["object"].clone();
    normalize::normalize(group, version, kind, &mut object);
    if kind == "Secret" {
        prepare::string_data(&mut object);
    }
    defaults::apply(group, version, kind, &mut object);
    prepare::create(group, version, kind, &mut object, Timestamp::UNIX_EPOCH);
    let errors = validate::validate(group, version, kind, &object, None, "");
    (object, errors.iter().map(|error| (error.field.clone(), error.body())).collect())
}

#[test]
fn refusals_are_word_for_word() {
    for case in cases(REFUSALS) {
        let (_, errors) = create(&case);
        let recorded: Vec<(String, String)> =
            evenkeel_schema::json::from_value(case["causes"].clone()).expect("pairs of strings");
        assert_eq!(errors, recorded, "{}", case["case"]);
    }
}

#[test]
fn defaults_are_those_of_kubernetes() {
    for case in cases(DEFAULTS) {
        let (mut object, errors) = create(&case);
        assert_eq!(errors, [], "{}", case["case"]);
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.remove("uid");
        let mut stored = case["stored"].clone();
        // The recorder replaces names, and the request may omit the type; neither is compared.
        for field in ["name", "namespace"] {
            let own = object["metadata"].get(field).cloned();
            if let (Some(own), Some(stored)) = (own, stored["metadata"].as_object_mut()) {
                stored.insert(field.into(), own);
            }
        }
        for field in ["apiVersion", "kind"] {
            object[field] = stored[field].clone();
        }
        assert_eq!(object, stored, "{}", case["case"]);
    }
}
