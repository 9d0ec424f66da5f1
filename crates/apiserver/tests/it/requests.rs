//! Paths and queries of requests, and what is refused before anything is written.

use serde_json::{Value, json};

use crate::api::Api;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// A server on which alice may do everything with the Secret `x`, and nothing else.
async fn with_role_for_one_secret() -> Api {
    let api = Api::booted().await;
    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x"], "verbs": ["*"]});
    let role = json!({"metadata": {"name": "x"}, "rules": [rule]});
    assert_eq!(api.post(&format!("{RBAC}/roles"), role).await.status, 201);
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "x"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "x"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    });
    assert_eq!(api.post(&format!("{RBAC}/rolebindings"), binding).await.status, 201);
    for name in ["x", "y"] {
        assert_eq!(api.post(SECRETS, json!({"metadata": {"name": name}})).await.status, 201);
    }
    api
}

/// Authorization used to take the object's name from the field selector for every verb: a user who could
/// write one Secret could create any, and could delete all with a second selector in the same request.
#[tokio::test(start_paused = true)]
async fn a_selector_names_the_object_for_list_and_watch_alone() {
    let api = with_role_for_one_secret().await;
    let selected = |path: &str| format!("{path}?fieldSelector=metadata.name%3Dx");
    let made = api.act("alice", "POST", &selected(SECRETS), json!({"metadata": {"name": "z"}})).await;
    assert_eq!(made.status, 403, "{made:?}");
    assert_eq!(made.body["details"]["name"], Value::Null);
    assert_eq!(api.act("alice", "DELETE", &selected(SECRETS), Value::Null).await.status, 403);
    let legacy = "/api/v1/watch/namespaces/default/secrets";
    assert_eq!(api.act("alice", "GET", &selected(legacy), Value::Null).await.status, 403);
    assert_eq!(api.act("alice", "GET", &selected(SECRETS), Value::Null).await.status, 200);
    let watch = format!("{}&watch=1", selected(SECRETS));
    let headers = [("impersonate-user", "alice")];
    assert_eq!(api.send("GET", &watch, &headers, Vec::new()).await.status(), 200);
    assert_eq!(api.get(&format!("{SECRETS}/z")).await.status, 404, "nothing was created");
    assert_eq!(api.get(&format!("{SECRETS}/y")).await.status, 200, "nothing was deleted");
}

/// Malformed list options give authorization no name, and neither does a name that no path could contain.
#[tokio::test(start_paused = true)]
async fn a_selector_names_nothing_where_the_options_are_malformed() {
    let api = with_role_for_one_secret().await;
    for query in [
        "fieldSelector=metadata.name%3Dx&limit=two",
        "fieldSelector=metadata.name%3Dx&timeoutSeconds=",
        "fieldSelector=metadata.name%3Dx&labelSelector=a%20b",
        "fieldSelector=metadata.name%21%3Dx",
        "fieldSelector=metadata.name%3Dy&fieldSelector=metadata.name%3Dx",
    ] {
        let answer = api.act("alice", "GET", &format!("{SECRETS}?{query}"), Value::Null).await;
        assert_eq!(answer.status, 403, "{query}");
    }
}

/// The verb in a legacy path is the verb of every method, and only GET is served there.
#[tokio::test(start_paused = true)]
async fn a_verb_in_the_path_is_the_verb_of_every_method() {
    let api = with_role_for_one_secret().await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let path = "/api/v1/watch/namespaces/default/secrets/y";
        let refused = api.act("alice", method, path, json!({})).await;
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("cannot watch resource"), "{method}: {message}");
        assert_eq!(api.act("admin", method, path, json!({})).await.status, 403, "{method}");
        let headers = [("content-type", "application/json")];
        assert_eq!(api.send(method, path, &headers, b"{}".to_vec()).await.status(), 405, "{method}");
    }
    assert_eq!(api.get("/api/v1/watch").await.status, 500);
    assert_eq!(api.get("/api/v1/proxy/nodes/n").await.status, 404);
}

/// The resource that is authorized is the one that is served, however the path is written.
#[tokio::test(start_paused = true)]
async fn escapes_and_slashes_do_not_lead_elsewhere() {
    let api = with_role_for_one_secret().await;
    let status = async |path: &str| api.act("alice", "GET", path, Value::Null).await.status;
    assert_eq!(status("/api/v1/namespaces/default%2Fsecrets%2Fx").await, 200);
    assert_eq!(status("/api/v1/namespaces/default%2Fsecrets%2Fy").await, 403);
    assert_eq!(status("/api/v1/namespaces/default/%73ecrets/x").await, 200);
    assert_eq!(status("/api/v1/namespaces/default/secrets/x%2F..%2Fy").await, 403);
    assert_eq!(status("/apis//v1/namespaces/default/secrets/x").await, 404);
    assert_eq!(status("//api/v1/namespaces/default/secrets/x").await, 404);
    assert_eq!(status("/api/v1/namespaces/default/secrets/x/status/more").await, 403);
    assert_eq!(api.get("/api/v1/namespaces/default/pods/x/log/more").await.status, 404);
    assert_eq!(api.get("/api/v1/nodes/%zz").await.status, 400);
    assert_eq!(api.get("/%68ealthz").await.status, 200);
}

/// An empty `dryRun` used to count as absent, and the request was executed.
#[tokio::test(start_paused = true)]
async fn a_dry_run_of_nothing_known_is_refused_and_writes_nothing() {
    let api = Api::start().await;
    let secrets = "/api/v1/namespaces/a/secrets";
    let secret = || json!({"metadata": {"name": "s"}, "type": "Opaque"});
    for query in ["dryRun=", "dryRun", "dryRun=All&dryRun=", "dryRun=all", "dryRun=All&dryRun=None"] {
        let made = api.post(&format!("{secrets}?{query}"), secret()).await;
        assert_eq!((made.status, &made.body["reason"]), (422, &json!("Invalid")), "{query}");
        assert_eq!(api.get(&format!("{secrets}/s")).await.status, 404, "{query}");
    }
    assert_eq!(api.post(&format!("{secrets}?dryRun=All&dryRun=All"), secret()).await.status, 201);
    assert_eq!(api.get(&format!("{secrets}/s")).await.status, 404);
    let made = api.post(secrets, secret()).await.body;
    let path = format!("{secrets}/s");
    for query in ["dryRun=", "dryRun=All&dryRun="] {
        let path = format!("{path}?{query}");
        assert_eq!(
            api.put(&path, json!({"metadata": {"name": "s"}, "data": {"k": "eA=="}})).await.status,
            422
        );
        assert_eq!(api.merge(&path, json!({"data": {"k": "eA=="}})).await.status, 422);
        let apply =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "eA=="}});
        assert_eq!(api.apply(&format!("{path}&fieldManager=m"), apply).await.status, 422);
        assert_eq!(api.delete(&path).await.status, 422);
        assert_eq!(api.delete(&format!("{secrets}?{query}")).await.status, 422);
    }
    assert_eq!(api.get(&path).await.body, made, "nothing was written");
}

/// The preconditions of a deletion may be query parameters; they used to be ignored there, and the object was
/// deleted.
#[tokio::test(start_paused = true)]
async fn preconditions_in_the_query_hold() {
    let api = Api::start().await;
    let secrets = "/api/v1/namespaces/a/secrets";
    let made = api.post(secrets, json!({"metadata": {"name": "s"}})).await.body;
    let path = format!("{secrets}/s");
    assert_eq!(api.delete(&format!("{path}?uid=other")).await.status, 409);
    assert_eq!(api.delete(&format!("{path}?resourceVersion=1")).await.status, 409);
    let (uid, version) = (&made["metadata"]["uid"], &made["metadata"]["resourceVersion"]);
    let query = format!("uid={}&resourceVersion={}", uid.as_str().unwrap(), version.as_str().unwrap());
    assert_eq!(api.delete(&format!("{path}?{query}")).await.status, 200);
}

/// An empty number used to count as absent.
#[tokio::test(start_paused = true)]
async fn numbers_are_read_or_refused() {
    let api = Api::start().await;
    let secrets = "/api/v1/namespaces/a/secrets";
    for query in
        ["limit=", "timeoutSeconds=", "limit=1.5", "limit=9223372036854775808", "timeoutSeconds=0x10"]
    {
        let answer = api.get(&format!("{secrets}?{query}")).await;
        assert_eq!((answer.status, &answer.body["reason"]), (400, &json!("BadRequest")), "{query}");
    }
    for query in ["limit=-1", "limit=9223372036854775807", "timeoutSeconds=-1", "limit=%zz", "limit=a;b=c"] {
        assert_eq!(api.get(&format!("{secrets}?{query}")).await.status, 200, "{query}");
    }
    let both = api.get(&format!("{secrets}?limit=a&timeoutSeconds=b")).await;
    assert_eq!(both.body["message"], "strconv.ParseInt: parsing \"b\": invalid syntax");
    assert_eq!(api.delete(&format!("{secrets}/s?gracePeriodSeconds=")).await.status, 400);
}

/// The end of a watch used to be computed with an addition that panics on overflow.
#[tokio::test(start_paused = true)]
async fn a_watch_takes_any_timeout() {
    let api = Api::start().await;
    let secrets = "/api/v1/namespaces/a/secrets";
    for seconds in [i64::MAX, i64::MIN, i64::MAX / 1_000_000_000, -1, 0, 1] {
        for more in ["", "&allowWatchBookmarks=true"] {
            let path = format!("{secrets}?watch=1&timeoutSeconds={seconds}{more}");
            let mut watch = api.watch(&path).await;
            if !more.is_empty() && !matches!(seconds, -1 | i64::MAX) {
                assert_eq!(watch.next().await["type"], "BOOKMARK", "{path}");
            }
            // In 64 bits of nanoseconds, the largest number of seconds wraps to minus one, and the smallest
            // to zero.
            match seconds {
                -1 | i64::MAX => assert_eq!(watch.next().await["object"]["code"], 500, "{path}"),
                1 => assert_eq!(watch.next().await, json!(null), "{path}"),
                _ => assert!(watch.is_silent().await, "{path}"),
            }
        }
    }
}
