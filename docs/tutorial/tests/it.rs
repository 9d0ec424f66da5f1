//! The operator on a cluster of its own, in virtual time.

use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use evenkeel::prelude::*;
use evenkeel::testing;
use kube::Result;
use serde_json::json;
use site::{Site, SiteSpec, SiteStatus, controller};

fn home(html: &str) -> Site {
    Site::new("home", SiteSpec { html: html.into(), replicas: 2 })
}

/// Creates the CustomResourceDefinition, runs the operator, and creates a Site.
async fn started(cluster: &Cluster) -> Result<()> {
    cluster.apply(Site::crd()).await?;
    cluster.run(controller);
    cluster.apply(home("<h1>Hello</h1>")).await?;
    cluster.settled().await;
    Ok(())
}

#[evenkeel::test]
async fn a_site_is_served(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.assert_has::<ConfigMap>("home", json!({ "data": { "index.html": "<h1>Hello</h1>" } })).await;
    cluster.assert_has::<Deployment>("home", json!({ "status": { "readyReplicas": 2 } })).await;
    cluster.assert_has::<Site>("home", json!({ "status": { "ready": true } })).await;
    Ok(())
}

#[evenkeel::test]
async fn the_page_follows(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.apply(home("<h1>Bye</h1>")).await?;
    cluster.settled().await;
    cluster.assert_has::<ConfigMap>("home", json!({ "data": { "index.html": "<h1>Bye</h1>" } })).await;
    Ok(())
}

#[evenkeel::test]
async fn a_second_reconcile_writes_nothing(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.mark();
    cluster.restart("site");
    cluster.settled().await;
    cluster.assert_no_writes();
    Ok(())
}

#[evenkeel::test]
async fn drift_is_corrected(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.patch::<Deployment>("home", json!({ "spec": { "replicas": 0 } })).await?;
    cluster.delete::<ConfigMap>("home").await?;
    cluster.settled().await;
    cluster.assert_has::<Deployment>("home", json!({ "spec": { "replicas": 2 } })).await;
    cluster.assert_has::<ConfigMap>("home", json!({ "data": { "index.html": "<h1>Hello</h1>" } })).await;
    Ok(())
}

#[evenkeel::test]
async fn a_site_that_is_deleted_leaves_nothing(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.delete::<Site>("home").await?;
    cluster.settled().await;
    cluster.assert_none::<Deployment>().await;
    cluster.assert_none::<Pod>().await;
    Ok(())
}

/// Creates a Site, and returns its final status.
async fn made(cluster: Cluster) -> Option<SiteStatus> {
    let play = async {
        cluster.apply(Site::crd()).await?;
        cluster.apply(home("<h1>Hello</h1>")).await?;
        cluster.settled().await;
        cluster.get::<Site>("home").await
    };
    play.await.expect("the scenario's own requests succeed").status
}

#[test]
fn a_crash_at_any_write_changes_nothing() {
    testing::crash_everywhere("site", |cluster| cluster.run(controller), made);
}
