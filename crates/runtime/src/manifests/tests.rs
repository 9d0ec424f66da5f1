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
        &["Role", "RoleBinding", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"],
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
                "metadata": { "name": "op-leader-election", "namespace": "ops" },
                "rules": [rule("coordination.k8s.io", "leases", json!(["create"])), held],
            }),
            json!({
                "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
                "metadata": { "name": "op-leader-election", "namespace": "ops" },
                "roleRef": { "apiGroup": group, "kind": "Role", "name": "op-leader-election" }, "subjects": subjects,
            }),
        ]
    );
    let labels = json!({ "app.kubernetes.io/name": "op" });
    let metadata = |name: &str| json!({ "name": name, "namespace": "ops", "labels": labels });
    let ports = |port: Value| json!([port]);
    assert_eq!(
        objects[7],
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata("op-metrics"),
            "spec": {
                "selector": labels, "ports": ports(json!({ "name": "http", "port": 8080, "targetPort": "metrics" })),
            },
        })
    );
    assert_eq!(objects[8], deployment());
    assert_eq!(
        objects[9..],
        [
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata("op"),
                "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels } },
            }),
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata("op"),
                "spec": {
                    "podSelector": { "matchLabels": labels },
                    "policyTypes": ["Ingress"],
                    "ingress": [{ "ports": ports(json!({ "port": "metrics", "protocol": "TCP" })) }],
                },
            }),
        ]
    );
}

/// Metrics over TLS come with the rules to ask who may read them, and with a role for those who may.
#[test]
fn secured_metrics_have_rules_and_readers() {
    let objects = Manifests::new("op", "ops").image("op:1").port(8081).secured_metrics_port(8443).objects();
    let named = |kind: &str, name: &str| {
        let found = objects.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}")).clone()
    };
    let asks = &named("ClusterRole", "op-metrics-auth")["rules"];
    let resources: Vec<_> =
        asks.as_array().unwrap().iter().map(|rule| (&rule["resources"][0], &rule["verbs"])).collect();
    let (create, record) = (json!(["create"]), json!(["/debug/evenkeel", "/debug/evenkeel/*"]));
    let own = (&json!(null), &json!(["get"]));
    assert_eq!(
        resources,
        [(&json!("tokenreviews"), &create), (&json!("subjectaccessreviews"), &create), own]
    );
    assert_eq!(asks[2]["nonResourceURLs"], record);
    let paths = ["/metrics", "/debug/evenkeel", "/debug/evenkeel/*"];
    let reads = json!([{ "nonResourceURLs": paths, "verbs": ["get"] }]);
    assert_eq!(named("ClusterRole", "op-metrics-reader")["rules"], reads);
    assert_eq!(named("ClusterRoleBinding", "op-metrics-auth")["subjects"][0]["name"], "op");
    assert_eq!(named("Service", "op-metrics")["spec"]["ports"][0]["port"], 8443);
    let plain = Manifests::new("op", "ops").image("op:1").port(8081).metrics_port(8080).objects();
    assert!(plain.iter().all(|object| object["metadata"]["name"] != "op-metrics-auth"), "nobody is asked");
    let none = Manifests::new("op", "ops").image("op:1").port(8081).without_metrics().monitoring().objects();
    let kinds: Vec<_> = none.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Namespace", "ServiceAccount", "Deployment", "NetworkPolicy"]);
    assert_eq!(none[3]["spec"]["ingress"], json!([]));
}

/// Returns the metric names in a PromQL expression that are followed by a selector.
fn metrics_in(expression: &str) -> Vec<String> {
    let heads = expression.split('{').rev().skip(1);
    let name = |head: &str| {
        let name: Vec<char> =
            head.chars().rev().take_while(|it| it.is_alphanumeric() || *it == '_').collect();
        name.into_iter().rev().collect::<String>()
    };
    heads.map(name).filter(|name| name != "up").collect()
}

/// Every metric of the alerts and of the dashboard is one that a manager exports.
#[cfg(feature = "webhooks")]
#[tokio::test]
async fn what_is_watched_exists() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::empty()))
    });
    let manager = Manager::new(kube::Client::new(service, "default"));
    let metrics = manager.metrics().clone();
    metrics.watch_informers(manager.informers());
    metrics.leader("op", true);
    metrics.webhook("/x").ended(http::StatusCode::OK);
    metrics.certificate("webhooks", || Some(1));
    let exported = metrics.encode();
    let exists = |name: &str| {
        let base =
            ["_bucket", "_total"].iter().fold(name, |name, suffix| name.strip_suffix(suffix).unwrap_or(name));
        exported
            .lines()
            .any(|line| line.strip_prefix("# TYPE ").and_then(|line| line.split(' ').next()) == Some(base))
    };
    let election = LeaderElection::new("ops", "op");
    let objects =
        Manifests::new("op", "ops").image("op:1").secured_metrics_port(8443).leader_election(&election);
    let objects = objects.monitoring().objects();
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let rules = of_kind("PrometheusRule")["spec"]["groups"][0]["rules"].as_array().unwrap();
    let alerts: Vec<_> = rules.iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()).collect();
    let dashboard: Value =
        serde_json::from_str(of_kind("ConfigMap")["data"]["op.json"].as_str().unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    let names: std::collections::BTreeSet<_> =
        alerts.iter().chain(&shown).flat_map(|expression| metrics_in(expression)).collect();
    assert!(alerts.len() >= 5 && shown.len() >= 14 && names.len() >= 15, "{names:?}");
    for name in names {
        assert!(exists(&name), "{name} is not exported:\n{exported}");
    }
    assert!(!exists("workqueue_depths"), "the test can fail");
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
    assert_eq!(plain[2]["spec"]["replicas"], 1);
    let container = &plain[2]["spec"]["template"]["spec"]["containers"][0];
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
    assert!(objects.contains(&deployment()));
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
