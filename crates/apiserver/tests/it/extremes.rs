//! Extreme numbers in every numeric field of every built-in kind: created, printed, updated, deleted. Whether
//! the server accepts or refuses them, it must answer, and nothing may panic.

mod numbers;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use self::numbers::{fields, with};
use crate::api::Api;

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

#[tokio::test(start_paused = true)]
async fn no_number_in_an_object_stops_the_server() {
    let api = Api::start().await;
    let samples = samples(&api).await;
    assert!(samples.len() > 50, "the cases create more kinds than {}", samples.len());
    let mut tried = 0;
    for Sample { path, object } in samples {
        for (field, value) in fields(&object) {
            let what = format!("{} /{} = {value}", object["kind"], field.join("/"));
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
