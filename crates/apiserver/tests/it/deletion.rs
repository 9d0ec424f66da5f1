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

/// Kubernetes' garbage collector does not support Events as owners, so that their deletion ignores what is asked about
/// dependents.
#[tokio::test(start_paused = true)]
async fn deletions_of_events_ignore_propagation() {
    let api = Api::start().await;
    let events = "/api/v1/namespaces/a/events";
    let event = json!({
        "metadata": {"name": "e", "namespace": "a"}, "reason": "R", "message": "m", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "a"}, "source": {"component": "c"},
    });
    for policy in ["Foreground", "Orphan"] {
        assert_eq!(api.post(events, event.clone()).await.status, 201);
        let path = format!("{events}/e");
        let deleted = api.delete_with(&path, json!({"propagationPolicy": policy})).await;
        assert_eq!(deleted.body["kind"], "Status", "{policy}");
        assert_eq!(api.get(&path).await.status, 404, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_older_option_asks_for_a_foreground_deletion_of_namespaces_alone() {
    let api = Api::start().await;
    api.post("/api/v1/namespaces", json!({"metadata": {"name": "old"}})).await;
    api.post(MAPS, json!({"metadata": {"name": "c", "finalizers": ["example.com/hold"]}})).await;
    let options = json!({"orphanDependents": false});
    let namespace = api.delete_with("/api/v1/namespaces/old", options.clone()).await.body;
    assert_eq!(namespace["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let map = api.delete_with(&format!("{MAPS}/c"), options).await.body;
    assert_eq!(map["metadata"]["finalizers"], json!(["example.com/hold"]));
}

#[tokio::test(start_paused = true)]
async fn preconditions_are_refused_in_the_words_of_each_kind() {
    let api = Api::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let spec = json!({
        "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    });
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": spec});
    assert_eq!(api.post(definitions, definition).await.status, 201);
    let options = json!({"preconditions": {"uid": "other"}});
    let refused = api.delete_with(&format!("{definitions}/things.example.com"), options.clone()).await.body;
    let message = refused["message"].as_str().unwrap();
    let start = "Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io \"things.example.com\": \
                 Precondition failed: UID in precondition: other, UID in object meta: ";
    assert!(message.starts_with(start), "{message}");
    let events = "/apis/events.k8s.io/v1/namespaces/a/events";
    let event = json!({
        "metadata": {"name": "e", "namespace": "a"}, "reason": "R", "action": "A", "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "a"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c", "reportingInstance": "i",
    });
    assert_eq!(api.post(events, event).await.status, 201);
    let refused = api.delete_with(&format!("{events}/e"), options).await.body;
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("Operation cannot be fulfilled on Event \"e\": the UID"), "{message}");
    assert!(refused["details"]["group"].is_null(), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_warning_about_the_pods_of_jobs_comes_with_refusals_too() {
    let api = Api::start().await;
    let jobs = "/apis/batch/v1/namespaces/a/jobs";
    let absent = api.delete(&format!("{jobs}/none")).await;
    assert_eq!((absent.status, absent.warnings.len()), (404, 1));
    assert_eq!(api.delete(jobs).await.warnings.len(), 1);
    let quiet = api.delete_with(&format!("{jobs}/none"), json!({"propagationPolicy": "Orphan"})).await;
    assert_eq!((quiet.status, quiet.warnings.len()), (404, 0));
}
