use serde_json::{Value, json};

use crate::api::Api;

const PODS: &str = "/api/v1/namespaces/default/pods";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn role(name: &str, resources: &[&str], verbs: &[&str]) -> Value {
    let groups = ["", "rbac.authorization.k8s.io"];
    json!({"metadata": {"name": name}, "rules": [{"apiGroups": groups, "resources": resources, "verbs": verbs}]})
}

fn binding(name: &str, role: &str, user: &str) -> Value {
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
    json!({"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})
}

#[tokio::test(start_paused = true)]
async fn a_binding_opens_what_it_names_from_the_next_request_on() {
    let api = Api::booted().await;
    let refused = api.act("alice", "GET", PODS, Value::Null).await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.body["message"],
        "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    assert_eq!(api.post(ROLES, role("reader", &["pods"], &["list"])).await.status, 201);
    assert_eq!(api.post(BINDINGS, binding("b", "reader", "alice")).await.status, 201);
    assert_eq!(api.act("alice", "GET", PODS, Value::Null).await.status, 200);
    assert_eq!(api.act("alice", "GET", "/api/v1/pods", Value::Null).await.status, 403);
    assert_eq!(api.delete(&format!("{BINDINGS}/b")).await.status, 200);
    assert_eq!(api.act("alice", "GET", PODS, Value::Null).await.status, 403);
}

#[tokio::test(start_paused = true)]
async fn everybody_sees_health_and_version_and_users_see_the_api() {
    let api = Api::booted().await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(api.act("system:anonymous", "GET", path, Value::Null).await.status, 200, "{path}");
    }
    let refused = api.act("system:anonymous", "GET", "/api", Value::Null).await;
    assert_eq!(refused.body["message"], "forbidden: User \"system:anonymous\" cannot get path \"/api\"");
    for path in ["/api", "/apis", "/apis/apps/v1", "/openapi/v3"] {
        assert_eq!(api.act("alice", "GET", path, Value::Null).await.status, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_lies_in_itself() {
    let api = Api::booted().await;
    let refused = api.act("alice", "GET", "/api/v1/namespaces/default", Value::Null).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("in the namespace \"default\""), "{message}");
    api.post(ROLES, role("own", &["namespaces"], &["get"])).await;
    api.post(BINDINGS, binding("own", "own", "alice")).await;
    assert_eq!(api.act("alice", "GET", "/api/v1/namespaces/default", Value::Null).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn nobody_grants_more_than_they_hold() {
    let api = Api::booted().await;
    api.post(ROLES, role("writer", &["roles", "rolebindings"], &["create", "update"])).await;
    api.post(BINDINGS, binding("writer", "writer", "alice")).await;
    let refused = api.act("alice", "POST", ROLES, role("more", &["secrets"], &["get"])).await;
    assert_eq!(refused.status, 403);
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(message.contains("is attempting to grant RBAC permissions not currently held:"), "{message}");
    let own = role("own", &["roles"], &["create"]);
    assert_eq!(api.act("alice", "POST", ROLES, own).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn reviews_say_who_one_is_and_what_one_may() {
    let api = Api::booted().await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let who = api.act("alice", "POST", path, json!({})).await.body;
    assert_eq!(who["status"]["userInfo"], json!({"username": "alice", "groups": ["system:authenticated"]}));
    let question = json!({"spec": {"nonResourceAttributes": {"path": "/apis", "verb": "get"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let may = api.act("alice", "POST", path, question).await.body;
    assert_eq!(may["status"]["allowed"], true);
    let owned = json!({"f:spec": {"f:nonResourceAttributes": {".": {}, "f:path": {}, "f:verb": {}}}});
    assert_eq!(may["metadata"]["managedFields"][0]["fieldsV1"], owned);
    let reason = "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to \
                  Group \"system:authenticated\"";
    assert_eq!(may["status"]["reason"], reason);
}
