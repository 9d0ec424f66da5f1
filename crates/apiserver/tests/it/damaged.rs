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

/// Kinds that the server itself reads, and one that only clients read. The kinds that admission reads are in
/// [`gatekeepers`].
fn kinds() -> Vec<Kind> {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({"group": "x.io", "scope": "Namespaced", "names": {"plural": "goods", "kind": "Good"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]});
    let kind = |keys, path, good: Value| Kind { keys, path, good };
    vec![
        kind("core/configmaps/a", "/api/v1/namespaces/a/configmaps", json!({"data": {"a": "b"}})),
        kind(
            "core/pods/a",
            "/api/v1/namespaces/a/pods",
            json!({"spec": {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "system-node-critical"}}),
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
            "apiextensions.k8s.io/customresourcedefinitions",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({"spec": definition}),
        ),
    ]
}

/// Kinds whose objects may forbid a write, each with such a write. A damaged object must forbid the write,
/// because its content is not known. It used to be skipped.
fn gatekeepers() -> Vec<(Kind, &'static str, Value)> {
    let kind = |keys, path| Kind { keys, path, good: Value::Null };
    let map = || ("/api/v1/namespaces/a/configmaps", json!({"metadata": {"name": "c"}}));
    let pod = || {
        let container = json!({"name": "c", "image": "i"});
        ("/api/v1/namespaces/a/pods", json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}}))
    };
    let claim = json!({"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}});
    let rows = [
        (kind("core/resourcequotas/a", "/api/v1/namespaces/a/resourcequotas"), map()),
        (kind("core/limitranges/a", "/api/v1/namespaces/a/limitranges"), pod()),
        (kind("scheduling.k8s.io/priorityclasses", "/apis/scheduling.k8s.io/v1/priorityclasses"), pod()),
        (
            kind("storage.k8s.io/storageclasses", "/apis/storage.k8s.io/v1/storageclasses"),
            ("/api/v1/namespaces/a/persistentvolumeclaims", claim),
        ),
        (
            kind("networking.k8s.io/ingressclasses", "/apis/networking.k8s.io/v1/ingressclasses"),
            ("/apis/networking.k8s.io/v1/namespaces/a/ingresses", ingress),
        ),
        (
            kind("core/namespaces", "/api/v1/namespaces"),
            ("/api/v1/namespaces/bad/configmaps", json!({"metadata": {"name": "c"}})),
        ),
        (admission("validatingwebhookconfigurations"), map()),
        (admission("mutatingwebhookconfigurations"), map()),
        (admission("validatingadmissionpolicybindings"), map()),
        (admission("mutatingadmissionpolicybindings"), map()),
    ];
    rows.into_iter().map(|(kind, (path, body))| (kind, path, body)).collect()
}

/// A kind of webhook configurations, policies or bindings.
fn admission(plural: &str) -> Kind {
    let keys = format!("admissionregistration.k8s.io/{plural}").leak();
    Kind { keys, path: format!("/apis/admissionregistration.k8s.io/v1/{plural}").leak(), good: Value::Null }
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

/// An object whose metadata can be read and whose rest cannot: it is nested deeper than a parser goes. All damage above
/// is found with the header; this is found by whoever parses the whole object.
fn damaged_after_the_header() -> &'static [u8] {
    let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let text =
        format!(r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"bad","uid":"u"}},"data":{nested}}}"#);
    text.into_bytes().leak()
}

#[tokio::test(start_paused = true)]
async fn damage_after_the_header_is_named_by_whoever_parses_the_object() {
    let bytes = damaged_after_the_header();
    let api = Api::booted().await;
    assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await.status, 201);
    for kind in kinds() {
        let key = damage(api.store(), &kind, bytes).await;
        let bad = format!("{}/bad", kind.path);
        names_key(&api.merge(&bad, json!({"metadata": {"labels": {"a": "b"}}})).await, &key);
        let mut good = kind.good.clone();
        good["metadata"] = json!({"name": "bad"});
        let replaced = api.put(&bad, good.clone()).await;
        let message = replaced.body["message"].as_str().unwrap_or_default();
        assert!(message.contains(&key) || replaced.status == 409, "{replaced:?}");
        good["metadata"] = json!({"name": name_of(&kind)});
        assert_eq!(api.post(kind.path, good).await.status, 201, "{key}");
    }
    let allowed = api.act("ann", "GET", "/api/v1/namespaces/a/pods/good", Value::Null).await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    for (kind, path, body) in gatekeepers() {
        let api = Api::booted().await;
        assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await.status, 201);
        let key = damage(api.store(), &kind, bytes).await;
        let answer = api.post(path, body).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        // A namespace is asked for its header only.
        let is_needed = !key.contains("/namespaces/");
        assert_eq!(message.contains(&key), is_needed, "{key}: {answer:?}");
    }
}

#[tokio::test]
async fn a_data_directory_with_damaged_objects_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Store::<Header>::open(dir.path(), Env::seeded(1), evenkeel_store::Options::default());
    let store = open().await.unwrap();
    let kinds = || kinds().into_iter().chain(gatekeepers().into_iter().map(|(kind, ..)| kind));
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

/// The delete options for an unreadable object.
fn unread() -> Value {
    json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true})
}

#[tokio::test(start_paused = true)]
async fn what_may_forbid_a_write_and_cannot_be_read_forbids_it() {
    for (kind, path, body) in gatekeepers() {
        let api = Api::booted().await;
        assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await.status, 201);
        let key = damage(api.store(), &kind, DAMAGE[1]).await;
        let refused = api.post(path, body.clone()).await;
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(message.contains(&key), "{key}: {refused:?}");
        if key.contains("admissionregistration") {
            assert_eq!((refused.status, refused.body["reason"].as_str()), (403, Some("Forbidden")), "{key}");
            assert!(message.contains("is forbidden: not yet ready to handle request"), "{message}");
        } else {
            assert_eq!(
                (refused.status, refused.body["reason"].as_str()),
                (500, Some("InternalError")),
                "{key}"
            );
        }
        let bad = format!("{}/bad", kind.path);
        assert_eq!(api.delete_with(&bad, unread()).await.status, 200, "{key}");
        let again = api.post(path, body).await;
        let missing = key.ends_with("/namespaces/bad");
        assert_eq!(again.status, if missing { 404 } else { 201 }, "{key}: {again:?}");
    }
}

/// Admission also sees updates and deletions.
#[tokio::test(start_paused = true)]
async fn a_damaged_webhook_forbids_updates_and_deletions() {
    let api = Api::booted().await;
    let path = "/api/v1/namespaces/default/configmaps/c";
    let map = json!({"metadata": {"name": "c"}});
    assert_eq!(api.post("/api/v1/namespaces/default/configmaps", map).await.status, 201);
    damage(api.store(), &admission("validatingwebhookconfigurations"), DAMAGE[1]).await;
    assert_eq!(api.merge(path, json!({"data": {"a": "b"}})).await.status, 403);
    assert_eq!(api.delete(path).await.status, 403);
    assert_eq!(api.get(path).await.status, 200, "reads go on");
    assert_eq!(api.restarted().await.delete(path).await.status, 403);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_policy_forbids_writes_where_it_is_bound() {
    for (policies, bindings) in [
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    ] {
        let api = Api::booted().await;
        let key = damage(api.store(), &admission(policies), DAMAGE[2]).await;
        let maps = "/api/v1/namespaces/default/configmaps";
        assert_eq!(api.post(maps, json!({"metadata": {"name": "a"}})).await.status, 201, "nothing binds it");
        let mut binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "bad"}});
        if bindings.starts_with("validating") {
            binding["spec"]["validationActions"] = json!(["Deny"]);
        }
        let bound = api.post(admission(bindings).path, binding).await;
        assert_eq!(bound.status, 201, "{bound:?}");
        let refused = api.post(maps, json!({"metadata": {"name": "b"}})).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.body["message"].as_str().unwrap().contains(&key), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_can_be_deleted() {
    for bytes in DAMAGE {
        let api = Api::booted().await;
        assert_eq!(api.post("/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await.status, 201);
        for kind in kinds().into_iter().chain(gatekeepers().into_iter().map(|(kind, ..)| kind)) {
            let key = damage(api.store(), &kind, bytes).await;
            let bad = format!("{}/bad", kind.path);
            let deleted = api.delete_with(&bad, unread()).await;
            assert_eq!((deleted.status, deleted.body["status"].as_str()), (200, Some("Success")), "{key}");
            assert_eq!(deleted.body["details"]["name"], "bad", "{key}: {deleted:?}");
            assert_eq!(api.get(&bad).await.status, 404, "{key}");
            assert!(api.store().get(&key).is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_is_deleted_only_with_the_permission_to_it() {
    let api = Api::booted().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let kind = Kind { keys: "core/configmaps/default", path: maps, good: json!({}) };
    let key = damage(api.store(), &kind, DAMAGE[0]).await;
    let invalid = |answer: crate::api::Answer, why: &str| {
        assert_eq!((answer.status, answer.body["reason"].as_str()), (422, Some("Invalid")), "{answer:?}");
        assert!(answer.body["message"].as_str().unwrap().contains(why), "{answer:?}");
    };
    assert_eq!(api.post(maps, json!({"metadata": {"name": "good"}})).await.status, 201);
    // Kubernetes v1.36 ignores the option by default.
    assert_eq!(api.delete_with(&format!("{maps}/good"), unread()).await.status, 200);
    assert_eq!(api.get(&format!("{maps}/good")).await.status, 404);
    assert_eq!(api.delete_with(maps, unread()).await.status, 200);
    assert!(api.store().get(&key).is_some(), "a collection keeps what cannot be read");
    let bad = format!("{maps}/bad");
    for (field, value) in [
        ("dryRun", json!(["All"])),
        ("propagationPolicy", json!("Orphan")),
        ("orphanDependents", json!(true)),
        ("gracePeriodSeconds", json!(0)),
        ("preconditions", json!({"uid": "u"})),
    ] {
        let mut options = unread();
        options[field] = value;
        invalid(api.delete_with(&bad, options).await, &format!("cannot be set together with .{field}"));
    }
    assert_eq!(api.delete_with(&format!("{maps}/none"), unread()).await.status, 404);
    assert!(api.store().get(&key).is_some());

    let rules = |verbs: Value| {
        json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""],
        "resources": ["configmaps"], "verbs": verbs}]})
    };
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    assert_eq!(api.post(roles, rules(json!(["delete"]))).await.status, 201);
    let binding = json!({"metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(api.post(bindings, binding).await.status, 201);
    let refused = api.act("ann", "DELETE", &bad, unread()).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let message = refused.body["message"].as_str().unwrap_or_default();
    let wanted =
        "configmaps \"bad\" is forbidden: not permitted to do \"unsafe-delete-ignore-read-errors\", reason: ";
    assert!(message.starts_with(wanted), "{message}");
    let verbs = json!(["delete", "unsafe-delete-ignore-read-errors"]);
    assert_eq!(api.put(&format!("{roles}/r"), rules(verbs)).await.status, 200);
    let query = format!("{bad}?ignoreStoreReadErrorWithClusterBreakingPotential=true");
    assert_eq!(api.act("ann", "DELETE", &query, Value::Null).await.status, 200);
    assert!(api.store().get(&key).is_none());
}
