//! Whatever breaks on the way, the end is the same.

use std::time::Duration;

use evenkeel_cluster::{Cluster, CrashPoint, Fault, Matcher, testing};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{WatchEvent, WatchParams};
use serde_json::json;
use tokio::time::Instant;

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

/// What a client sees of a fault on a creation: status or error, the time that it took, and whether it was carried out.
async fn seen(fault: Fault) -> (Option<u16>, Duration, bool) {
    let cluster = cluster().await;
    cluster.stop(NAME);
    cluster.fail(Matcher::writes().by("client"), fault, 1);
    let start = Instant::now();
    let error = cluster.apply(config("a", "one")).await.expect_err("it was struck");
    let status = match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    };
    let took = start.elapsed();
    let written = cluster.get_opt::<ConfigMap>("a").await.expect("a fault strikes once").is_some();
    (status, took, written)
}

#[tokio::test(start_paused = true)]
async fn each_fault_is_what_it_says() {
    assert_eq!(seen(Fault::Conflict).await, (Some(409), Duration::ZERO, false));
    assert_eq!(seen(Fault::TooManyRequests).await, (Some(429), Duration::ZERO, false));
    assert_eq!(seen(Fault::InternalError).await, (Some(500), Duration::ZERO, false));
    assert_eq!(seen(Fault::Timeout).await, (None, Fault::TIMEOUT, false));
    assert_eq!(seen(Fault::LostAnswer).await, (None, Duration::ZERO, true));
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_what_is_compacted_is_told() -> kube::Result<()> {
    let cluster = cluster().await;
    let old = cluster.apply(config("a", "one")).await?.resource_version().unwrap_or_default();
    cluster.patch::<ConfigMap>("a", json!({"data": {"key": "two"}})).await?;
    let maps = cluster.api::<ConfigMap>();
    let mut before = Box::pin(maps.watch(&WatchParams::default(), &old).await?);
    assert!(matches!(before.try_next().await?, Some(WatchEvent::Modified(_))));
    cluster.compact();
    let mut after = Box::pin(maps.watch(&WatchParams::default(), &old).await?);
    let Some(WatchEvent::Error(told)) = after.try_next().await? else { panic!("it is not told") };
    assert_eq!((told.code, told.reason.as_str()), (410, "Expired"));
    Ok(())
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

/// Set where the test below plays in a process of its own.
const SHORTER: &str = "EVENKEEL_TEST_SHORTER";

/// In real time no run is like another, and one that has fewer writes than the first did not come to its crash: found
/// with an operator that polls, whose writes without a change were not as many each time.
#[test]
fn a_run_in_real_time_may_end_before_its_crash() {
    let play = |real_time: &str| {
        let mut child = std::process::Command::new(std::env::current_exe().expect("a test knows its binary"));
        child.args(["--exact", "faults::every_run_is_shorter_than_the_first", "--nocapture"]);
        child.env(SHORTER, "1").env("EVENKEEL_REAL_TIME", real_time).env_remove("EVENKEEL_KUBECONFIG");
        let output = child.output().expect("the test binary runs");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (passed, told) = play("1");
    assert!(passed, "{told}");
    let (passed, told) = play("0");
    assert!(!passed && told.contains("mirror was to crash once"), "{told}");
}

/// What the other process does. Without the variable there is nothing to do.
#[test]
fn every_run_is_shorter_than_the_first() {
    if std::env::var_os(SHORTER).is_none() {
        return;
    }
    let first = std::sync::atomic::AtomicBool::new(true);
    testing::crash_everywhere(
        NAME,
        |cluster| cluster.run(mirror::controller),
        |cluster| {
            let first = first.swap(false, std::sync::atomic::Ordering::SeqCst);
            async move {
                cluster.apply(config("a", "one")).await.expect("it is stored");
                cluster.settled().await;
                if first {
                    cluster.apply(config("a", "two")).await.expect("it is stored");
                    cluster.settled().await;
                }
                cluster.get_opt::<Secret>("a").await.expect("it is answered").is_some()
            }
        },
    );
}
