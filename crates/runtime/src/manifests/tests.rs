use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Service};

use super::*;
use crate::{Action, Ctx, Error, Index, Manager, Source, Trigger};

fn controller() -> Controller<ConfigMap> {
    Controller::new("op", |_: std::sync::Arc<ConfigMap>, _: Ctx| async {
        Ok::<_, Error>(Action::await_change())
    })
    .owns::<Secret>()
}

fn crd() -> CustomResourceDefinition {
    let mut crd = CustomResourceDefinition::default();
    crd.metadata.name = Some("databases.example.com".into());
    crd
}

/// All manifests that there can be, in the order in which `kubectl apply` needs them.
#[test]
fn they_are_all_that_a_cluster_needs() {
    let manifests = Manifests::new("op", "ops")
        .controller(&controller())
        .crd(&crd())
        .leader_election(&LeaderElection::new("ops", "op-lease"))
        .verbs("secrets: create".parse().unwrap())
        .verbs("secrets: patch".parse().unwrap())
        .image("registry.example.com/op:1")
        .args(["run", "--verbose"])
        .port(8081)
        .metrics_port(8080);
    let objects = manifests.objects();
    let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap_or_default()).collect();
    let wanted = [
        &["CustomResourceDefinition", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"][..],
        &["Role", "RoleBinding", "Deployment"],
    ];
    assert_eq!(kinds, wanted.concat());
    assert_eq!(objects[0]["metadata"]["name"], "databases.example.com");
    let group = "rbac.authorization.k8s.io";
    let subjects = json!([{ "kind": "ServiceAccount", "name": "op", "namespace": "ops" }]);
    let rule = |group: &str, resource: &str, verbs: Value| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
    let mut held = rule("coordination.k8s.io", "leases", json!(["get", "update"]));
    held["resourceNames"] = json!(["op-lease"]);
    assert_eq!(
        objects[1..7],
        [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "ops" } }),
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "op", "namespace": "ops" },
            }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": { "name": "op" },
                "rules": [
                    rule("", "configmaps", json!(["get", "list", "watch"])),
                    rule("", "configmaps/finalizers", json!(["update"])),
                    rule("", "secrets", json!(["create", "list", "patch", "watch"])),
                ],
            }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": "op" },
                "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "op" }, "subjects": subjects,
            }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "Role",
                "metadata": { "name": "op", "namespace": "ops" },
                "rules": [rule("coordination.k8s.io", "leases", json!(["create"])), held],
            }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
                "metadata": { "name": "op", "namespace": "ops" },
                "roleRef": { "apiGroup": group, "kind": "Role", "name": "op" }, "subjects": subjects,
            }),
        ]
    );
    assert_eq!(objects[7], deployment());
}

fn deployment() -> Value {
    let labels = json!({ "app.kubernetes.io/name": "op" });
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": 8081 } });
    let container = json!({
        "name": "operator",
        "image": "registry.example.com/op:1",
        "args": ["run", "--verbose"],
        "ports": [{ "name": "probes", "containerPort": 8081 }, { "name": "metrics", "containerPort": 8080 }],
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "op", "namespace": "ops", "labels": labels },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": "op",
                    "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                    "containers": [container],
                },
            },
        },
    })
}

/// No manifests for a namespace that every cluster has, a Deployment without an image, and a role without rules.
#[test]
fn they_are_no_more_than_is_needed() {
    let objects = Manifests::new("op", "default").verbs(Verbs::default()).objects();
    let wanted = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "op", "namespace": "default" },
    });
    assert_eq!(objects, [wanted]);
    let plain = Manifests::new("op", "default").image("op:1").port(8080).objects();
    assert_eq!(plain[1]["spec"]["replicas"], 1);
    let container = &plain[1]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["ports"], json!([{ "name": "http", "containerPort": 8080 }]));
    assert!(container.get("args").is_none());
    let bare = Manifests::new("op", "default").image("op:1").objects();
    let container = &bare[1]["spec"]["template"]["spec"]["containers"][0];
    assert!(container.get("ports").is_none() && container.get("livenessProbe").is_none());
}

/// The manifests of a manager contain what its controllers declare, its namespaces, its election and its ports.
#[tokio::test]
async fn a_managers_are_of_all_that_it_runs() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
    });
    let nodes = Controller::new("nodes", |_: std::sync::Arc<Node>, _: Ctx| async {
        Ok::<_, Error>(Action::await_change())
    });
    let by_data =
        Index::new("data", |map: &ConfigMap| map.data.iter().flat_map(|data| data.keys().cloned()).collect());
    let controller = controller()
        .reads_with(Source::<Secret>::new().namespace("b"))
        .watches_with(Source::<Secret>::new().namespace("c"), Trigger::map(|_: &Secret| []))
        .watches_indexed(by_data, |service: &Service| service.metadata.name.clone().into_iter().collect());
    let manifests = Manager::new(kube::Client::new(service, "default"))
        .namespaces(["a"])
        .controller(controller)
        .controller(nodes)
        .leader_election(LeaderElection::new("ops", "op-lease"))
        .serve("127.0.0.1:8081".parse().unwrap())
        .serve_metrics("127.0.0.1:8080".parse().unwrap())
        .manifests("op", "ops")
        .verbs(Verbs::default())
        .image("registry.example.com/op:1")
        .args(["run", "--verbose"]);
    let objects = manifests.objects();
    assert_eq!((manifests.name(), manifests.namespace()), ("op", "ops"));
    assert_eq!(objects.last(), Some(&deployment()));
    let granted = |object: &Value| {
        let rules = object["rules"].as_array()?.iter();
        let resources = rules.flat_map(|rule| rule["resources"].as_array().into_iter().flatten());
        let resources: Vec<&str> = resources.filter_map(Value::as_str).collect();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("*");
        Some(format!("{namespace}: {}", resources.join(" ")))
    };
    let granted: Vec<String> = objects.iter().filter_map(granted).collect();
    assert_eq!(
        granted,
        [
            "*: nodes",
            "a: configmaps configmaps/finalizers secrets services",
            "b: secrets",
            "c: secrets",
            "ops: leases leases",
        ]
    );
}
