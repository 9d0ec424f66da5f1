//! Tests of the operator, each on a cluster of its own in virtual time.

use std::sync::Arc;

use evenkeel::cluster::{Fault, Matcher};
use evenkeel::k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use evenkeel::kube::Result;
use evenkeel::kube::api::{Patch, PatchParams};
use evenkeel::prelude::*;
use evenkeel::testing::Scenario;
use pod_sidecar::companion::{IMAGE, IS_COMPANION, WANTED, companion_for, image_of, is_wanted};
use pod_sidecar::{NAME, SAMPLE, add_to, operator};
use serde_json::json;

/// A pod that gets a companion.
fn web(companion_image: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".into());
    pod.metadata.labels = Some([(WANTED.to_owned(), "true".to_owned())].into());
    pod.metadata.annotations = Some([(IMAGE.to_owned(), companion_image.to_owned())].into());
    let container = Container { name: "web".into(), image: Some("nginx:1.29".into()), ..Default::default() };
    pod.spec = Some(PodSpec { containers: vec![container], ..Default::default() });
    pod
}

/// Runs the operator, applies `web`, and waits until it has its companion.
async fn started(cluster: &Cluster) -> Result<()> {
    cluster.run_manager(NAME, add_to);
    cluster.apply(web("busybox:1.36")).await?;
    cluster.settled().await;
    Ok(())
}

async fn pods(cluster: &Cluster) -> Result<Vec<String>> {
    Ok(cluster.list::<Pod>().await?.iter().map(ResourceExt::name_any).collect())
}

/// The check that every version of this operator must pass.
async fn exactly_one_companion(cluster: &Cluster) -> Result<Result<(), String>> {
    let pods = cluster.list::<Pod>().await?;
    let companions = pods.iter().filter(|pod| pod.labels().contains_key(IS_COMPANION)).count();
    Ok(if companions == 1 { Ok(()) } else { Err(format!("{companions} companions of one pod")) })
}

#[evenkeel::test]
async fn a_labelled_pod_gets_one_companion(cluster: Cluster) -> Result<()> {
    cluster.run_manager(NAME, add_to);
    cluster.apply_yaml(SAMPLE).await.unwrap();
    let mut plain = web("x");
    plain.metadata.name = Some("plain".into());
    plain.metadata.labels = None;
    cluster.apply(plain).await?;
    cluster.settled().await;
    assert_eq!(pods(&cluster).await?, ["plain", "web", "web-companion"]);
    exactly_one_companion(&cluster).await?.unwrap();
    let companion = cluster.get::<Pod>("web-companion").await?;
    assert_eq!(image_of(&companion), Some("busybox:1.37"));
    assert_eq!(companion.status.unwrap().phase.as_deref(), Some("Running"));
    Ok(())
}

#[evenkeel::test]
async fn an_update_follows(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.apply(web("busybox:1.37")).await?;
    cluster.settled().await;
    assert_eq!(image_of(&cluster.get::<Pod>("web-companion").await?), Some("busybox:1.37"));

    cluster.patch::<Pod>("web", json!({"metadata": {"labels": {WANTED: "false"}}})).await?;
    cluster.settled().await;
    assert_eq!(pods(&cluster).await?, ["web"], "who asks no longer has none");
    Ok(())
}

#[evenkeel::test]
async fn running_it_twice_creates_no_second(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.mark();
    cluster.restart(NAME);
    cluster.settled().await;
    exactly_one_companion(&cluster).await?.unwrap();
    cluster.assert_no_writes();
    Ok(())
}

/// The mistake that the README warns of: it creates a companion in every reconcile.
async fn naive(pod: Arc<Pod>, ctx: Ctx) -> Result<Action, evenkeel::Error> {
    if is_wanted(&pod) {
        let mut companion = companion_for(&pod);
        companion.metadata.name = None;
        companion.metadata.generate_name = Some(format!("{}-companion-", pod.name_any()));
        ctx.create(companion).await?;
    }
    Ok(Action::await_change())
}

#[evenkeel::test]
async fn the_version_that_is_not_idempotent_is_caught(cluster: Cluster) -> Result<()> {
    cluster.run(|| Controller::new("naive", naive));
    cluster.apply(web("busybox:1.36")).await?;
    cluster.settled().await;
    let caught = exactly_one_companion(&cluster).await?.unwrap_err();
    assert!(caught.ends_with("companions of one pod"), "{caught}");
    Ok(())
}

#[evenkeel::test]
async fn drift_is_corrected(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    let stolen = json!({"spec": {"containers": [{"name": "companion", "image": "evil:1"}]}});
    let (params, stolen) = (PatchParams::default(), Patch::Strategic(stolen));
    cluster.api::<Pod>().patch("web-companion", &params, &stolen).await?;
    cluster.settled().await;
    assert_eq!(image_of(&cluster.get::<Pod>("web-companion").await?), Some("busybox:1.36"));

    let old = cluster.get::<Pod>("web-companion").await?.uid();
    cluster.delete::<Pod>("web-companion").await?;
    cluster.settled().await;
    assert_ne!(cluster.get::<Pod>("web-companion").await?.uid(), old, "it was made anew");
    Ok(())
}

#[evenkeel::test]
async fn a_pod_takes_its_companion_along(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.delete::<Pod>("web").await?;
    cluster.settled().await;
    assert_eq!(pods(&cluster).await?, Vec::<String>::new());

    // Another pod of the same name gets a companion of its own.
    cluster.apply(web("busybox:1.37")).await?;
    cluster.settled().await;
    let owner = cluster.get::<Pod>("web-companion").await?.metadata.owner_references.unwrap()[0].uid.clone();
    assert_eq!(Some(owner), cluster.get::<Pod>("web").await?.uid());
    Ok(())
}

#[evenkeel::test(embedded = "nobody else may write the status")]
async fn a_pod_that_has_ended_needs_no_companion(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.patch_status::<Pod>("web", json!({"status": {"phase": "Succeeded"}})).await?;
    cluster.settled().await;
    assert_eq!(pods(&cluster).await?, ["web"]);
    Ok(())
}

#[evenkeel::test]
async fn a_taken_name_is_waited_for(cluster: Cluster) -> Result<()> {
    let mut foreign = web("x");
    foreign.metadata.name = Some("web-companion".into());
    foreign.metadata.labels = None;
    cluster.apply(foreign).await?;
    cluster.run_manager(NAME, add_to);
    cluster.apply(web("busybox:1.36")).await?;
    cluster.idle().await;
    assert_eq!(image_of(&cluster.get::<Pod>("web-companion").await?), Some("nginx:1.29"), "it is left alone");
    cluster.delete::<Pod>("web-companion").await?;
    cluster.settled().await;
    assert_eq!(image_of(&cluster.get::<Pod>("web-companion").await?), Some("busybox:1.36"));
    Ok(())
}

#[evenkeel::test]
async fn failures_are_retried_and_lost_answers_make_no_second(cluster: Cluster) -> Result<()> {
    cluster.fail(Matcher::writes().by(NAME).kind::<Pod>(), Fault::InternalError, 3);
    cluster.fail(Matcher::writes().by(NAME).kind::<Pod>(), Fault::LostAnswer, 1);
    started(&cluster).await?;
    exactly_one_companion(&cluster).await?.unwrap();
    Ok(())
}

/// Creates and changes a pod, removes its label, and returns what it observed on the way.
async fn create_change_delete(cluster: Cluster) -> Vec<String> {
    let play = async {
        cluster.apply(web("busybox:1.36")).await?;
        cluster.settled().await;
        cluster.apply(web("busybox:1.37")).await?;
        cluster.settled().await;
        let mut end = pods(&cluster).await?;
        end.push(format!("{:?}", image_of(&cluster.get::<Pod>("web-companion").await?)));
        cluster.patch::<Pod>("web", json!({"metadata": {"labels": {WANTED: null}}})).await?;
        cluster.settled().await;
        end.extend(pods(&cluster).await?);
        Ok::<_, evenkeel::kube::Error>(end)
    };
    play.await.expect("the scenario's own requests succeed")
}

#[test]
fn it_survives_crashes_and_needs_each_of_its_rules() {
    let manifests = || operator().manifests("operators").expect("verbs.txt is well-formed");
    Scenario::new(manifests, |cluster| cluster.run_manager(NAME, add_to), create_change_delete)
        .verbs_file("verbs.txt")
        .crash_runs_min(9)
        .unused_rules([
            // For servers that do not stream lists.
            "pods: list",
        ])
        .check();
}

#[evenkeel::explore]
async fn a_life(cluster: Cluster) -> Result<()> {
    started(&cluster).await?;
    cluster.patch::<Pod>("web", json!({"metadata": {"annotations": {IMAGE: "busybox:1.37"}}})).await?;
    cluster.settled().await;
    cluster.delete::<Pod>("web").await?;
    cluster.settled().await;
    Ok(())
}
