//! Conditions, references and failures in a status.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_explore::Oracle;
use evenkeel_runtime::conditions::{self, NewCondition};
use evenkeel_runtime::{Action, Controller, Ctx, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, CustomResourceExt as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::map;

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub(crate) struct SiteSpec {
    replicas: i32,
    config: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SiteStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    child: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods: Vec<String>,
    #[schemars(schema_with = "conditions::schema")]
    conditions: Vec<Condition>,
}

fn deployment(site: &Site) -> Deployment {
    let labels = json!({"app": site.name_any()});
    let template = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": format!("web:{}", site.spec.config)}]},
    });
    let spec =
        json!({"replicas": site.spec.replicas, "selector": {"matchLabels": labels}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": site.name_any()}, "spec": spec})).unwrap()
}

/// Says whether the servers are ready, and since when.
async fn says(site: Arc<Site>, ctx: Ctx, keeps_failed: bool) -> Result<Action> {
    let child = ctx.apply(deployment(&site)).await?;
    let ready = child.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default();
    let mut status = site.status.clone().unwrap_or_default();
    let was_ready = conditions::is_true(&status.conditions, "Ready");
    let is_ready = ready == site.spec.replicas;
    if keeps_failed
        && was_ready
        && !is_ready
        && child.metadata.generation == child.status.as_ref().and_then(|it| it.observed_generation)
        && site.spec.config == "one"
    {
        status.failed = Some("it was ready".into());
    }
    let condition = NewCondition::new(
        "Ready",
        is_ready,
        if is_ready { "Up" } else { "Starting" },
        format!("{ready} are ready"),
    );
    conditions::set(&mut status.conditions, condition.observed(&*site), ctx.now());
    ctx.status(&site, status).await?;
    Ok(Action::await_change())
}

async fn says_what_is(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    says(site, ctx, false).await
}

async fn keeps_failed(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    says(site, ctx, true).await
}

async fn life(cluster: Cluster, controller: fn() -> Controller<Site>) -> kube::Result<()> {
    cluster.apply(Site::crd()).await?;
    cluster.settled().await;
    cluster.run(controller);
    cluster.apply(Site::new("web", SiteSpec { replicas: 2, config: "one".into() })).await?;
    cluster.settled().await;
    cluster.patch::<Site>("web", json!({"spec": {"config": "two"}})).await?;
    cluster.settled().await;
    cluster.patch::<Site>("web", json!({"spec": {"replicas": 3}})).await?;
    cluster.settled().await;
    cluster.delete::<Site>("web").await?;
    cluster.settled().await;
    Ok(())
}

#[test]
fn conditions_pass() {
    crate::passes("conditions", |cluster| {
        life(cluster, || Controller::new("says", says_what_is).owns::<Deployment>())
    });
}

#[test]
fn a_failure_that_is_kept_is_found() {
    crate::finds("keeps_failed", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("says", keeps_failed).owns::<Deployment>())
    });
}

/// Names its child, whose name the server makes up. The wrong form notes the name once.
async fn names(site: Arc<Site>, ctx: Ctx, is_right: bool) -> Result<Action> {
    let mut status = site.status.clone().unwrap_or_default();
    let live = kube::Api::<ConfigMap>::namespaced(ctx.client().clone(), "default");
    let label = format!("site={}", site.name_any());
    let mut found = live.list(&kube::api::ListParams::default().labels(&label)).await?.items;
    found.retain(|it| it.metadata.deletion_timestamp.is_none());
    found.sort_by_key(|it| it.metadata.creation_timestamp.clone());
    let child = if let Some(first) = found.first() {
        first.clone()
    } else {
        let mut made = map("", "");
        made.metadata.name = None;
        made.metadata.generate_name = Some("config-".into());
        made.metadata.labels = Some([("site".to_owned(), site.name_any())].into());
        ctx.create(made).await?
    };
    if is_right || status.child.is_none() {
        status.child = Some(child.name_any());
    }
    ctx.status(&site, status).await?;
    Ok(Action::await_change())
}

async fn names_what_is(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    names(site, ctx, true).await
}

async fn names_once(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    names(site, ctx, false).await
}

#[test]
fn a_reference_that_follows_passes() {
    crate::passes("names", |cluster| {
        life(cluster, || Controller::new("names", names_what_is).owns::<ConfigMap>())
    });
}

#[test]
fn a_reference_that_dangles_is_found() {
    crate::finds("names_once", &[Oracle::SameEnd], |cluster| {
        life(cluster, || Controller::new("names", names_once).owns::<ConfigMap>())
    });
}

/// Lists the pods in the status.
async fn lists(site: Arc<Site>, ctx: Ctx) -> Result<Action> {
    ctx.apply(deployment(&site)).await?;
    let mut status = site.status.clone().unwrap_or_default();
    let live = ctx.list::<Pod>()?.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    status.pods = live.map(|pod| pod.name_any()).collect();
    status.pods.sort();
    ctx.status(&site, status).await?;
    Ok(Action::await_change())
}

#[test]
fn a_list_of_pods_passes() {
    crate::passes("lists", |cluster| {
        life(cluster, || {
            let by_label = evenkeel_runtime::Trigger::map(|pod: &Pod| {
                let namespace = pod.namespace().unwrap_or_default();
                pod.labels()
                    .get("app")
                    .map(|app| evenkeel_runtime::Request::namespaced(namespace, app.as_str()))
            });
            Controller::new("lists", lists).owns::<Deployment>().watches(by_label)
        })
    });
}
