//! Fuzzes the reviews that the API server sends to an operator's webhooks. The first byte chooses the path, the rest is the
//! body. Every review has an answer: a review, or a `Status` that says why not. A patch can be applied.
#![no_main]

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use evenkeel_runtime::webhook::{Admission, Conversion, Convertible, FieldErrors, Verdict, Webhook, Webhooks};
use evenkeel_runtime::{Manager, Result};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "x.io", version = "v1", kind = "Tree", namespaced)]
    pub struct TreeSpec {
        pub height: i32,
    }
}

mod v2 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "x.io", version = "v2", kind = "Tree", namespaced)]
    pub struct TreeSpec {
        pub metres: i32,
    }
}

impl Convertible for v1::Tree {
    type Hub = v2::Tree;

    fn into_hub(self) -> Result<v2::Tree> {
        Ok(v2::Tree { metadata: self.metadata, spec: v2::TreeSpec { metres: self.spec.height } })
    }

    fn from_hub(hub: v2::Tree) -> Result<Self> {
        Ok(v1::Tree { metadata: hub.metadata, spec: v1::TreeSpec { height: hub.spec.metres } })
    }
}

async fn check(pod: Arc<Pod>, request: Admission<Pod>) -> Result<Verdict> {
    let mut errors = FieldErrors::default();
    if pod.spec.as_ref().is_none_or(|spec| spec.containers.is_empty()) {
        errors.required("spec.containers", format!("{request:?}"));
    }
    Ok(errors.into())
}

async fn label(mut pod: Pod, _: Admission<Pod>) -> Result<Pod> {
    pod.metadata.labels.get_or_insert_default().insert("a".into(), "b".into());
    for container in pod.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
        container.image_pull_policy = Some("Always".into());
    }
    Ok(pod)
}

async fn any(mut object: DynamicObject, _: Admission<DynamicObject>) -> Result<DynamicObject> {
    object.data["added"] = 1.into();
    Ok(object)
}

const PATHS: [&str; 4] = ["/validate--v1-pod", "/mutate--v1-pod", "/mutate-x-io-v1-tree", "/convert"];

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime without IO needs nothing from the system")
});

static WEBHOOKS: LazyLock<Webhooks> = LazyLock::new(|| {
    let _within = RUNTIME.enter();
    let nobody = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, std::io::Error>(http::Response::new(Body::empty()))
    });
    let trees = ApiResource::from_gvk(&GroupVersionKind::gvk("x.io", "v1", "Tree"));
    let mut manager = Manager::new(kube::Client::new(nobody, "default"))
        .webhook(Webhook::validate(check))
        .webhook(Webhook::mutate(label))
        .webhook(Webhook::mutate_with(&trees, any))
        .conversion(Conversion::<v2::Tree>::new().spoke::<v1::Tree>());
    manager.take_webhooks().expect("their paths differ").expect("there are some")
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, body)) = bytes.split_first() else { return };
    let path = PATHS[usize::from(*first) % PATHS.len()];
    let request = Request::post(path).header("content-type", "application/json; charset=utf-8");
    let request = request.body(Bytes::copy_from_slice(body)).expect("it is well formed");
    let response = RUNTIME.block_on(WEBHOOKS.answer(request));
    let answer: Value = serde_json::from_slice(response.body()).expect("every answer is JSON");
    match response.status().as_u16() {
        200 => check_review(path, body, &answer["response"]),
        400 => assert_eq!(answer["kind"], "Status", "{answer}"),
        other => panic!("{other}: {answer}"),
    }
});

/// A review answers its request, and its patch fits the object.
fn check_review(path: &str, body: &[u8], response: &Value) {
    let review: Value = serde_json::from_slice(body).expect("what was answered could be read");
    assert_eq!(response["uid"], review["request"]["uid"]);
    if path == "/convert" {
        let wanted = review["request"]["objects"].as_array().map_or(0, Vec::len);
        let converted = response["convertedObjects"].as_array().map_or(0, Vec::len);
        assert!(response["result"]["status"] == "Failure" || wanted == converted, "{response}");
        return;
    }
    if let Some(patch) = response["patch"].as_str() {
        let patch = STANDARD.decode(patch).expect("a patch is base64");
        let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a patch is JSON");
        let mut object = review["request"]["object"].clone();
        json_patch::patch(&mut object, &patch).expect("the patch fits the object");
    }
}
