//! Stored objects with damaged bytes: requests for them fail with an error that names the key, and everything
//! else works.

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Header, Options};
use evenkeel_env::Env;
use evenkeel_store::{Expect, Header as _, Op, Store, Write};
use serde_json::{Value, json};

use crate::api::Api;

/// Bytes that are not a stored object: empty, garbage, truncated, fields in another order, not an object.
const DAMAGE: [&[u8]; 5] = [
    b"",
    b"\xff\x00garbage",
    br#"{"apiVersion":"v1","kind":"X","metadata":{"name":"bad"},"spec":{"#,
    br#"{"kind":"X","metadata":{"name":"bad"},"apiVersion":"v1"}"#,
    b"[1,2]",
];

/// The key prefix and the path of a kind, and an object of it that can be created.
struct Kind {
    keys: &'static str,
    path: &'static str,
    good: Value,
}

/// Kinds that the server itself reads, and one that only clients read.
fn kinds() -> Vec<Kind> {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"group": "x.io", "scope": "Namespaced", "names": {"plural": "goods", "kind": "Good"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]});
    let hook = json!({"name": "h.x.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/x"}});
    let match_all = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["nodes"]}]});
    let kind = |keys, path, good: Value| Kind { keys, path, good };
    vec![
        kind("core/configmaps/a", "/api/v1/namespaces/a/configmaps", json!({"data": {"a": "b"}})),
        kind(
            "core/pods/a",
            "/api/v1/namespaces/a/pods",
            json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ),
        kind("core/services/a", "/api/v1/namespaces/a/services", json!({"spec": {"ports": [{"port": 80}]}})),
        kind("core/nodes", "/api/v1/nodes", json!({})),
        kind(
            "rbac.authorization.k8s.io/roles/a",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles",
            json!({"rules": rules}),
        ),
        kind(
            "rbac.authorization.k8s.io/rolebindings/a",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "good"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]}),
        ),
        kind(
            "scheduling.k8s.io/priorityclasses",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"value": 1}),
        ),
        kind(
            "admissionregistration.k8s.io/validatingwebhookconfigurations",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"webhooks": [hook]}),
        ),
        kind(
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            json!({"spec": {"matchConstraints": match_all, "validations": [{"expression": "true"}]}}),
        ),
        kind(
            "apiextensions.k8s.io/customresourcedefinitions",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({"spec": definition}),
        ),
    ]
}

fn name_of(kind: &Kind) -> &'static str {
    if kind.keys.starts_with("apiextensions") { "goods.x.io" } else { "good" }
}

/// Stores damaged bytes under the name `bad`, as if they had been read from a disk.
async fn damage(store: &Store<Header>, kind: &Kind, bytes: &'static [u8]) -> String {
    let key = format!("/registry/{}/bad", kind.keys);
    let bytes = Bytes::from_static(bytes);
    let header = Header::parse(&key, &bytes).unwrap();
    let write = Write { key: key.as_str().into(), expect: Expect::Any, op: Op::Put(bytes, header) };
    store.write(write).await.unwrap();
    key
}

/// Asserts the error that names a damaged object.
fn names_key(answer: &crate::api::Answer, key: &str) {
    let message = answer.body["message"].as_str().unwrap_or_default();
    assert_eq!(
        (answer.status, answer.body["reason"].as_str()),
        (500, Some("InternalError")),
        "{key}: {answer:?}"
    );
    assert!(message.contains("corrupt object") && message.contains(key), "{message}");
}

/// Reads and writes of a damaged object name it; lists and watches contain everything else.
async fn check_kind(api: &Api, kind: &Kind, key: &str) {
    let path = kind.path;
    let bad = format!("{path}/bad");
    names_key(&api.get(&bad).await, key);
    names_key(&api.merge(&bad, json!({"metadata": {"labels": {"a": "b"}}})).await, key);
    names_key(&api.delete(&bad).await, key);
    let mut good = kind.good.clone();
    good["metadata"] = json!({"name": "bad"});
    let replaced = api.put(&bad, good).await;
    assert!(matches!(replaced.status, 409 | 500), "{replaced:?}");
    let listed = api.get(path).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    assert!(listed.warnings.iter().any(|it| it.contains(key)), "{:?}", listed.warnings);
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().into_iter().flatten();
        items.map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert!(names(&listed.body).contains(&name_of(kind).to_owned()), "{}", listed.body);
    assert!(!names(&listed.body).contains(&"bad".to_owned()), "{}", listed.body);
    let rows = api.table(path).await;
    assert_eq!(rows["kind"], "Table", "{rows}");
    let mut watch = api.watch(&format!("{path}?watch=1&resourceVersion=0")).await;
    loop {
        let event = watch.next().await;
        assert_ne!(event["object"]["metadata"]["name"], "bad", "{event}");
        if event["object"]["metadata"]["name"] == name_of(kind) {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn damaged_objects_are_named_and_the_rest_is_served() {
    for bytes in DAMAGE {
        let api = Api::booted().await;
        assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await.status, 201);
        let mut keys = Vec::new();
        for kind in kinds() {
            keys.push(damage(api.store(), &kind, bytes).await);
        }
        for (kind, key) in kinds().iter().zip(&keys) {
            let mut good = kind.good.clone();
            good["metadata"] = json!({"name": name_of(kind)});
            let made = api.post(kind.path, good).await;
            assert_eq!(made.status, 201, "{}: {made:?}", kind.path);
            check_kind(&api, kind, key).await;
        }
        let custom = json!({"apiVersion": "x.io/v1", "kind": "Good", "metadata": {"name": "g"}});
        assert_eq!(api.post("/apis/x.io/v1/namespaces/a/goods", custom).await.status, 201);
        let allowed = api.act("ann", "GET", "/api/v1/namespaces/a/pods/good", Value::Null).await;
        assert_eq!(allowed.status, 200, "roles beside a damaged one still grant: {allowed:?}");
        let pods = "/api/v1/namespaces/a/pods";
        assert_eq!(api.delete(pods).await.status, 200, "the rest of a collection is deleted");
        names_key(&api.get(&format!("{pods}/bad")).await, "/registry/core/pods/a/bad");
        // Another server with the same store starts and serves the same.
        let again = api.restarted().await;
        names_key(&again.get(&format!("{pods}/bad")).await, "/registry/core/pods/a/bad");
        assert_eq!(again.get("/apis/x.io/v1/namespaces/a/goods/g").await.status, 200);
    }
}

#[tokio::test]
async fn a_data_directory_with_damaged_objects_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Store::<Header>::open(dir.path(), Env::seeded(1), evenkeel_store::Options::default());
    let store = open().await.unwrap();
    for kind in kinds() {
        damage(&store, &kind, DAMAGE[2]).await;
    }
    store.close();
    let store = open().await.unwrap();
    let api = Api::over(ApiServer::new(store, Env::seeded(1), Options::default()));
    for kind in kinds() {
        names_key(&api.get(&format!("{}/bad", kind.path)).await, &format!("/registry/{}/bad", kind.keys));
        assert_eq!(api.get(kind.path).await.status, 200);
    }
}
