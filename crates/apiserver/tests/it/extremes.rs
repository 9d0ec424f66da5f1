//! Extreme numbers in every numeric field of every built-in kind: created, printed, updated, deleted. Whether
//! the server accepts or refuses them, it must answer, and nothing may panic.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_schema::types::{self, Schema, Type};
use serde_json::{Value, json};

use crate::api::Api;

/// How many levels of missing objects are created to set a field.
const MADE_LEVELS: usize = 2;
/// How deep fields are searched for. Below that are the schemas of CRDs, which contain themselves.
const LEVELS_MAX: usize = 12;

/// An object that a recorded parity case creates, and the path to which it is posted.
struct Sample {
    path: String,
    object: Value,
}

/// One object of each kind that the server accepts, from the parity cases.
async fn samples(api: &Api) -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../parity/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut by_kind: BTreeMap<String, Sample> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap().replace("{ns}", "a");
        let options = serde_saphyr::options! { strict_booleans: true };
        let cases: Value = serde_saphyr::from_str_with_options(&text, options).unwrap();
        let steps = cases.as_array().into_iter().flatten().flat_map(|case| case["steps"].as_array());
        for step in steps.flatten() {
            let (Some(call), object) = (step["call"].as_str(), &step["body"]) else { continue };
            let Some(path) = call.strip_prefix("POST ").filter(|_| object.is_object()) else { continue };
            let kind = format!("{} {}", object["apiVersion"], object["kind"]);
            if path.contains('?') || path.contains('{') || by_kind.contains_key(&kind) {
                continue;
            }
            if api.post(&format!("{path}?dryRun=All"), object.clone()).await.status == 201 {
                by_kind.insert(kind, Sample { path: path.to_owned(), object: object.clone() });
            }
        }
    }
    by_kind.into_values().collect()
}

/// The extreme values of a numeric field.
fn extremes(schema: &Schema) -> Vec<Value> {
    let integers = [0, -1, i64::from(i32::MAX), i64::from(i32::MAX) + 1, i64::MAX, i64::MIN];
    let quantities = [
        "9223372036854775807",
        "-9223372036854775808E",
        "9223372036854775807Ei",
        "1e2147483647",
        "1e-2147483648",
        "0.000000000000000000001",
    ];
    let percentages = ["9223372036854775807%", "-1%", "100000000000000000000%"];
    match schema.kind() {
        Some(Type::Integer) => integers.into_iter().map(Value::from).collect(),
        Some(Type::Number) => vec![json!(f64::MAX), json!(f64::MIN_POSITIVE), json!(-1.0)],
        _ => match &*schema.resolve().format {
            "int-or-string" => {
                integers.into_iter().map(Value::from).chain(percentages.map(Value::from)).collect()
            }
            "quantity" => quantities.map(Value::from).to_vec(),
            _ if schema.type_name().is_some_and(|name| name.ends_with(".Quantity")) => {
                quantities.map(Value::from).to_vec()
            }
            _ if schema.type_name().is_some_and(|name| name.ends_with(".IntOrString")) => {
                integers.into_iter().map(Value::from).chain(percentages.map(Value::from)).collect()
            }
            _ => Vec::new(),
        },
    }
}

/// Collects the numeric fields of an object, each with the values to try.
fn fields(
    schema: &Schema,
    object: &Value,
    path: &[String],
    made: usize,
    found: &mut Vec<(Vec<String>, Value)>,
) {
    let below = |part: &str| -> Vec<String> { path.iter().cloned().chain([part.to_owned()]).collect() };
    let values = extremes(schema);
    if !values.is_empty() {
        found.extend(values.into_iter().map(|value| (path.to_vec(), value)));
        return;
    }
    if path.len() >= LEVELS_MAX || made > MADE_LEVELS {
        return;
    }
    // A pod template has the same fields as a Pod, which is a sample of its own.
    let left_out = |name: &str| matches!(name, "managedFields" | "template");
    for (name, field) in schema.fields().iter().filter(|(name, _)| !left_out(name)) {
        let value = object.get(name).unwrap_or(&Value::Null);
        fields(field, value, &below(name), made + usize::from(value.is_null()), found);
    }
    if let (Some(items), Some(first)) = (schema.items(), object.get(0)) {
        fields(items, first, &below("0"), made, found);
    }
    if let (Some(values), Some(map)) = (schema.values(), object.as_object())
        && let Some((key, value)) = map.iter().next()
    {
        fields(values, value, &below(key), made, found);
    }
}

/// Returns the object with another value at a path; missing levels are created.
fn with(object: &Value, path: &[String], value: &Value) -> Value {
    let mut changed = object.clone();
    let mut place = &mut changed;
    for part in path {
        place = match place {
            Value::Array(items) => &mut items[part.parse::<usize>().unwrap()],
            other => &mut other[part.as_str()],
        };
    }
    *place = value.clone();
    changed
}

#[tokio::test(start_paused = true)]
async fn no_number_in_an_object_stops_the_server() {
    let api = Api::start().await;
    let samples = samples(&api).await;
    assert!(samples.len() > 50, "the cases create more kinds than {}", samples.len());
    let mut tried = 0;
    for Sample { path, object } in samples {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = object["kind"].as_str().unwrap_or_default();
        let Some(schema) = types::builtin(group, version, kind) else { continue };
        let mut found = Vec::new();
        fields(schema, &object, &[], 0, &mut found);
        for (field, value) in found {
            let what = format!("{kind} /{} = {value}", field.join("/"));
            try_out(&api, &path, &with(&object, &field, &value), &object).await;
            assert_eq!(api.server().panics(), 0, "{what}");
            tried += 1;
        }
    }
    assert!(tried > 1500, "more fields hold numbers than {tried}");
}

/// Creates an object, prints it, writes it as an update and as a status, and deletes it. Then creates the
/// object `before` and updates it to this one.
async fn try_out(api: &Api, path: &str, object: &Value, before: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap_or("none");
    let own = format!("{path}/{name}");
    for first in [object, before] {
        if api.post(path, first.clone()).await.status != 201 {
            continue;
        }
        api.table(path).await;
        api.put(&own, object.clone()).await;
        api.put(&format!("{own}/status"), object.clone()).await;
        api.merge(&own, json!({"spec": object["spec"]})).await;
        api.table(&own).await;
        api.delete(&format!("{own}?gracePeriodSeconds=0")).await;
        if api.get(&own).await.status == 200 {
            api.merge(&own, json!({"metadata": {"finalizers": null}, "spec": {"finalizers": null}})).await;
            api.delete(&format!("{own}?gracePeriodSeconds=0")).await;
        }
    }
}
