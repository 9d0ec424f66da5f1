use serde_json::json;

use crate::api::Api;

const SECRETS: &str = "/api/v1/namespaces/a/secrets";

#[tokio::test(start_paused = true)]
async fn entering_and_leaving_a_selection_are_added_and_deleted() {
    let api = Api::start().await;
    let mut watch = api.watch(&format!("{SECRETS}?watch=1&labelSelector=on")).await;
    api.post(SECRETS, json!({"metadata": {"name": "s"}})).await;
    assert!(watch.is_silent().await);
    let path = format!("{SECRETS}/s");
    api.merge(&path, json!({"metadata": {"labels": {"on": ""}}})).await;
    assert_eq!(watch.next().await["type"], "ADDED");
    api.merge(&path, json!({"data": {"k": "eA=="}})).await;
    assert_eq!(watch.next().await["type"], "MODIFIED");
    let left = api.merge(&path, json!({"metadata": {"labels": null}})).await.body;
    let event = watch.next().await;
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["labels"], json!({"on": ""}), "the old object");
    assert_eq!(
        event["object"]["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"],
        "at the new revision"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_starts_with_the_state_and_marks_its_end() {
    let api = Api::start().await;
    api.post(SECRETS, json!({"metadata": {"name": "s"}})).await;
    let path = format!(
        "{SECRETS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = api.watch(&path).await;
    assert_eq!(watch.next().await["object"]["metadata"]["name"], "s");
    let mark = watch.next().await;
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(watch.is_silent().await);
    // Bookmarks follow periodically, in virtual time.
    assert_eq!(watch.next().await["type"], "BOOKMARK");
}

/// Kubernetes encodes the bookmark from an empty struct of the watched kind.
#[tokio::test(start_paused = true)]
async fn a_bookmark_has_the_fields_that_its_kind_always_has() {
    let api = Api::start().await;
    let path = "/api/v1/namespaces/a/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                &allowWatchBookmarks=true";
    let mark = api.watch(path).await.next().await;
    assert_eq!(mark["type"], "BOOKMARK");
    let object = &mark["object"];
    assert_eq!((&object["spec"], &object["status"]), (&json!({"containers": null}), &json!({})));
    assert!(object["metadata"]["resourceVersion"].is_string(), "{object}");
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_not_kept_is_told_in_the_stream() {
    let api = Api::start().await;
    let made = api.post(SECRETS, json!({"metadata": {"name": "s"}})).await.body;
    api.delete(&format!("{SECRETS}/s")).await;
    api.compact();
    let version = made["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() - 1;
    let mut watch = api.watch(&format!("{SECRETS}?watch=1&resourceVersion={version}")).await;
    let event = watch.next().await;
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(watch.next().await, json!(null));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_ends_it() {
    let api = Api::start().await;
    let mut watch = api.watch(&format!("{SECRETS}?watch=1&timeoutSeconds=5")).await;
    assert_eq!(watch.next().await, json!(null));
}

#[tokio::test(start_paused = true)]
async fn watchers_are_sent_the_same_events_whether_they_are_behind_or_not() {
    let api = Api::start().await;
    let path = format!("{SECRETS}?watch=1");
    let mut prompt = api.watch(&path).await;
    let mut late = api.watch(&path).await;
    let mut seen = Vec::new();
    for number in 0..100 {
        let name = format!("s{number:03}");
        api.post(SECRETS, json!({"metadata": {"name": name}})).await;
        seen.push(prompt.next().await);
    }
    for event in seen {
        assert_eq!(late.next().await, event);
    }
    assert!(late.is_silent().await);
}
