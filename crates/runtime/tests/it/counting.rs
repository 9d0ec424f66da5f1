//! What is counted, and under which names.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Matcher};
use evenkeel_runtime::{Action, Controller, Ctx, Error, ErrorExt, LeaderElection, Manager};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::{map, value};

/// Ends in the way that the map asks for.
async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action, Error> {
    match (value(&map), ctx.attempt()) {
        ("fail", 0) => Err(Error::message("once")),
        ("panic", 0) => panic!("no such disk"),
        ("hang", 0) => std::future::pending().await,
        ("give up", _) => Err(Error::message("a typo").terminal().into()),
        ("again", 0) => Ok(Action::requeue_with_backoff()),
        ("later", _) if ctx.causes().to_string() != "timer" => Ok(Action::requeue(Duration::from_millis(10))),
        _ => Ok(Action::await_change()),
    }
}

fn manager(cluster: &Cluster) -> Manager {
    let controller = Controller::new("counted", reconcile).timeout(Duration::from_secs(1));
    let election = LeaderElection::new(cluster.namespace(), "operator");
    Manager::new(cluster.client())
        .with_env(cluster.env().clone())
        .namespaces([cluster.namespace()])
        .leader_election(election)
        .controller(controller)
}

/// The value of a metric with these labels, in the order in which they are printed.
fn metric(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn every_end_of_a_reconcile_is_counted(cluster: Cluster) {
    for (at, value) in ["", "fail", "panic", "hang", "give up", "again", "later"].iter().enumerate() {
        cluster.apply(map(&format!("m{at}"), value)).await.unwrap();
    }
    let manager = manager(&cluster);
    let metrics = manager.metrics().clone();
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    while metric(&metrics.encode(), "leader_election_master_status{name=\"operator\"}") != Some(1.0) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.settled().await;
    cluster.apply(map("m0", "changed")).await.unwrap();
    cluster.settled().await;
    cluster.advance(Duration::from_millis(10)).await;
    let text = metrics.encode();
    let result =
        |result| format!("controller_runtime_reconcile_total{{controller=\"counted\",result=\"{result}\"}}");
    let by_controller = |name: &str| format!("{name}{{controller=\"counted\"}}");
    for (name, count) in [
        // Each map succeeds once, except the one that is not retried; then comes the change.
        (result("success"), 7.0),
        (result("error"), 4.0),
        (result("requeue"), 1.0),
        (result("requeue_after"), 1.0),
        (by_controller("controller_runtime_reconcile_errors_total"), 4.0),
        (by_controller("controller_runtime_reconcile_panics_total"), 1.0),
        (by_controller("controller_runtime_reconcile_timeouts_total"), 1.0),
        (by_controller("controller_runtime_terminal_reconcile_errors_total"), 1.0),
        (by_controller("controller_runtime_reconcile_time_seconds_count"), 13.0),
        (by_controller("evenkeel_event_to_reconcile_seconds_count"), 1.0),
        (by_controller("evenkeel_stale_read_waits_total"), 0.0),
        ("workqueue_adds_total{name=\"counted\",controller=\"counted\"}".into(), 13.0),
        // Three failures that are retried, one requeue with backoff, and one requeue with a delay.
        ("workqueue_retries_total{name=\"counted\",controller=\"counted\"}".into(), 5.0),
        ("workqueue_queue_duration_seconds_count{name=\"counted\",controller=\"counted\"}".into(), 13.0),
        ("workqueue_work_duration_seconds_count{name=\"counted\",controller=\"counted\"}".into(), 13.0),
        ("workqueue_unfinished_work_seconds{name=\"counted\",controller=\"counted\"}".into(), 0.0),
        ("workqueue_longest_running_processor_seconds{name=\"counted\",controller=\"counted\"}".into(), 0.0),
    ] {
        assert_eq!(metric(&text, &name), Some(count), "{name} in\n{text}");
    }
    for name in ["rest_client_requests_total{code=\"200\"", "rest_client_request_duration_seconds_count{"] {
        assert!(text.contains(name), "{name} in\n{text}");
    }
    running.abort();
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2, embedded = "a watch is cut")]
async fn caches_say_how_large_they_are_and_how_often_their_watch_was_opened_again(cluster: Cluster) {
    // More objects than the sample that the size is estimated from.
    for at in 0..40 {
        cluster.apply(map(&format!("m{at}"), "x".repeat(10_000))).await.unwrap();
    }
    let manager = manager(&cluster);
    let metrics = manager.metrics().clone();
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    cluster.settled().await;
    let restarts = "evenkeel_watch_restarts_total{source=\"ConfigMap in default\"}";
    assert_eq!(metric(&metrics.encode(), restarts), Some(0.0));
    let bytes = metric(&metrics.encode(), "evenkeel_cache_bytes{source=\"ConfigMap in default\"}").unwrap();
    assert!((400_000.0..480_000.0).contains(&bytes), "{bytes}");
    assert_eq!(cluster.cut_watch(Matcher::any().kind::<ConfigMap>()), 1);
    cluster.settled().await;
    assert_eq!(metric(&metrics.encode(), restarts), Some(1.0));
    running.abort();
}

/// While two of three reconciles run for seconds, the metrics show a controller that is stuck.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3, embedded = "seconds are counted exactly, in virtual time")]
async fn what_runs_and_what_waits_is_shown_as_it_is(cluster: Cluster) {
    let controller = Controller::new("busy", |map: Arc<ConfigMap>, _: Ctx| async move {
        tokio::time::sleep(Duration::from_secs(value(&map).parse().unwrap())).await;
        Ok::<_, Error>(Action::await_change())
    });
    let manager = Manager::new(cluster.client()).with_env(cluster.env().clone());
    let manager = manager.controller(controller.max_concurrent(2));
    let metrics = manager.metrics().clone();
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    cluster.settled().await;
    for (at, seconds) in [3, 10, 1].into_iter().enumerate() {
        cluster.apply(map(&format!("m{at}"), seconds)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let read = |name: &str| {
        let queue = metric(&metrics.encode(), &format!("{name}{{name=\"busy\",controller=\"busy\"}}"));
        queue.or_else(|| metric(&metrics.encode(), &format!("{name}{{controller=\"busy\"}}"))).unwrap()
    };
    let near = |name: &str, wanted: f64| assert!((read(name) - wanted).abs() < 0.1, "{name}: {}", read(name));
    // The first reconcile ended after three seconds, and the third began after it had waited for a worker.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(read("workqueue_depth"), 0.0);
    assert_eq!(read("controller_runtime_active_workers"), 2.0);
    assert_eq!(read("controller_runtime_max_concurrent_reconciles"), 2.0);
    near("workqueue_unfinished_work_seconds", 2.5 + 0.5);
    near("workqueue_longest_running_processor_seconds", 2.5);
    near("workqueue_queue_duration_seconds_sum", 1.0);
    near("workqueue_work_duration_seconds_sum", 3.0);
    near("controller_runtime_reconcile_time_seconds_sum", 3.0);
    near("evenkeel_event_to_reconcile_seconds_sum", 1.0);
    cluster.apply(map("m3", 1)).await.unwrap();
    cluster.apply(map("m4", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(read("workqueue_depth"), 2.0, "what is in work is not counted");
    cluster.settled().await;
    assert_eq!((read("workqueue_depth"), read("controller_runtime_active_workers")), (0.0, 0.0));
    running.abort();
}
