use serde_json::json;

use crate::api::Api;

const MAPS: &str = "/api/v1/namespaces/a/configmaps";

#[tokio::test(start_paused = true)]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let api = Api::start().await;
    let map = json!({"metadata": {"name": "c", "finalizers": ["example.com/hold"]}});
    api.post(MAPS, map.clone()).await;
    let path = format!("{MAPS}/c");
    let marked = api.delete(&path).await.body;
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let again = api.post(MAPS, map).await;
    assert!(again.body["message"].as_str().unwrap().starts_with("object is being deleted: "));
    let last = api.merge(&path, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(last.status, 200);
    assert_eq!(api.get(&path).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_node_gets_its_grace_period() {
    let api = Api::start().await;
    let pods = "/api/v1/namespaces/a/pods";
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    api.post(pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let path = format!("{pods}/p");
    assert_eq!(api.delete(&path).await.body["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = api.delete(&format!("{path}?gracePeriodSeconds=5")).await.body;
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let longer = api.delete(&format!("{path}?gracePeriodSeconds=60")).await.body;
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5);
    api.delete(&format!("{path}?gracePeriodSeconds=0")).await;
    assert_eq!(api.get(&path).await.status, 404);
}

/// Like Kubernetes v1.36.4, the server computes the end of a grace period in 64 bits of nanoseconds, which
/// wrap around.
#[tokio::test(start_paused = true)]
async fn a_grace_period_of_any_length_is_taken() {
    let api = Api::start().await;
    let pods = "/api/v1/namespaces/a/pods";
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    let made = api.post(pods, json!({"metadata": {"name": "p"}, "spec": spec})).await.body;
    let begun: jiff::Timestamp = made["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    for (seconds, wrapped) in
        [(i64::MAX, -1), (9_223_372_036, 9_223_372_036), (9_223_372_037, -9_223_372_036)]
    {
        let path = format!("{pods}/p?dryRun=All&gracePeriodSeconds={seconds}");
        let metadata = api.delete(&path).await.body["metadata"].take();
        assert_eq!(metadata["deletionGracePeriodSeconds"], seconds);
        let end: jiff::Timestamp = metadata["deletionTimestamp"].as_str().unwrap().parse().unwrap();
        assert!((end.duration_since(begun).as_secs() - wrapped).abs() <= 1, "{seconds}: {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_its_content() {
    let api = Api::start().await;
    let marked = api.delete("/api/v1/namespaces/a").await.body;
    assert_eq!(marked["status"]["phase"], "Terminating");
    let refused = api.post(MAPS, json!({"metadata": {"name": "c"}})).await;
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut done = marked;
    done["spec"] = json!({});
    assert_eq!(api.put("/api/v1/namespaces/a/finalize", done).await.status, 200);
    assert_eq!(api.get("/api/v1/namespaces/a").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_collection_goes_by_selector() {
    let api = Api::start().await;
    for (name, tier) in [("c1", "web"), ("c2", "db"), ("c3", "web")] {
        api.post(MAPS, json!({"metadata": {"name": name, "labels": {"tier": tier}}})).await;
    }
    let gone = api.delete(&format!("{MAPS}?labelSelector=tier=web")).await.body;
    assert_eq!(gone["items"].as_array().unwrap().len(), 2);
    let left = api.get(MAPS).await.body;
    assert_eq!(left["items"][0]["metadata"]["name"], "c2");
}
