//! How often, in which order and with which objects the reconcile function is called.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::{Action, Controller, Ctx, Env, Error, ErrorExt, Queue, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Notes, map, value};

/// Notes the values of maps. The reconcile of the value 0 waits until it is notified.
fn waiting(notes: &Notes, go: &Arc<Notify>) -> Controller<ConfigMap> {
    let reconcile = |map: Arc<ConfigMap>, ctx: Ctx<(Notes, Arc<Notify>)>| async move {
        let (notes, go) = ctx.state();
        notes.push(value(&map));
        if value(&map) == "0" {
            go.notified().await;
        }
        Ok::<_, Error>(Action::await_change())
    };
    Controller::new("waiting", reconcile).state((notes.clone(), go.clone()))
}

/// Waits until there are `count` notes.
async fn noted(notes: &Notes, count: usize) {
    while notes.0.lock().len() < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn a_thousand_updates_during_a_slow_reconcile_lead_to_one_more(cluster: Cluster) {
    let (notes, go) = (Notes::default(), Arc::new(Notify::new()));
    cluster.apply(map("one", 0)).await.unwrap();
    cluster.run({
        let (notes, go) = (notes.clone(), go.clone());
        move || waiting(&notes, &go)
    });
    noted(&notes, 1).await;
    for at in 1..=1000 {
        cluster.apply(map("one", at)).await.unwrap();
    }
    cluster.eventually::<ConfigMap>("one", |map| value(map) == "1000").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    go.notify_one();
    cluster.settled().await;
    assert_eq!(notes.take(), ["0", "1000"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2, embedded = "64 workers are to have work at the same moment of virtual time")]
async fn a_key_is_never_reconciled_twice_at_once(cluster: Cluster) {
    let running = Arc::new(Mutex::new(BTreeSet::new()));
    let most = Arc::new(AtomicUsize::new(0));
    // Noted instead of asserted: a panic in a reconcile is caught and retried.
    let twice = Notes::default();
    let factory = {
        let (running, most, twice) = (running.clone(), most.clone(), twice.clone());
        move || {
            let (running, most, twice) = (running.clone(), most.clone(), twice.clone());
            let reconcile = move |_: Arc<ConfigMap>, ctx: Ctx| {
                let (running, most, twice) = (running.clone(), most.clone(), twice.clone());
                async move {
                    if !running.lock().insert(ctx.request().clone()) {
                        twice.push(ctx.request().to_string());
                    }
                    most.fetch_max(running.lock().len(), Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(ctx.env().random_below(50))).await;
                    running.lock().remove(ctx.request());
                    match ctx.env().random_below(4) {
                        0 => Err(Error::message("by chance")),
                        1 => Ok(Action::requeue(Duration::from_millis(3))),
                        2 if ctx.attempt() == 0 => Ok(Action::requeue_with_backoff()),
                        _ => Ok(Action::await_change()),
                    }
                }
            };
            Controller::new("busy", reconcile).max_concurrent(64)
        }
    };
    cluster.run(factory);
    for round in 0..20 {
        for at in 0..100 {
            cluster.apply(map(&format!("m{at}"), round)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.settled().await;
    assert_eq!(twice.take(), [""; 0], "reconciled twice at once");
    assert_eq!(most.load(Ordering::SeqCst), 64, "all workers had work at once");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn an_object_that_is_deleted_while_queued_is_not_reconciled(cluster: Cluster) {
    let (notes, go) = (Notes::default(), Arc::new(Notify::new()));
    cluster.run({
        let (notes, go) = (notes.clone(), go.clone());
        move || waiting(&notes, &go)
    });
    cluster.settled().await;
    cluster.apply(map("one", 0)).await.unwrap();
    noted(&notes, 1).await;
    cluster.apply(map("two", 2)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.delete::<ConfigMap>("two").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    go.notify_one();
    cluster.settled().await;
    assert_eq!(notes.take(), ["0"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn an_object_that_is_recreated_is_reconciled_with_its_new_uid(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("uids", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(map.uid().unwrap_or_default());
                Ok::<_, Error>(Action::await_change())
            })
            .state(notes.clone())
        }
    });
    let first = cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    cluster.delete::<ConfigMap>("one").await.unwrap();
    let second = cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), [first.uid().unwrap(), second.uid().unwrap()]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5, embedded = "10,000 timers of a millisecond are exact in virtual time only")]
async fn one_that_always_fails_does_not_starve_ten_thousand_that_succeed(cluster: Cluster) {
    let (succeeded, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let start = tokio::time::Instant::now();
    cluster.run({
        let (succeeded, failed) = (succeeded.clone(), failed.clone());
        move || {
            let (succeeded, failed) = (succeeded.clone(), failed.clone());
            let keys = (0..=10_000).map(|at| Request::namespaced("default", at.to_string()));
            Controller::without_primary("mixed", move |request: Request, _: Ctx| {
                let (succeeded, failed) = (succeeded.clone(), failed.clone());
                async move {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if &*request.name == "0" {
                        failed.fetch_add(1, Ordering::SeqCst);
                        return Err(Error::message("as always"));
                    }
                    succeeded.fetch_add(1, Ordering::SeqCst);
                    Ok(Action::await_change())
                }
            })
            .stream("keys", futures::stream::iter(keys))
        }
    });
    while succeeded.load(Ordering::SeqCst) < 10_000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(
            start.elapsed() < Duration::from_secs(11),
            "10,000 keys of 1 ms take their time and little more"
        );
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let failed = failed.load(Ordering::SeqCst);
    assert!((8..20).contains(&failed), "5 ms doubled again and again: {failed} attempts");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6)]
async fn a_terminal_error_waits_for_the_object_to_change(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("strict", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(value(&map));
                match value(&map) {
                    "bad" => Err(Error::message("no such value").terminal()),
                    _ => Ok(Action::await_change()),
                }
            })
            .state(notes.clone())
        }
    });
    cluster.apply(map("one", "bad")).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["bad"], "it is not retried");
    cluster.apply(map("one", "good")).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["good"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7)]
async fn a_timeout_is_a_failure_that_is_retried(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("hangs", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(ctx.causes().to_string());
                if ctx.attempt() == 0 {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Error>(Action::await_change())
            })
            .timeout(Duration::from_secs(5))
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    cluster.apply(map("one", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    cluster.settled().await;
    assert_eq!(notes.take(), ["ConfigMap default/one created", "retry"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 8)]
async fn the_lower_form_gets_the_keys_of_deleted_objects(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::<ConfigMap, _>::requests("lower", |request: Request, ctx: Ctx<Notes>| async move {
                let there = ctx.get_at::<ConfigMap>(&request)?.is_some();
                ctx.state().push(format!("{request} {there}"));
                Ok::<_, Error>(Action::await_change())
            })
            .state(notes.clone())
        }
    });
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    cluster.delete::<ConfigMap>("one").await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["default/one true", "default/one false"]);
}

/// Notes the causes of each reconcile.
fn resynced() -> Controller<ConfigMap, Notes> {
    Controller::new("resync", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
        ctx.state().push(ctx.causes().to_string());
        Ok::<_, Error>(Action::await_change())
    })
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 9, embedded = "eleven minutes pass")]
async fn caches_are_replayed_after_the_sync_period(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            resynced()
                .filter(evenkeel_runtime::Predicate::generation_changed())
                .sync_period(Some(Duration::from_secs(600)))
                .state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["ConfigMap default/one listed"]);
    cluster.advance(Duration::from_secs(539)).await;
    cluster.settled().await;
    assert!(notes.take().is_empty(), "not before nine tenths of the period");
    cluster.advance(Duration::from_secs(122)).await;
    cluster.settled().await;
    assert_eq!(notes.take(), ["ConfigMap default/one resynced"], "a predicate does not swallow it");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 9, embedded = "hours pass")]
async fn caches_are_replayed_after_ten_hours_unless_said_otherwise(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || resynced().state(notes.clone())
    });
    cluster.settled().await;
    notes.take();
    let hour = Duration::from_secs(60 * 60);
    cluster.advance(hour.mul_f64(8.99)).await;
    cluster.settled().await;
    assert!(notes.take().is_empty(), "not before nine tenths of ten hours");
    cluster.advance(hour.mul_f64(2.02)).await;
    cluster.settled().await;
    assert_eq!(notes.take(), ["ConfigMap default/one resynced"]);
}

/// Resyncs of several controllers or processes do not happen at once: each waits for another random time.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 10, embedded = "days pass")]
async fn each_replay_comes_a_tenth_sooner_or_later(cluster: Cluster) {
    let times = Arc::new(Mutex::new(Vec::new()));
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.run({
        let times = times.clone();
        move || {
            let times = times.clone();
            Controller::new("resync", move |_: Arc<ConfigMap>, _: Ctx| {
                times.lock().push(tokio::time::Instant::now());
                std::future::ready(Ok::<_, Error>(Action::await_change()))
            })
        }
    });
    cluster.settled().await;
    cluster.advance(Duration::from_secs(20 * 11 * 60 * 60)).await;
    cluster.settled().await;
    let times = times.lock();
    let hours: Vec<f64> =
        times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() / 3600.0).take(20).collect();
    assert!(hours.len() == 20 && hours.iter().all(|hours| (9.0..=11.0).contains(hours)), "{hours:?}");
    let between = |from: f64, to: f64| hours.iter().filter(|hours| (from..to).contains(*hours)).count();
    assert!(between(9.0, 9.5) > 0 && between(10.5, 11.0) > 0, "spread over the whole of it: {hours:?}");
}

/// The public API of the queue, as of client-go's: add, get, done, backoff, delays, the number of failures, shutdowns.
#[tokio::test(start_paused = true)]
async fn a_loop_of_ones_own_needs_nothing_but_the_queue() {
    let queue: Queue = Queue::new("own", &Env::seeded(1));
    let notes = Notes::default();
    let (own, noted) = (queue.clone(), notes.clone());
    let worker = tokio::spawn(async move {
        while let Some(item) = own.get().await {
            let failures = own.num_requeues(&item.key);
            noted.push(format!("{} {failures}", item.key));
            match &*item.key.name {
                "fails" if failures < 2 => own.add_rate_limited(item.key.clone()),
                _ => own.forget(&item.key),
            }
            own.done(&item.key);
        }
    });
    for name in ["fails", "succeeds", "succeeds"] {
        queue.add(Request::cluster(name));
    }
    queue.add_after(Request::cluster("later"), Duration::from_secs(60));
    assert_eq!(queue.len(), 2, "each once, and none before its time");
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(notes.take(), ["fails 0", "succeeds 0", "fails 1", "fails 2"]);
    assert_eq!(queue.num_requeues(&Request::cluster("fails")), 0, "forgotten");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(notes.take(), ["later 0"]);
    queue.add(Request::cluster("last"));
    queue.shut_down_with_drain().await;
    worker.await.unwrap();
    assert_eq!(notes.take(), ["last 0"]);

    let queue: Queue = Queue::new("own", &Env::seeded(1));
    queue.add(Request::cluster("dropped"));
    queue.shut_down();
    assert!(queue.get().await.is_none() && queue.is_empty());
}
