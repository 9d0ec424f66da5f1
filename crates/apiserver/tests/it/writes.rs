use serde_json::json;

use crate::api::Api;

const MAPS: &str = "/api/v1/namespaces/a/configmaps";

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_keeps_its_version() {
    let api = Api::start().await;
    let map = json!({"metadata": {"name": "c"}, "data": {"k": "v"}});
    let made = api.post(MAPS, map.clone()).await;
    assert_eq!(made.status, 201);
    let again = api.put(&format!("{MAPS}/c"), map).await;
    assert_eq!(again.body["metadata"]["resourceVersion"], made.body["metadata"]["resourceVersion"]);
    let patched = api.merge(&format!("{MAPS}/c"), json!({"data": {"k": "v"}})).await;
    assert_eq!(patched.body, made.body);
}

#[tokio::test(start_paused = true)]
async fn a_stale_version_is_a_conflict() {
    let api = Api::start().await;
    let made = api.post(MAPS, json!({"metadata": {"name": "c"}})).await.body;
    let path = format!("{MAPS}/c");
    api.merge(&path, json!({"data": {"k": "1"}})).await;
    let mut stale = made;
    stale["data"] = json!({"k": "2"});
    let refused = api.put(&path, stale).await;
    assert_eq!((refused.status, refused.body["reason"].as_str()), (409, Some("Conflict")));
}

#[tokio::test(start_paused = true)]
async fn unknown_and_repeated_fields_are_told_or_refused() {
    let api = Api::start().await;
    let body = br#"{"metadata":{"name":"c"},"more":1,"data":{"k":"1"},"data":{"k":"2"}}"#;
    let warned = api.post_raw(MAPS, "application/json", body).await;
    assert_eq!(warned.status, 201);
    assert_eq!(warned.warnings, [r#"299 - "unknown field \"more\"""#, r#"299 - "duplicate field \"data\"""#]);
    let refused = api.post_raw(&format!("{MAPS}?fieldValidation=Strict"), "application/json", body).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test(start_paused = true)]
async fn yaml_is_taken_and_given() {
    let api = Api::start().await;
    let made = api.post_raw(MAPS, "application/yaml", b"metadata: {name: c}\ndata:\n  k: 'yes'\n").await;
    assert_eq!((made.status, &made.body["data"]["k"]), (201, &json!("yes")));
    let headers = [("accept", "application/yaml")];
    let answer = api.send("GET", &format!("{MAPS}/c"), &headers, Vec::new()).await;
    let text = answer.into_body().whole().unwrap();
    assert!(String::from_utf8_lossy(&text).contains("kind: ConfigMap"));
}

#[tokio::test(start_paused = true)]
async fn bad_bodies_are_refused_and_nothing_is_written() {
    let api = Api::start().await;
    let before = api.get(MAPS).await.body["metadata"]["resourceVersion"].clone();
    let deep = [b"{\"metadata\":".repeat(500), b"1".to_vec()].concat();
    for (media, body, status) in [
        ("application/json", b"{".to_vec(), 400),
        ("application/json", b"\xff\xfe".to_vec(), 400),
        ("application/json", deep, 400),
        ("application/json", vec![b' '; 3 * 1024 * 1024 + 1], 413),
        ("text/plain", b"hello".to_vec(), 415),
        ("application/vnd.kubernetes.protobuf", b"k8s\0\xff\xff\xff\xff\xff".to_vec(), 400),
    ] {
        let refused = api.post_raw(MAPS, media, &body).await;
        assert_eq!(refused.status, status, "{media}: {}", refused.body);
    }
    assert_eq!(api.get(MAPS).await.body["metadata"]["resourceVersion"], before);
}

#[tokio::test(start_paused = true)]
async fn applying_twice_writes_once_and_others_keep_their_fields() {
    let api = Api::start().await;
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "1"}});
    let path = format!("{MAPS}/c?fieldManager=one");
    let made = api.apply(&path, config.clone()).await;
    assert_eq!(made.status, 201);
    let again = api.apply(&path, config.clone()).await;
    assert_eq!((again.status, &again.body), (200, &made.body));
    let mut other = config;
    other["data"]["k"] = json!("2");
    let refused = api.apply(&format!("{MAPS}/c?fieldManager=two"), other).await;
    assert_eq!((refused.status, &refused.body["details"]["causes"][0]["field"]), (409, &json!(".data.k")));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once() {
    let api = Api::start().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(api.post("/api/v1/namespaces/a/pods", pod).await.status, 201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let path = "/api/v1/namespaces/a/pods/p/binding";
    assert_eq!(api.post(path, binding.clone()).await.status, 201);
    assert_eq!(api.post(path, binding).await.status, 409);
    let pod = api.get("/api/v1/namespaces/a/pods/p").await.body;
    assert_eq!(pod["spec"]["nodeName"], "n");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_a_view_of_its_parent() {
    let api = Api::start().await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let path = "/apis/apps/v1/namespaces/a/deployments";
    assert_eq!(api.post(path, json!({"metadata": {"name": "d"}, "spec": spec})).await.status, 201);
    let scale = api.merge(&format!("{path}/d/scale"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!((scale.status, &scale.body["kind"]), (200, &json!("Scale")), "{scale:?}");
    assert_eq!(scale.body["status"]["selector"], "a=b");
    let parent = api.get(&format!("{path}/d")).await.body;
    assert_eq!((&parent["spec"]["replicas"], &parent["metadata"]["generation"]), (&json!(3), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_merge_patch_that_nobody_checks_is_refused_by_what_it_makes() {
    let api = Api::start().await;
    api.post(MAPS, json!({"metadata": {"name": "c"}})).await;
    let path = format!("{MAPS}/c?fieldValidation=Ignore");
    let text = api.merge(&path, json!("x")).await;
    assert_eq!((text.status, text.body["message"].as_str()), (400, Some("Invalid JSON Patch")));
    assert_eq!(api.merge(&path, json!([])).await.status, 422);
}

#[tokio::test(start_paused = true)]
async fn an_applied_value_that_cannot_be_read_is_an_error_of_conversion() {
    let api = Api::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"b": "1"}});
    let refused = api.apply("/api/v1/namespaces/a/secrets/s?fieldManager=m", secret).await;
    assert_eq!(refused.status, 500);
    assert_eq!(
        refused.body["message"],
        "failed to convert new object (/s; /v1, Kind=Secret) to proper version: unable to convert unstructured object \
         to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0"
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_writes_an_empty_list_owns_it() {
    let api = Api::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles";
    let made = api.post(roles, json!({"metadata": {"name": "r"}, "rules": []})).await.body;
    assert_eq!(made["rules"], json!(null));
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:rules": {}}));
    let silent = api.post(roles, json!({"metadata": {"name": "s"}})).await.body;
    assert_eq!(silent["metadata"]["managedFields"], json!(null));
}

#[tokio::test(start_paused = true)]
async fn there_are_no_namespaces_inside_of_namespaces() {
    let api = Api::start().await;
    let refused = api.get("/api/v1/namespaces/a/namespaces").await;
    assert_eq!((refused.status, refused.body["reason"].as_str()), (404, Some("NotFound")));
}

/// Kubernetes merges JSON patches and merge patches as text, so that an integer field refuses `1e2` and
/// `1.0`. Such numbers used to be accepted as integers.
#[tokio::test(start_paused = true)]
async fn a_float_that_is_whole_is_no_integer_in_a_patch_of_a_built_in_kind() {
    let api = Api::start().await;
    let deployments = "/apis/apps/v1/namespaces/a/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = api
        .post(
            deployments,
            json!({"metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    for path in [format!("{deployments}/d"), format!("{deployments}/d/scale")] {
        for number in ["1e2", "1.0", "3E0"] {
            let merge = format!(r#"{{"spec":{{"replicas":{number}}}}}"#).into_bytes();
            let refused = api.patch(&path, "application/merge-patch+json", merge.clone()).await;
            assert_eq!(refused.status, 422, "{path} {number}: {refused:?}");
            let quoted = format!("cannot unmarshal number {number} into Go struct field");
            assert!(refused.body["message"].as_str().unwrap().contains(&quoted), "{refused:?}");
            let json = format!(r#"[{{"op":"add","path":"/spec/replicas","value":{number}}}]"#).into_bytes();
            let refused = api.patch(&path, "application/json-patch+json", json).await;
            assert_eq!(refused.status, 422, "{path} {number}: {refused:?}");
            assert!(refused.body["message"].as_str().unwrap().contains(&quoted), "{refused:?}");
            let taken = api.patch(&path, "application/strategic-merge-patch+json", merge).await;
            assert_eq!(taken.status, 200, "{path} {number}: {taken:?}");
        }
    }
    // Fields of custom resources have no Go types.
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions =
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let definition = json!({"metadata": {"name": "nums.x.io"}, "spec": {"group": "x.io", "scope": "Namespaced",
        "names": {"plural": "nums", "kind": "Num"}, "versions": versions}});
    assert_eq!(
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.status,
        201
    );
    let nums = "/apis/x.io/v1/namespaces/a/nums";
    let num = json!({"apiVersion": "x.io/v1", "kind": "Num", "metadata": {"name": "n"}});
    assert_eq!(api.post(nums, num).await.status, 201);
    let merge = br#"{"spec":{"n":1e2,"m":1.5}}"#.to_vec();
    let patched = api.patch(&format!("{nums}/n"), "application/merge-patch+json", merge).await;
    assert_eq!(patched.body["spec"], json!({"n": 100, "m": 1.5}), "{patched:?}");
}

/// The rules do not distinguish empty lists and maps from absent ones, but Kubernetes' messages do.
#[tokio::test(start_paused = true)]
async fn messages_show_empty_lists_and_maps_as_they_were_written() {
    let api = Api::start().await;
    let pods = "/api/v1/namespaces/a/pods";
    let spec =
        json!({"nodeSelector": {"a": "b"}, "containers": [{"name": "c", "image": "i", "args": ["x"]}]});
    let mut pod = api.post(pods, json!({"metadata": {"name": "p"}, "spec": spec})).await.body;
    pod["spec"]["containers"][0]["args"] = json!([]);
    let refused = api.put(&format!("{pods}/p"), pod.clone()).await;
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("+   \"Args\": [],\n"), "{message}");
    pod["spec"]["containers"][0].as_object_mut().unwrap().remove("args");
    let refused = api.put(&format!("{pods}/p"), pod).await;
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("+   \"Args\": null,\n"), "{message}");
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let class = json!({"metadata": {"name": "c"}, "provisioner": "example.com/p", "parameters": {"a": "b"}});
    let mut class = api.post(classes, class).await.body;
    class["parameters"] = json!({});
    let refused = api.put(&format!("{classes}/c"), class).await.body;
    let message = refused["details"]["causes"][0]["message"].as_str().unwrap();
    assert_eq!(message, "Invalid value: {}: field is immutable");
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_the_kind_is_refused() {
    let api = Api::start().await;
    api.post(MAPS, json!({"metadata": {"name": "c"}})).await;
    for (patch, end) in [
        (json!({"kind": "Other"}), r#"no kind "Other" is registered for version "v1" in scheme "#),
        (json!({"apiVersion": "v9"}), r#"no kind "ConfigMap" is registered for version "v9" in scheme "#),
    ] {
        let refused = api.merge(&format!("{MAPS}/c"), patch).await;
        let message = refused.body["message"].as_str().unwrap();
        assert_eq!(refused.status, 422);
        assert!(message.contains(end), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_takes_the_preemption_policy_of_its_class() {
    let api = Api::start().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({"metadata": {"name": "polite"}, "value": 5, "preemptionPolicy": "Never"});
    assert_eq!(api.post(classes, class).await.status, 201);
    let pod = |class: &str, policy: &str| {
        let containers = json!([{"name": "c", "image": "i"}]);
        let spec = json!({"priorityClassName": class, "preemptionPolicy": policy, "containers": containers});
        json!({"metadata": {"generateName": "p-"}, "spec": spec})
    };
    let pods = "/api/v1/namespaces/a/pods";
    assert_eq!(api.post(pods, pod("polite", "Never")).await.status, 201);
    let refused = api.post(pods, pod("polite", "PreemptLowerPriority")).await;
    assert_eq!(refused.status, 403);
    let message = refused.body["message"].as_str().unwrap();
    let why = "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; \
               priority admission controller computed Never from the given PriorityClass name";
    assert!(message.ends_with(why), "{message}");
}
