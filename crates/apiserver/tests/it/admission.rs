use serde_json::{Value, json};

use crate::api::Api;

const PODS: &str = "/api/v1/namespaces/a/pods";
const SECRETS: &str = "/api/v1/namespaces/a/secrets";

fn pod(name: &str, container: Value) -> Value {
    let mut containers = json!([{"name": "c", "image": "i"}]);
    for (key, value) in container.as_object().into_iter().flatten() {
        containers[0][key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": {"containers": containers}})
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_fills_in_and_refuses() {
    let api = Api::start().await;
    let limit = json!({"type": "Container", "max": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}});
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [limit]}});
    assert_eq!(api.post("/api/v1/namespaces/a/limitranges", range).await.status, 201);
    let made = api.post(PODS, pod("p", json!({}))).await;
    let expected = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}});
    assert_eq!(made.body["spec"]["containers"][0]["resources"], expected);
    let annotation = &made.body["metadata"]["annotations"]["kubernetes.io/limit-ranger"];
    assert_eq!(annotation, "LimitRanger plugin set: cpu request for container c; cpu limit for container c");
    let refused = api.post(PODS, pod("q", json!({"resources": {"limits": {"cpu": "2"}}}))).await;
    let message = "pods \"q\" is forbidden: maximum cpu usage per Container is 1, but limit is 2";
    assert_eq!((refused.status, refused.body["message"].as_str()), (403, Some(message)));
}

#[tokio::test(start_paused = true)]
async fn a_quota_is_used_up() {
    let api = Api::start().await;
    let quotas = "/api/v1/namespaces/a/resourcequotas";
    let hard = json!({"secrets": "1", "requests.cpu": "1"});
    let made = api.post(quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    assert_eq!(made.status, 201);
    // A quota without a status limits nothing, and no quota controller runs here to write one.
    let status = json!({"status": {"hard": hard, "used": {"secrets": "0", "requests.cpu": "0"}}});
    assert_eq!(api.merge(&format!("{quotas}/q/status"), status).await.status, 200);
    let dry = api.post(&format!("{SECRETS}?dryRun=All"), json!({"metadata": {"name": "a"}})).await;
    assert_eq!(dry.status, 201);
    assert_eq!(api.post(SECRETS, json!({"metadata": {"name": "a"}})).await.status, 201);
    assert_eq!(api.get(&format!("{quotas}/q")).await.body["status"]["used"]["secrets"], "1");
    let refused = api.post(SECRETS, json!({"metadata": {"name": "b"}})).await;
    let message = "secrets \"b\" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1";
    assert_eq!((refused.status, refused.body["message"].as_str()), (403, Some(message)));
    let refused = api.post(PODS, pod("p", json!({}))).await;
    let message = "pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c";
    assert_eq!((refused.status, refused.body["message"].as_str()), (403, Some(message)));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_demands_harmless_pods() {
    let api = Api::start().await;
    let label = |level: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
    assert_eq!(
        api.post(PODS, pod("old", json!({"securityContext": {"privileged": true}}))).await.status,
        201
    );
    assert_eq!(api.merge("/api/v1/namespaces/a", label("strict")).await.status, 422);
    let labelled = api.merge("/api/v1/namespaces/a", label("baseline")).await;
    assert_eq!((labelled.status, labelled.warnings.len()), (200, 2), "{labelled:?}");
    let refused = api.post(PODS, pod("p", json!({"securityContext": {"privileged": true}}))).await;
    let message = "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": privileged \
        (container \"c\" must not set securityContext.privileged=true)";
    assert_eq!((refused.status, refused.body["message"].as_str()), (403, Some(message)));
    assert_eq!(api.post(PODS, pod("p", json!({}))).await.status, 201);
}

const CLAIMS: &str = "/api/v1/namespaces/a/persistentvolumeclaims";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn claim(name: &str, class: Option<&str>) -> Value {
    let storage = json!({"requests": {"storage": "1Gi"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": storage, "storageClassName": class});
    json!({"metadata": {"name": name}, "spec": spec})
}

fn class(name: &str, default: &str, expands: bool) -> Value {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": default});
    let metadata = json!({"name": name, "annotations": annotations});
    json!({"metadata": metadata, "provisioner": "example.com/disk", "allowVolumeExpansion": expands})
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_gets_the_newest_default() {
    let api = Api::start().await;
    let before = api.post(CLAIMS, claim("before", None)).await;
    assert_eq!((before.status, &before.body["spec"]["storageClassName"]), (201, &Value::Null));
    for (name, default) in [("b", "true"), ("a", "true"), ("other", "false")] {
        assert_eq!(api.post(CLASSES, class(name, default, false)).await.status, 201);
    }
    let made = api.post(CLAIMS, claim("one", None)).await;
    assert_eq!(made.body["spec"]["storageClassName"], "a", "of two that are as new, by name");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(api.post(CLASSES, class("z", "true", false)).await.status, 201);
    assert_eq!(api.post(CLAIMS, claim("two", None)).await.body["spec"]["storageClassName"], "z");
    assert_eq!(api.post(CLAIMS, claim("three", Some(""))).await.body["spec"]["storageClassName"], "");
    assert_eq!(api.post(CLAIMS, claim("four", Some("b"))).await.body["spec"]["storageClassName"], "b");
}

#[tokio::test(start_paused = true)]
async fn claims_and_volumes_are_protected_while_in_use() {
    let api = Api::start().await;
    let made = api.post(CLAIMS, claim("c", None)).await;
    assert_eq!(made.body["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let mut volume =
        json!({"metadata": {"name": "v", "finalizers": ["example.com/x", "kubernetes.io/pv-protection"]}});
    volume["spec"] = json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
    });
    let made = api.post("/api/v1/persistentvolumes", volume.clone()).await;
    let both = json!(["example.com/x", "kubernetes.io/pv-protection"]);
    assert_eq!((made.status, &made.body["metadata"]["finalizers"]), (201, &both), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_grows_only_where_its_class_lets_it() {
    let api = Api::start().await;
    for (name, expands) in [("grows", true), ("fixed", false)] {
        assert_eq!(api.post(CLASSES, class(name, "false", expands)).await.status, 201);
    }
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let cases = [
        ("one", Some("grows"), true),
        ("two", Some("fixed"), false),
        ("three", None, false),
        ("four", Some("gone"), false),
    ];
    for (name, class, grows) in cases {
        assert_eq!(api.post(CLAIMS, claim(name, class)).await.status, 201);
        let path = format!("{CLAIMS}/{name}");
        // Validation comes before admission plugins that validate.
        assert_eq!(api.merge(&path, larger.clone()).await.status, 422, "{name} is not bound");
        api.merge(&path, json!({"spec": {"volumeName": "v"}})).await;
        api.merge(&format!("{path}/status"), json!({"status": {"phase": "Bound"}})).await;
        let answer = api.merge(&path, larger.clone()).await;
        let why = format!(
            "persistentvolumeclaims \"{name}\" is forbidden: only dynamically provisioned pvc can be resized and the \
             storageclass that provisions the pvc must support resize"
        );
        let wanted = if grows { (200, None) } else { (403, Some(why.as_str())) };
        assert_eq!((answer.status, answer.body["message"].as_str()), wanted, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_priority_class_is_the_default_and_system_classes_stay() {
    let api = Api::booted().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str| json!({"metadata": {"name": name}, "value": 1, "globalDefault": true});
    assert_eq!(api.post(path, class("a")).await.status, 201);
    let refused = api.post(path, class("b")).await;
    let message = "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already marked as default. \
                   Only one default can exist";
    assert_eq!((refused.status, refused.body["message"].as_str()), (403, Some(message)));
    assert_eq!(api.merge(&format!("{path}/a"), json!({"description": "x"})).await.status, 200);
    let kept = api.delete(&format!("{path}/system-node-critical")).await;
    let message = "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system priority \
                   class and cannot be deleted";
    assert_eq!((kept.status, kept.body["message"].as_str()), (403, Some(message)));
}

#[tokio::test(start_paused = true)]
async fn administrative_access_to_devices_needs_a_label_of_the_namespace() {
    let api = Api::start().await;
    let claims = "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims";
    let exactly = json!({"deviceClassName": "c", "adminAccess": true});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
    let refused = api.post(claims, claim.clone()).await;
    let message = "ResourceClaim.resource.k8s.io \"c\" is invalid: spec.devices.requests[0].adminAccess: Forbidden: admin \
                   access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing \
                   namespace";
    assert_eq!((refused.status, refused.body["message"].as_str()), (422, Some(message)));
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    assert_eq!(api.merge("/api/v1/namespaces/a", label).await.status, 200);
    assert_eq!(api.post(claims, claim).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn an_empty_overhead_counts_as_one() {
    let api = Api::start().await;
    let mut with = pod("p", json!({}));
    with["spec"]["overhead"] = json!({});
    let refused = api.post(PODS, with).await;
    let message = "pods \"p\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined \
                   Overhead";
    assert_eq!((refused.status, refused.body["message"].as_str()), (403, Some(message)));
}

#[tokio::test(start_paused = true)]
async fn a_slice_has_no_counters_beside_devices_even_if_they_are_none() {
    let api = Api::start().await;
    let spec = json!({"driver": "d.example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "allNodes": true,
        "devices": [{"name": "d"}], "sharedCounters": []});
    let refused = api
        .post("/apis/resource.k8s.io/v1/resourceslices", json!({"metadata": {"name": "s"}, "spec": spec}))
        .await;
    let message = "ResourceSlice.resource.k8s.io \"s\" is invalid: spec: Invalid value: \"\": only one of \
                   `sharedCounters` or `devices` is allowed";
    assert_eq!((refused.status, refused.body["message"].as_str()), (422, Some(message)));
}
