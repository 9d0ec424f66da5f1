use bytes::Bytes;
use evenkeel_env::Env;
use evenkeel_schema::json::{Value, json};
use evenkeel_store::{Expect, Op, Options, Write};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::header::encode_object;
use crate::strategy::Unstored;

struct World {
    store: Store<Header>,
    rbac: Rbac,
}

impl World {
    fn new() -> Self {
        let store = Store::memory(Env::seeded(1), Options::default());
        Self { rbac: Rbac::new(store.clone()), store }
    }

    async fn put(&self, key: &str, object: Value) {
        let (bytes, header): (Bytes, Header) = encode_object(&object);
        let key = format!("{PREFIX}{key}").into();
        self.store.write(Write { key, expect: Expect::Any, op: Op::Put(bytes, header) }).await.unwrap();
    }

    async fn role(&self, key: &str, labels: Value, rules: Value) {
        let name = key.rsplit('/').next();
        self.put(key, json!({"metadata": {"name": name, "labels": labels}, "rules": rules})).await;
    }

    async fn bind(&self, key: &str, role: (&str, &str), subject: Value) {
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1});
        self.put(key, json!({"metadata": {}, "roleRef": reference, "subjects": [subject]})).await;
    }

    fn ask(&self, user: &User, verb: &str, resource: &str, namespace: &str) -> Decision {
        let target =
            Target::Resource { group: "", version: "v1", resource, subresource: "", namespace, name: "" };
        self.rbac.authorize(&Attributes { user, verb, target })
    }

    fn allows(&self, user: &User, verb: &str, resource: &str, namespace: &str) -> bool {
        matches!(self.ask(user, verb, resource, namespace), Decision::Allow(_))
    }
}

fn alice() -> User {
    User::new("alice", ["devs", "system:authenticated"])
}

fn read_pods() -> Value {
    json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
}

#[tokio::test]
async fn bindings_count_for_the_next_request_and_go_with_their_object() {
    let world = World::new();
    world.role("roles/ns/reader", json!({}), read_pods()).await;
    assert!(!world.allows(&alice(), "list", "pods", "ns"));
    world.bind("rolebindings/ns/b", ("Role", "reader"), json!({"kind": "Group", "name": "devs"})).await;
    let reason = r#"RBAC: allowed by RoleBinding "b/ns" of Role "reader" to Group "devs""#;
    assert_eq!(world.ask(&alice(), "list", "pods", "ns"), Decision::Allow(reason.into()));
    assert!(!world.allows(&alice(), "list", "pods", "other"));
    assert!(!world.allows(&alice(), "list", "pods", ""));
    world.bind("rolebindings/ns/b", ("Role", "reader"), json!({"kind": "User", "name": "bob"})).await;
    assert!(!world.allows(&alice(), "list", "pods", "ns"));
    let key = format!("{PREFIX}roles/ns/reader").into();
    world.store.write(Write { key, expect: Expect::Any, op: Op::Delete }).await.unwrap();
    let missing = r#"RBAC: role.rbac.authorization.k8s.io "reader" not found"#;
    assert_eq!(world.ask(&User::new("bob", ["x"]), "list", "pods", "ns"), Decision::Deny(missing.into()));
}

#[tokio::test]
async fn a_cluster_role_counts_where_it_is_bound() {
    let world = World::new();
    world.role("clusterroles/reader", json!({}), read_pods()).await;
    let robot = User::new("system:serviceaccount:ns:robot", ["system:serviceaccounts"]);
    world
        .bind(
            "rolebindings/ns/b",
            ("ClusterRole", "reader"),
            json!({"kind": "ServiceAccount", "name": "robot"}),
        )
        .await;
    assert!(world.allows(&robot, "list", "pods", "ns"));
    assert!(!world.allows(&robot, "list", "pods", ""));
    world
        .bind(
            "clusterrolebindings/c",
            ("ClusterRole", "reader"),
            json!({"kind": "ServiceAccount", "name": "robot", "namespace": "ns"}),
        )
        .await;
    assert!(world.allows(&robot, "list", "pods", ""));
    let reason =
        r#"RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "reader" to ServiceAccount "robot/ns""#;
    assert_eq!(world.ask(&robot, "list", "pods", "x"), Decision::Allow(reason.into()));
}

#[tokio::test]
async fn an_aggregated_role_gathers_by_label() {
    let world = World::new();
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "view"}}]});
    world
        .put(
            "clusterroles/view",
            json!({"metadata": {"name": "view"}, "aggregationRule": selectors, "rules": null}),
        )
        .await;
    world
        .bind("clusterrolebindings/v", ("ClusterRole", "view"), json!({"kind": "User", "name": "alice"}))
        .await;
    assert!(!world.allows(&alice(), "list", "pods", "ns"));
    world.role("clusterroles/part", json!({"to": "view"}), read_pods()).await;
    assert!(world.allows(&alice(), "list", "pods", "ns"));
    world.role("clusterroles/part", json!({"to": "edit"}), read_pods()).await;
    assert!(!world.allows(&alice(), "list", "pods", "ns"));
}

#[tokio::test]
async fn masters_may_do_everything() {
    let world = World::new();
    assert_eq!(world.ask(&User::admin(), "delete", "nodes", ""), Decision::Allow(String::new()));
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_hold() {
    let world = World::new();
    world.role("clusterroles/reader", json!({}), read_pods()).await;
    let object = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "reader"}});
    let grant = |user: &User, object: &Value| {
        let old = None;
        check_grant(
            &world.rbac,
            &Grant { user, resource: "rolebindings", namespace: "ns", name: "", object, old },
        )
    };
    let refused = grant(&alice(), &object).unwrap_err();
    assert_eq!(
        refused.message,
        "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"alice\" (groups=[\"devs\" \
         \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}"
    );
    assert!(grant(&User::admin(), &object).is_ok());
    let absent = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "absent"}});
    assert_eq!(grant(&alice(), &absent).unwrap_err().code, 404);
    world
        .bind("rolebindings/ns/own", ("ClusterRole", "reader"), json!({"kind": "User", "name": "alice"}))
        .await;
    assert!(grant(&alice(), &object).is_ok());
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    });
    pairs.collect()
}

fn act(world: &World, user: &User, pairs: &[(&str, &str)]) -> crate::status::Result<Option<User>> {
    let target = Target::Resource {
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace: "ns",
        name: "",
    };
    let found = impersonate(&world.rbac, &Attributes { user, verb: "list", target }, &headers(pairs))?;
    Ok(found.map(|it| it.user))
}

#[tokio::test]
async fn an_administrator_acts_as_anybody() {
    let world = World::new();
    let act = |pairs: &[(&str, &str)]| act(&world, &User::admin(), pairs);
    assert_eq!(act(&[]).unwrap(), None);
    let bob = act(&[("Impersonate-User", "bob"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")])
        .unwrap()
        .unwrap();
    assert_eq!(bob.groups, ["a", "b", "system:authenticated"]);
    let robot = act(&[("Impersonate-User", "system:serviceaccount:ns:robot")]).unwrap().unwrap();
    assert_eq!(robot.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    let nobody = act(&[("Impersonate-User", "system:anonymous")]).unwrap().unwrap();
    assert_eq!(nobody.groups, ["system:unauthenticated"]);
    let extra =
        act(&[("Impersonate-User", "bob"), ("Impersonate-Extra-Example.com%2FScope", "x")]).unwrap().unwrap();
    assert_eq!(extra.extra["example.com/scope"], ["x"]);
    let malformed = act(&[("Impersonate-User", "bob"), ("Impersonate-Extra-a%+5", "x")]).unwrap().unwrap();
    assert_eq!(malformed.extra["a%+5"], ["x"], "a malformed escape is left as it is");
    assert_eq!(
        act(&[("Impersonate-Group", "devs")]).unwrap_err().message,
        "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"devs\"}, \
         Extra:map[string][]string(nil)} without impersonating a user name"
    );
}

#[tokio::test]
async fn others_need_a_rule_for_it() {
    let world = World::new();
    let refused = act(&world, &alice(), &[("Impersonate-User", "bob")]).unwrap_err();
    assert_eq!(
        refused.message,
        "pods is forbidden: User \"alice\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" \
         in the namespace \"ns\""
    );
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]}]);
    world.role("clusterroles/act", json!({}), rules).await;
    world
        .bind("clusterrolebindings/act", ("ClusterRole", "act"), json!({"kind": "User", "name": "alice"}))
        .await;
    assert!(act(&world, &alice(), &[("Impersonate-User", "bob")]).is_ok());
    assert!(act(&world, &alice(), &[("Impersonate-User", "carol")]).is_err());
    assert!(act(&world, &alice(), &[("Impersonate-User", "bob"), ("Impersonate-Group", "x")]).is_err());
}

fn answer(world: &World, resource: Unstored, object: Value) -> Value {
    let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
    match review(&world.rbac, &alice(), resource, object, now).unwrap() {
        Ok(object) => object["status"].clone(),
        Err(status) => json!(status.message),
    }
}

#[tokio::test]
async fn reviews_answer_with_a_status() {
    let world = World::new();
    world.role("clusterroles/reader", json!({}), read_pods()).await;
    world
        .bind("rolebindings/ns/b", ("ClusterRole", "reader"), json!({"kind": "User", "name": "alice"}))
        .await;
    let access =
        json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "ns"}}});
    let reason = r#"RBAC: allowed by RoleBinding "b/ns" of ClusterRole "reader" to User "alice""#;
    assert_eq!(
        answer(&world, Unstored::SelfSubjectAccessReview, access),
        json!({"allowed": true, "reason": reason})
    );
    let other = json!({"spec": {"user": "bob", "nonResourceAttributes": {"path": "/x", "verb": "get"}}});
    assert_eq!(answer(&world, Unstored::SubjectAccessReview, other), json!({"allowed": false}));
    let rules = answer(&world, Unstored::SelfSubjectRulesReview, json!({"spec": {"namespace": "ns"}}));
    assert_eq!(rules, json!({"resourceRules": read_pods(), "nonResourceRules": [], "incomplete": false}));
    let info = json!({"username": "alice", "groups": ["devs", "system:authenticated"]});
    assert_eq!(answer(&world, Unstored::SelfSubjectReview, json!({})), json!({"userInfo": info}));
}

#[tokio::test]
async fn a_review_without_a_question_is_refused() {
    let world = World::new();
    let empty = answer(&world, Unstored::SubjectAccessReview, json!({"spec": {"user": "u"}}));
    assert_eq!(
        empty,
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly \
        one of nonResourceAttributes or resourceAttributes must be specified"
    );
    let local = json!({"metadata": {"namespace": "ns"}, "spec": {"user": "u", "nonResourceAttributes": {"path": "/x", "verb": "get"}}});
    assert_eq!(
        answer(&world, Unstored::LocalSubjectAccessReview, local),
        ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: \
         {\"Path\":\"/x\",\"Verb\":\"get\"}: disallowed on this kind of request"
    );
}
