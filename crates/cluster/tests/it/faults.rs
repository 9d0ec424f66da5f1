//! Faults and crashes do not change how a scenario ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_cluster::{Cluster, CrashPoint, Fault, Matcher, testing};
use evenkeel_runtime::{Action, Controller, Ctx, Source};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Namespace, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::{Patch, WatchEvent, WatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::mirror::{self, NAME, config, value};

/// More writes than any operator of these tests makes in one scenario.
const MOST_WRITES: usize = 20;

/// Creates, updates and deletes objects, waits after each until the cluster has settled, and checks the result.
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

/// Crashes the operator at its first write, its second, and so on, until the scenario has no more writes.
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

/// A crashed operator sends nothing any more: the second write comes from the restarted operator.
#[tokio::test(start_paused = true)]
async fn after_its_last_answer_an_operator_asks_for_nothing() -> kube::Result<()> {
    let cluster = cluster().await;
    cluster.settled().await;
    cluster.crash(NAME, CrashPoint::After(1));
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    let timeline = cluster.timeline();
    let place = |what: &str| timeline.find(what).unwrap_or_else(|| panic!("no {what:?} in\n{timeline}"));
    let crashed = place("mirror crashed and starts again");
    assert!(place("apply secrets/a → 201") < crashed, "{timeline}");
    assert!(place("patch configmaps/a → 200") > crashed, "{timeline}");
    Ok(())
}

/// How many responses to its first write an operator gets that crashes there, before and after the restart.
async fn answers_of_lives(point: CrashPoint) -> usize {
    let cluster = cluster().await;
    cluster.stop(NAME);
    let answers = Arc::new(AtomicUsize::new(0));
    let counted = answers.clone();
    cluster.run(move || {
        let counted = counted.clone();
        Controller::new_with(
            "counts",
            Source::new().labels("mirror"),
            move |map: Arc<ConfigMap>, ctx: Ctx| {
                let counted = counted.clone();
                async move {
                    let patch = json!({"metadata": {"annotations": {"seen": "yes"}}});
                    ctx.patch(&map, &Patch::Merge(patch)).await?;
                    counted.fetch_add(1, Ordering::SeqCst);
                    std::future::pending::<()>().await;
                    Ok::<_, evenkeel_runtime::Error>(Action::await_change())
                }
            },
        )
    });
    cluster.settled().await;
    cluster.crash("counts", point);
    cluster.apply(config("a", "one")).await.expect("it is stored");
    let _ = cluster.try_settled().await;
    assert_eq!(cluster.crashes("counts"), 1);
    answers.load(Ordering::SeqCst)
}

/// The restarted operator always gets a response. Before the crash it gets one only if it crashes after it.
#[tokio::test(start_paused = true)]
async fn each_crash_point_is_where_it_says() {
    assert_eq!(answers_of_lives(CrashPoint::Before(1)).await, 1);
    assert_eq!(answers_of_lives(CrashPoint::AnswerLost(1)).await, 1);
    assert_eq!(answers_of_lives(CrashPoint::After(1)).await, 2);
}

/// The effect of a fault on a creation: the status or error, the time that it took, and whether the object exists.
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

/// The status of each of several creations in a row, 0 for no response.
async fn answers(cluster: &Cluster, number: usize) -> Vec<u16> {
    let mut seen = Vec::new();
    for at in 0..number {
        seen.push(match cluster.apply(config(&format!("map-{at}"), "one")).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(_) => 0,
        });
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn faults_strike_in_order_and_as_often_as_asked() {
    let cluster = cluster().await;
    cluster.stop(NAME);
    cluster.fail(Matcher::writes(), Fault::InternalError, 0);
    cluster.fail(Matcher::writes(), Fault::Conflict, 2);
    cluster.fail(Matcher::writes(), Fault::TooManyRequests, 1);
    assert_eq!(answers(&cluster, 4).await, [409, 409, 429, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_names_a_second_to_wait() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = cluster().await;
    cluster.fail(Matcher::any().by("client"), Fault::TooManyRequests, 1);
    let request = http::Request::get("/api/v1/namespaces").body(Vec::new())?;
    let answer = cluster.client().send(request.map(kube::client::Body::from)).await?;
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (429, &"1".parse()?));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fault_strikes_whom_and_what_it_is_for() -> kube::Result<()> {
    let cluster = cluster().await;
    cluster.stop(NAME);
    cluster.fail(Matcher::any().method(http::Method::DELETE), Fault::Conflict, 1);
    cluster.fail(Matcher::any().by("somebody"), Fault::Conflict, 1);
    cluster.fail(Matcher::any().path("/configmaps/b"), Fault::Conflict, 1);
    cluster.fail(Matcher::any().kind::<Secret>(), Fault::Conflict, 1);
    cluster.apply(config("a", "one")).await?;
    cluster.get::<ConfigMap>("a").await?;
    cluster.delete::<ConfigMap>("a").await.expect_err("it is a DELETE");
    cluster.apply(config("b", "one")).await.expect_err("it is this object");
    cluster.list::<Secret>().await.expect_err("it is this kind");
    Ok(())
}

/// Paths of namespaced objects contain `/namespaces`, and `endpointslices` begins like `endpoints`.
#[tokio::test(start_paused = true)]
async fn a_kind_is_not_what_its_path_looks_like() -> kube::Result<()> {
    let cluster = cluster().await;
    cluster.fail(Matcher::any().kind::<Namespace>(), Fault::Conflict, 1);
    cluster.fail(Matcher::any().kind::<Endpoints>(), Fault::Conflict, 1);
    cluster.apply(config("a", "one")).await?;
    cluster.list::<EndpointSlice>().await?;
    cluster.list::<Endpoints>().await.expect_err("it is this kind");
    cluster.get::<Namespace>("default").await.expect_err("it is this kind");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_counts() {
    let cluster = cluster().await;
    cluster.stop(NAME);
    cluster.mark();
    cluster.fail(Matcher::writes(), Fault::LostAnswer, 1);
    cluster.apply(config("a", "one")).await.expect_err("it was struck");
    assert_eq!(cluster.writes().len(), 1);
}

/// How many watches this client has opened.
fn watches(cluster: &Cluster, by: &str) -> usize {
    cluster.requests().iter().filter(|request| &*request.by == by && request.verb == "watch").count()
}

#[tokio::test(start_paused = true)]
async fn only_the_watches_that_match_are_cut() -> kube::Result<()> {
    let cluster = cluster().await;
    cluster.run_manager("second", |manager| manager.controller(mirror::controller()));
    cluster.settled().await;
    let before = (watches(&cluster, NAME), watches(&cluster, "second"));
    assert_eq!(cluster.cut_watch(Matcher::any().by(NAME).path("/secrets")), 1);
    cluster.settled().await;
    let after = (watches(&cluster, NAME), watches(&cluster, "second"));
    assert_eq!(after, (before.0 + 1, before.1), "who was cut off has come back, and nobody else");
    Ok(())
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
    // While its watch is closed, the operator misses a deletion, which the store has compacted when it reconnects.
    cluster.cut_watch(Matcher::any().by(NAME));
    cluster.delete::<Secret>("a").await?;
    cluster.compact();
    cluster.settled().await;
    assert_eq!(value(&cluster.get::<Secret>("a").await?).as_deref(), Some("one"));
    Ok(())
}

/// The environment variable that is set in the process of the test below.
const SHORTER: &str = "EVENKEEL_TEST_SHORTER";

/// In real time the number of writes varies, and a run with fewer writes than the first may miss its crash point. This
/// was found with an operator that polls.
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

/// The part of the other process. Does nothing without the environment variable.
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
