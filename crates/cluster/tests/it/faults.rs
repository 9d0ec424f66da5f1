//! Whatever breaks on the way, the end is the same.

use evenkeel_cluster::{Cluster, CrashPoint, Fault, Matcher};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use crate::mirror::{self, NAME, config, value};

/// No operator of these tests writes as often in one scenario.
const MOST_WRITES: usize = 20;

/// Creation, update and drift, each until nothing is pending; then what must hold in the end.
async fn scenario(cluster: &Cluster) -> kube::Result<()> {
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    cluster.patch::<ConfigMap>("a", json!({"data": {"key": "two"}})).await?;
    cluster.settled().await;
    cluster.delete::<Secret>("a").await?;
    cluster.settled().await;
    let secrets = cluster.list::<Secret>().await?;
    assert_eq!(secrets.iter().map(value).collect::<Vec<_>>(), [Some("two".to_owned())]);
    let map = cluster.get::<ConfigMap>("a").await?;
    assert_eq!(map.metadata.annotations.unwrap_or_default()["mirrored"], "yes");
    Ok(())
}

async fn cluster() -> Cluster {
    let cluster =
        Cluster::builder().controllers(false).seed(1).start().await.expect("a cluster in memory starts");
    cluster.run(mirror::controller);
    cluster
}

/// Crashes the operator at its first write, its second, and so on, until the scenario has fewer.
async fn crash_everywhere(point: impl Fn(usize) -> CrashPoint) {
    for number in 1..MOST_WRITES {
        let cluster = cluster().await;
        cluster.crash(NAME, point(number));
        if let Err(error) = scenario(&cluster).await {
            panic!("{:?}: {error}\n{}", point(number), cluster.timeline());
        }
        if cluster.crashes(NAME) == 0 {
            assert!(number > 3, "the scenario has at least three writes");
            return;
        }
    }
    panic!("the scenario has no end");
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_write_is_recovered_from() {
    crash_everywhere(CrashPoint::Before).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_answer_is_recovered_from() {
    crash_everywhere(CrashPoint::AnswerLost).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_answer_is_recovered_from() {
    crash_everywhere(CrashPoint::After).await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_recovered_from() {
    let faults =
        [Fault::Conflict, Fault::TooManyRequests, Fault::InternalError, Fault::Timeout, Fault::LostAnswer];
    for fault in faults {
        let cluster = cluster().await;
        cluster.fail(Matcher::any().by(NAME), fault, 3);
        cluster.fail(Matcher::writes().by(NAME).kind::<Secret>(), fault, 2);
        if let Err(error) = scenario(&cluster).await {
            panic!("{fault:?}: {error}\n{}", cluster.timeline());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_cut_misses_nothing() -> kube::Result<()> {
    let cluster = cluster().await;
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    assert_eq!(cluster.cut_watch(Matcher::any().by(NAME)), 2);
    cluster.patch::<ConfigMap>("a", json!({"data": {"key": "two"}})).await?;
    cluster.settled().await;
    assert_eq!(value(&cluster.get::<Secret>("a").await?).as_deref(), Some("two"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_comes_back_too_late_lists_again() -> kube::Result<()> {
    let cluster = cluster().await;
    cluster.apply(config("a", "one")).await?;
    cluster.apply(config("b", "one")).await?;
    cluster.settled().await;
    // Cut off, the operator misses a deletion that is no longer in the log when it comes back.
    cluster.cut_watch(Matcher::any().by(NAME));
    cluster.delete::<Secret>("a").await?;
    cluster.compact();
    cluster.settled().await;
    assert_eq!(value(&cluster.get::<Secret>("a").await?).as_deref(), Some("one"));
    Ok(())
}
