//! The cost of changing one field of a Pod of 2, 20 and 200 KiB, which must be linear in the size.
//!
//! `cargo bench -p evenkeel-schema`

use divan::Bencher;
use evenkeel_schema::json::{Value, json};
use evenkeel_schema::managed_fields::{self, Context, OneVersion, Reset};
use evenkeel_schema::patch::{json, merge, strategic};
use evenkeel_schema::types;
use jiff::Timestamp;

const SIZES_KIB: [usize; 3] = [2, 20, 200];

fn main() {
    divan::main();
}

fn context(manager: &str) -> Context<'_> {
    Context {
        schema: types::builtin("", "v1", "Pod").expect("Pod is built in"),
        api_version: "v1",
        kind: "Pod",
        manager,
        subresource: "",
        now: Timestamp::UNIX_EPOCH,
        reset: Reset::none(),
        versions: &OneVersion,
    }
}

/// Makes a Pod of about this size, with typical containers of half a KiB each.
fn pod(kib: usize) -> Value {
    let container = |number: usize| {
        json!({
            "name": format!("container-{number}"),
            "image": "registry.example.com/team/application:v1.2.3",
            "args": ["--verbose", "--listen=0.0.0.0:8080"],
            "env": (0..4).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "a value of it"})).collect::<Vec<_>>(),
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}},
            "terminationMessagePath": "/dev/termination-log",
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "1", "labels": {"app": "web"}},
        "spec": {"containers": (0..kib * 2).map(container).collect::<Vec<_>>()},
    })
}

/// Makes a stored Pod, which one manager created and of which another one applied an image.
fn live(kib: usize) -> Value {
    let created = managed_fields::update(&context("creator"), None, pod(kib));
    managed_fields::apply(&context("me"), Some(created), &config("v1"), true).expect("force always applies")
}

fn config(version: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "container-1", "image": format!("other:{version}")}]},
    })
}

#[divan::bench(args = SIZES_KIB)]
fn apply_one_field(bencher: Bencher<'_, '_>, kib: usize) {
    let (live, config, context) = (live(kib), config("v2"), context("me"));
    bencher
        .with_inputs(|| live.clone())
        .bench_local_values(|live| managed_fields::apply(&context, Some(live), &config, false));
}

/// Applies the whole Pod again with one field changed, as controllers do.
#[divan::bench(args = SIZES_KIB)]
fn apply_whole(bencher: Bencher<'_, '_>, kib: usize) {
    let (mut config, context) = (pod(kib), context("me"));
    config["metadata"].as_object_mut().expect("a pod has metadata").remove("uid");
    let mut live = managed_fields::apply(&context, None, &config, false).expect("nobody else owns anything");
    live["metadata"]["uid"] = "1".into();
    config["spec"]["containers"][1]["image"] = "another".into();
    bencher
        .with_inputs(|| live.clone())
        .bench_local_values(|live| managed_fields::apply(&context, Some(live), &config, false));
}

#[divan::bench(args = SIZES_KIB)]
fn stop_applying(bencher: Bencher<'_, '_>, kib: usize) {
    let nothing = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let (live, context) = (live(kib), context("me"));
    bencher
        .with_inputs(|| live.clone())
        .bench_local_values(|live| managed_fields::apply(&context, Some(live), &nothing, false));
}

#[divan::bench(args = SIZES_KIB)]
fn update_one_field(bencher: Bencher<'_, '_>, kib: usize) {
    let live = live(kib);
    let mut new = live.clone();
    new["spec"]["containers"][1]["image"] = "another".into();
    let context = context("updater");
    bencher
        .with_inputs(|| new.clone())
        .bench_local_values(|new| managed_fields::update(&context, Some(&live), new));
}

#[divan::bench(args = SIZES_KIB)]
fn strategic_merge(bencher: Bencher<'_, '_>, kib: usize) {
    let (pod, schema) = (pod(kib), context("").schema);
    let patch = json!({"spec": {"containers": [{"name": "container-1", "image": "another"}]}});
    bencher.with_inputs(|| (pod.clone(), patch.clone())).bench_local_values(|(mut pod, mut patch)| {
        strategic::apply(schema, &mut pod, &mut patch).map(|()| pod)
    });
}

#[divan::bench(args = SIZES_KIB)]
fn merge_patch(bencher: Bencher<'_, '_>, kib: usize) {
    let (pod, patch) = (pod(kib), json!({"metadata": {"labels": {"app": "other"}}}));
    bencher
        .with_inputs(|| (pod.clone(), patch.clone()))
        .bench_local_values(|(mut pod, patch)| merge::apply(&mut pod, patch).map(|()| pod));
}

#[divan::bench(args = SIZES_KIB)]
fn json_patch(bencher: Bencher<'_, '_>, kib: usize) {
    let pod = pod(kib);
    let patch = json!([{"op": "replace", "path": "/spec/containers/1/image", "value": "another"}]);
    bencher.bench_local(|| json::apply(&pod, &patch));
}

/// Copies the object, for comparison: every write that keeps the old object pays this cost.
#[divan::bench(args = SIZES_KIB)]
fn copy(bencher: Bencher<'_, '_>, kib: usize) {
    let live = live(kib);
    bencher.bench_local(|| live.clone());
}
