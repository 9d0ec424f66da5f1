//! The flight recorder on a cluster, and the reasons that it gives: five operators, each broken in its own way.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, User};
use evenkeel_record::why::{Evidence, Reason, Why, why};
use evenkeel_record::{Key, questions};
use evenkeel_runtime::webhook::{Admission, Verdict, Webhook};
use evenkeel_runtime::{Action, Controller, Ctx, Error, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::{Value, json};

use crate::{map, value};

const BROKEN: &str = "broken";

fn key() -> Key {
    Key { kind: "ConfigMap".into(), namespace: Some("default".into()), name: "one".into() }
}

/// Explains the state of the ConfigMap `one`.
async fn reason(cluster: &Cluster, descendants: &[Value]) -> Why {
    let record = cluster.record();
    let object = cluster.get_opt::<ConfigMap>("one").await.unwrap();
    let object = object.map(|object| serde_json::to_value(object).unwrap());
    why(
        &key(),
        Evidence { record: Some(&record), object: object.as_ref(), descendants, ..Evidence::default() },
    )
}

/// Lets time pass for a broken operator, which never comes to rest.
async fn a_while() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// An operator that writes a new value whenever it sees its own write.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1, embedded = "an operator loops for two seconds")]
async fn a_loop_is_named_with_its_write_and_its_field(cluster: Cluster) {
    async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let seen = map.data.as_ref().and_then(|data| data.get("seen")?.parse().ok()).unwrap_or(0);
        let patch = json!({"data": {"seen": (seen + 1).to_string()}});
        ctx.patch(&map, &kube::api::Patch::Merge(patch)).await?;
        Ok(Action::await_change())
    }
    cluster.run(|| Controller::new(BROKEN, reconcile));
    cluster.apply(map("one", 1)).await.unwrap();
    a_while().await;
    let Why { reason, line } = reason(&cluster, &[]).await;
    assert_eq!(reason, Reason::Loop, "{line}");
    let said = "each by `patch configmaps/one`, which changes data.seen every time";
    assert!(line.starts_with("broken triggers itself: ") && line.ends_with(said), "{line}");
    cluster.stop(BROKEN);
}

/// An operator whose cleanup fails, so that its finalizer stays.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2, embedded = "retries take two seconds")]
async fn a_finalizer_that_stays_is_named_with_the_error_of_the_cleanup(cluster: Cluster) {
    async fn reconcile(map: Arc<ConfigMap>, _: Ctx) -> Result<Action> {
        match map.metadata.deletion_timestamp {
            Some(_) => Err(Error::message("the backup server refuses the connection")),
            None => Ok(Action::await_change()),
        }
    }
    cluster.run(|| Controller::new(BROKEN, reconcile));
    let mut one = map("one", 1);
    one.metadata.finalizers = Some(vec!["example.com/backup".into()]);
    cluster.apply(one).await.unwrap();
    cluster.delete::<ConfigMap>("one").await.unwrap();
    a_while().await;
    let Why { reason, line } = reason(&cluster, &[]).await;
    assert_eq!(reason, Reason::Finalizer, "{line}");
    let said = "waits for the finalizer example.com/backup: broken fails to clean up: the backup server refuses the connection (tried ";
    assert!(line.contains(said), "{line}");
    cluster.stop(BROKEN);
}

/// An operator that may read ConfigMaps and may not write Secrets.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3, embedded = "retries take two seconds")]
async fn a_missing_permission_is_named_as_a_rule(cluster: Cluster) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    for object in [role, binding] {
        cluster.apply_yaml(&object.to_string()).await.unwrap();
    }
    async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
        let mut secret = Secret::default();
        secret.metadata.name = map.metadata.name.clone();
        ctx.apply(secret).await?;
        Ok(Action::await_change())
    }
    cluster
        .acting_as(User::new("reader", ["system:authenticated"]))
        .run(|| Controller::new(BROKEN, reconcile));
    cluster.apply(map("one", 1)).await.unwrap();
    a_while().await;
    let Why { reason, line } = reason(&cluster, &[]).await;
    assert_eq!(reason, Reason::Forbidden, "{line}");
    let said = "broken may not patch secrets in namespace default: give its role this rule (tried ";
    assert!(line.starts_with(said), "{line}");
    cluster.stop(BROKEN);
}

/// An operator whose write a webhook refuses.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4, embedded = "its webhook reviews all Secrets")]
async fn a_webhook_that_refuses_is_quoted(cluster: Cluster) {
    async fn refuse(_: Arc<Secret>, _: Admission<Secret>) -> Result<Verdict> {
        Ok(Verdict::deny("secrets come from the vault"))
    }
    cluster.run_manager("vault", |manager| manager.webhook(Webhook::validate(refuse)));
    async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
        let mut secret = Secret::default();
        secret.metadata.name = map.metadata.name.clone();
        ctx.apply(secret).await?;
        Ok(Action::await_change())
    }
    cluster.run(|| Controller::new(BROKEN, reconcile));
    cluster.apply(map("one", 1)).await.unwrap();
    a_while().await;
    let Why { reason, line } = reason(&cluster, &[]).await;
    assert_eq!(reason, Reason::Webhook, "{line}");
    assert!(line.starts_with("broken is refused `apply secrets/one`: admission webhook "), "{line}");
    assert!(line.contains("denied the request: secrets come from the vault"), "{line}");
    cluster.stop(BROKEN);
}

/// An operator whose Deployment selects a node that does not exist.
#[evenkeel_macros::test(crate = evenkeel_cluster, seed = 5, embedded = "the record of the cluster is read")]
async fn a_pod_that_never_gets_ready_is_named_with_its_reason(cluster: Cluster) {
    async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
        let name = map.metadata.name.clone().unwrap_or_default();
        if name != "one" {
            // The built-in controllers make ConfigMaps, too.
            return Ok(Action::await_change());
        }
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": "one"}},
                "template": {
                    "metadata": {"labels": {"app": "one"}},
                    "spec": {"containers": [{"name": "main", "image": "nginx"}], "nodeSelector": {"disk": "fast"}},
                },
            },
        }))?;
        ctx.apply(deployment).await?;
        Ok(Action::await_change())
    }
    cluster.run(|| Controller::new(BROKEN, reconcile).owns::<Deployment>());
    cluster.apply(map("one", 1)).await.unwrap();
    a_while().await;
    let pods = cluster.list::<Pod>().await.unwrap();
    let pods = pods.into_iter().map(|pod| {
        let mut pod = serde_json::to_value(pod).unwrap();
        pod["kind"] = "Pod".into();
        pod
    });
    let Why { reason, line } = reason(&cluster, &pods.collect::<Vec<_>>()).await;
    assert_eq!(reason, Reason::Pod, "{line}");
    assert!(line.starts_with("waits for the pod one-"), "{line}");
    assert!(line.contains("which is not ready: it is not scheduled: Unschedulable: "), "{line}");
    cluster.stop(BROKEN);
}

/// The reads, requests and changes of a reconcile are recorded, but no value from a Secret.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6, embedded = "the record of the cluster is read")]
async fn a_reconcile_is_recorded_without_the_values_of_secrets(cluster: Cluster) {
    const PLANTED: &str = "cGxhbnRlZA==";
    async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
        let data = json!({"key": PLANTED, "extra": value(&map)});
        let secret = json!({"metadata": {"name": "one"}, "data": {"password": PLANTED}, "stringData": data});
        ctx.apply::<Secret>(serde_json::from_value(secret)?).await?;
        let patch = json!({"metadata": {"annotations": {"seen": PLANTED}}});
        ctx.patch(&map, &kube::api::Patch::Merge(patch)).await?;
        Ok(Action::await_change())
    }
    cluster.run(|| Controller::new("copy", reconcile).owns::<Secret>());
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    cluster.apply(map("one", 2)).await.unwrap();
    cluster.settled().await;
    let record = cluster.record();
    let told = record.timeline().join("\n");
    assert!(told.contains("patch configmaps/one → 200"), "{told}");
    assert!(told.contains("metadata.annotations"), "{told}");
    let of_operator: Vec<_> = record.reconciles().filter(|it| it.controller == "copy").collect();
    let first = of_operator[0];
    assert_eq!((first.kind.as_str(), first.key().as_str()), ("ConfigMap", "default/one"));
    assert!(first.reads[0].revision > 0 && first.requests[0].verb == "apply", "{first:?}");
    let json: String = record.reconciles().map(|it| serde_json::to_string(it).unwrap()).collect();
    assert!(!json.contains(PLANTED) && !json.contains("planted"), "{json}");
    assert!(questions::loops(&record).is_empty(), "{:?}", questions::loops(&record));
    let watched =
        record.watches.iter().find(|watch| watch.operator == "copy" && watch.source.contains("ConfigMap"));
    let watched = watched.unwrap();
    assert!(watched.objects >= 1 && watched.lists == 1 && watched.revision > 0, "{watched:?}");
}
