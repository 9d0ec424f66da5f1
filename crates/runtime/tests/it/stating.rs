//! Writes of a status: by replacement, by patch, and by apply beside other field managers.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::{Action, Controller, Ctx, Error};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::applying::in_a_reconcile;
use crate::writing::web;
use crate::{Notes, map};

/// A replaced status changes nothing else, and is refused if the object changed since it was read.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn a_status_is_replaced_under_the_same_condition_as_an_object(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    in_a_reconcile(&cluster, "replacer", |ctx| async move {
        let old = ctx.create(web()).await?;
        let mut wanted = old.clone();
        wanted.spec.as_mut().unwrap().replicas = Some(7);
        wanted.status.get_or_insert_default().replicas = Some(5);
        let written = ctx.update_status(&wanted).await?;
        assert_eq!(written.status.as_ref().and_then(|status| status.replicas), Some(5));
        assert_eq!(written.spec.and_then(|spec| spec.replicas), Some(3), "the rest is left alone");
        let error = ctx.update_status(&wanted).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
        Ok("as it should be".into())
    })
    .await;
}

/// The status that an annotation asks for.
fn wanted(deployment: &Deployment) -> Value {
    let wanted = deployment.annotations().get("wanted").map_or("{}", String::as_str);
    serde_json::from_str(wanted).unwrap()
}

async fn want(cluster: &Cluster, status: Value) {
    let wanted = json!({ "metadata": { "annotations": { "wanted": status.to_string() } } });
    cluster.patch::<Deployment>("web", wanted).await.unwrap();
    cluster.settled().await;
}

fn conditions(deployment: &Deployment) -> Vec<String> {
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.map(|DeploymentCondition { type_, status, .. }| format!("{type_}={status}")).collect()
}

/// Two field managers have conditions in one status: each changes and removes only its own.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn a_status_is_applied_only_on_change_and_beside_others(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(web()).await.unwrap();
    let theirs = json!({ "status": { "conditions": [{ "type": "Theirs", "status": "True" }] } });
    cluster.patch_status::<Deployment>("web", theirs).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("ours", |deployment: Arc<Deployment>, ctx: Ctx<Notes>| async move {
                let sent = ctx.apply_status(&deployment, wanted(&deployment)).await?;
                ctx.state().push(format!("sent {}", sent.is_some()));
                Ok::<_, Error>(Action::await_change())
            })
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    notes.take();
    let ready = |status: &str| json!({ "conditions": [{ "type": "Ours", "status": status }], "replicas": 1 });
    want(&cluster, ready("False")).await;
    assert_eq!(notes.take(), ["sent true", "sent false"]);
    let found: Deployment = cluster.get("web").await.unwrap();
    assert_eq!(conditions(&found), ["Theirs=True", "Ours=False"]);
    want(&cluster, ready("True")).await;
    assert_eq!(notes.take(), ["sent true", "sent false"]);
    cluster
        .patch::<Deployment>("web", json!({ "metadata": { "labels": { "touched": "yes" } } }))
        .await
        .unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["sent false"]);
    want(&cluster, json!({ "replicas": 1 })).await;
    assert_eq!(notes.take(), ["sent true", "sent false"]);
    let found: Deployment = cluster.get("web").await.unwrap();
    assert_eq!(conditions(&found), ["Theirs=True"], "ours is given up, theirs stays");
    assert_eq!(found.status.and_then(|status| status.replicas), Some(1));
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn a_status_of_an_object_that_is_gone_is_an_error(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    in_a_reconcile(&cluster, "late", |ctx| async move {
        let gone = ctx.create(web()).await?;
        ctx.delete(&gone).await?;
        assert!(ctx.status(&gone, json!({ "replicas": 1 })).await.unwrap_err().is_not_found());
        assert!(ctx.apply_status(&gone, json!({ "replicas": 1 })).await.unwrap_err().is_not_found());
        Ok("as it should be".into())
    })
    .await;
}
