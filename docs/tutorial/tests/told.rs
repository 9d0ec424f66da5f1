//! The output of failed tests on the book's page about the test kit is real output.

use evenkeel::cluster::CrashPoint;
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::prelude::*;
use kube::Result;
use serde_json::json;
use site::{Site, SiteSpec, controller};

const PAGE: &str = include_str!("../../src/testing.md");

/// Asserts that the page contains these lines, with any revisions.
fn assert_on_the_page(lines: &str) {
    let lines = lines.trim_end();
    let there = without_revisions(PAGE).contains(&without_revisions(lines));
    assert!(there, "docs/src/testing.md should have:\n{lines}");
}

fn without_revisions(text: &str) -> String {
    let mut parts = text.split("revision ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + "revision " + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Creates a Site whose operator crashes after its second write.
async fn crashed(cluster: &Cluster) -> Result<()> {
    cluster.apply(Site::crd()).await?;
    cluster.run(controller);
    cluster.settled().await;
    cluster.crash("site", CrashPoint::After(2));
    cluster.apply(Site::new("home", SiteSpec { html: "<h1>Hello</h1>".into(), replicas: 2 })).await?;
    cluster.settled().await;
    Ok(())
}

#[evenkeel::test(controllers = false, seed = 0, embedded = "times and revisions are compared")]
async fn the_timeline_on_the_page_is_one(cluster: Cluster) -> Result<()> {
    crashed(&cluster).await?;
    let timeline = cluster.timeline();
    let begin =
        timeline.find("sites/home").and_then(|at| timeline[..at].rfind('\n')).expect("it was made") + 1;
    assert_on_the_page(&timeline[begin..]);
    Ok(())
}

#[evenkeel::test(seed = 0, embedded = "the name of the namespace is compared")]
async fn the_difference_on_the_page_is_one(cluster: Cluster) -> Result<()> {
    crashed(&cluster).await?;
    cluster.stop("site");
    cluster.patch::<Deployment>("home", json!({ "spec": { "replicas": 0 } })).await?;
    let failed =
        tokio::spawn(cluster.assert_has::<Deployment>("home", json!({ "spec": { "replicas": 2 } }))).await;
    let panic = failed.expect_err("it has another number").into_panic();
    let message = panic.downcast_ref::<String>().expect("it was formatted");
    let (_, shown) =
        message.split_once(".rs:").and_then(|(_, rest)| rest.split_once(": ")).expect("it says where");
    assert_on_the_page(shown);
    Ok(())
}
