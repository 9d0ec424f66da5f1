//! Managers: runnables, fatal errors, children, write limits, triggers and metrics.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::owner::{set_controller_reference, set_owner_reference};
use evenkeel_runtime::{Action, Change, Controller, Ctx, Error, Manager, Request, Source, Trigger};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt;

use crate::{Notes, map, value};

/// A cluster in this process, even if other tests run on a real one: for tests that make it fail or serve it.
pub(crate) async fn embedded(seed: u64) -> Cluster {
    Cluster::builder().seed(seed).controllers(false).start().await.unwrap()
}

/// A manager for the namespace of a test.
pub(crate) fn manager(cluster: &Cluster) -> Manager {
    Manager::new(cluster.client()).with_env(cluster.env().clone()).namespaces([cluster.namespace()])
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn the_first_fatal_error_ends_the_manager_and_names_its_part(cluster: Cluster) {
    let notes = Notes::default();
    let told = notes.clone();
    let manager = manager(&cluster)
        .runnable("good", |stop| async move {
            stop.cancelled().await;
            told.push("good stopped");
            Ok::<_, Error>(())
        })
        .runnable("bad", |_| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(Error::message("no disk"))
        });
    let error = manager.run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.to_string(), "run bad: no disk");
    assert_eq!(notes.take(), ["good stopped"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn children_that_are_no_longer_wanted_are_pruned(cluster: Cluster) {
    cluster.run(|| {
        Controller::new("fan-out", |map: Arc<ConfigMap>, ctx: Ctx| async move {
            let names: Vec<&str> = value(&map).split(',').collect();
            for name in &names {
                let mut secret = Secret::default();
                secret.metadata.name = Some((*name).to_owned());
                if name.starts_with("kept") {
                    secret.labels_mut().insert("keep".into(), "yes".into());
                }
                ctx.apply(secret).await?;
            }
            ctx.prune::<Secret>(&names, |secret| !secret.labels().contains_key("keep")).await?;
            Ok::<_, Error>(Action::await_change())
        })
        .owns::<Secret>()
    });
    let mut foreign = Secret::default();
    foreign.metadata.name = Some("foreign".into());
    cluster.apply(foreign).await.unwrap();
    let parent = cluster.apply(map("one", "a,b,kept")).await.unwrap();
    // An owner that is not the controller does not prune.
    let mut shared = Secret::default();
    shared.metadata.name = Some("shared".into());
    set_owner_reference(&parent, &mut shared).unwrap();
    cluster.apply(shared).await.unwrap();
    cluster.settled().await;
    cluster.apply(map("one", "b,c")).await.unwrap();
    cluster.settled().await;
    let names: Vec<String> =
        cluster.list::<Secret>().await.unwrap().iter().map(|secret| secret.name_any()).collect();
    assert_eq!(names, ["b", "c", "foreign", "kept", "shared"]);
}

/// A child that is being deleted and waits for a finalizer is not deleted again.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 9)]
async fn a_child_that_goes_already_is_not_pruned_again(cluster: Cluster) {
    let notes = Notes::default();
    let parent = cluster.apply(map("one", 1)).await.unwrap();
    let mut child = Secret::default();
    child.metadata.name = Some("child".into());
    child.metadata.finalizers = Some(vec!["example.com/slow".into()]);
    set_controller_reference(&parent, &mut child).unwrap();
    cluster.apply(child).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("pruner", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                let uid = map.uid().unwrap_or_default();
                let by_index = ctx.cache::<Secret>()?.owned_by(&uid)?.len();
                let pruned = ctx.prune::<Secret>(&[], |_| true).await?;
                ctx.state().push(format!("{by_index} found, {pruned} pruned"));
                Ok::<_, Error>(Action::await_change())
            })
            .owns::<Secret>()
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["1 found, 1 pruned", "1 found, 0 pruned"]);
    cluster.stop("pruner");
    let none = serde_json::json!({ "metadata": { "finalizers": null } });
    cluster.patch::<Secret>("child", none).await.unwrap();
}

/// Children are found in a cache without the index by owner, by a scan of all objects.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 8)]
async fn children_are_found_without_an_index(cluster: Cluster) {
    let notes = Notes::default();
    let parent = cluster.apply(map("one", 1)).await.unwrap();
    for (name, owned) in [("child", true), ("foreign", false)] {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.into());
        if owned {
            set_owner_reference(&parent, &mut secret).unwrap();
        }
        cluster.apply(secret).await.unwrap();
    }
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("parents", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.children::<Secret>()?.iter().for_each(|child| ctx.state().push(child.name_any()));
                Ok::<_, Error>(Action::await_change())
            })
            .reads::<Secret>()
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["child"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3, embedded = "seconds are counted exactly, in virtual time")]
async fn writes_keep_to_their_limit(cluster: Cluster) {
    for at in 0..10 {
        cluster.apply(map(&format!("m{at}"), 1)).await.unwrap();
    }
    let start = tokio::time::Instant::now();
    cluster.run(|| {
        Controller::new("slowly", |map: Arc<ConfigMap>, ctx: Ctx| async move {
            let mut secret = Secret::default();
            secret.metadata.name = Some(map.name_any());
            ctx.apply(secret).await?;
            Ok::<_, Error>(Action::await_change())
        })
        .max_concurrent(8)
        .write_limit(2.0, 2)
    });
    cluster.settled().await;
    assert_eq!(cluster.list::<Secret>().await.unwrap().len(), 10);
    assert_eq!(start.elapsed(), Duration::from_secs(4), "two at once, then two a second");
    let start = tokio::time::Instant::now();
    cluster.run(|| {
        Controller::new("slowly-away", |map: Arc<ConfigMap>, ctx: Ctx| async move {
            if let Some(secret) = ctx.fetch::<Secret>(&map.name_any()).await? {
                ctx.delete(&secret).await?;
            }
            Ok::<_, Error>(Action::await_change())
        })
        .max_concurrent(8)
        .write_limit(2.0, 2)
    });
    cluster.settled().await;
    assert!(cluster.list::<Secret>().await.unwrap().is_empty());
    assert_eq!(start.elapsed(), Duration::from_secs(4), "deletions are writes");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn an_event_filter_holds_for_every_kind(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("filtered", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(ctx.causes().to_string());
                let mut secret = Secret::default();
                secret.metadata.name = Some(map.name_any());
                ctx.apply(secret).await?;
                Ok::<_, Error>(Action::await_change())
            })
            .owns::<Secret>()
            .with_event_filter(|event| event.change != Change::Created)
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    assert!(notes.take().is_empty());
    cluster.apply(map("one", 2)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["ConfigMap default/one updated"], "and nothing for the new Secret");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn metrics_have_the_names_that_dashboards_know(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    let controller = Controller::new("counted", |_: Arc<ConfigMap>, ctx: Ctx| async move {
        match ctx.attempt() {
            0 => Err(Error::message("once")),
            _ => Ok(Action::await_change()),
        }
    });
    let manager = manager(&cluster).controller(controller);
    let metrics = manager.metrics().clone();
    let _running = tokio::spawn(manager.run_until(std::future::pending()));
    cluster.settled().await;
    let text = metrics.encode().replace(cluster.namespace(), "default");
    for line in [
        "controller_runtime_reconcile_total{controller=\"counted\",result=\"success\"} 1",
        "controller_runtime_reconcile_total{controller=\"counted\",result=\"error\"} 1",
        "controller_runtime_reconcile_errors_total{controller=\"counted\"} 1",
        "controller_runtime_max_concurrent_reconciles{controller=\"counted\"} 1",
        "controller_runtime_active_workers{controller=\"counted\"} 0",
        "workqueue_depth{name=\"counted\",controller=\"counted\"} 0",
        "workqueue_adds_total{name=\"counted\",controller=\"counted\"} 2",
        "workqueue_retries_total{name=\"counted\",controller=\"counted\"} 1",
        "controller_runtime_reconcile_time_seconds_count{controller=\"counted\"} 2",
        "evenkeel_cache_objects{source=\"ConfigMap in default\"} 1",
    ] {
        assert!(text.lines().any(|found| found.replace(".0", "") == line), "{line} in\n{text}");
    }
}

/// Settings of the caches stay when the environment is set after them.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 11)]
async fn settings_of_the_caches_stay_when_the_environment_is_set(cluster: Cluster) {
    let mut labelled = map("one", 1);
    labelled.labels_mut().insert("only".into(), cluster.namespace().into());
    cluster.apply(labelled).await.unwrap();
    let asked = Notes::default();
    let noting = asked.clone();
    let client = crate::seam::around(cluster.client(), move |request| {
        noting.push(request.uri().to_string());
        crate::seam::Answer::Pass
    });
    let manager = Manager::new(client).namespaces([cluster.namespace()]).strip_managed_fields();
    manager.informers().list_in_pages();
    let manager = manager.transform(|map: &mut ConfigMap| map.data = None).with_env(cluster.env().clone());
    let maps = manager.informers().get(Source::<ConfigMap>::new().labels("only"));
    maps.wait_synced(Duration::from_secs(60)).await.unwrap();
    let cached = maps.cache().list();
    assert_eq!(cached.len(), 1);
    assert!(cached[0].data.is_none() && cached[0].managed_fields().is_empty());
    let first = asked.take().remove(0);
    assert!(
        first.contains("/namespaces/") && first.contains("limit=") && !first.contains("watch"),
        "{first}"
    );
    // Cluster-scoped kinds are not affected.
    let namespaces = manager.informers().get(Source::<Namespace>::new());
    namespaces.wait_synced(Duration::from_secs(60)).await.unwrap();
    assert!(namespaces.cache().get(&Request::cluster("kube-system")).is_some());
}

/// If a function of the operator panics for one object, the watch continues for all controllers that share it.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 13)]
async fn a_trigger_that_panics_does_not_end_the_watch(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run_manager("all", {
        let notes = notes.clone();
        move |manager| {
            let reconcile = |request: Request, ctx: Ctx<Notes>| async move {
                ctx.state().push(format!("{} {}", ctx.controller(), request.name));
                Ok::<_, Error>(Action::await_change())
            };
            let mapped = Trigger::map(|secret: &Secret| {
                assert_ne!(secret.name_any(), "bad", "the map does not know it");
                [Request::of(secret)]
            });
            let maps = Controller::without_primary("maps", reconcile).watches(mapped).state(notes.clone());
            let filters = Controller::<Secret, Notes>::requests("filters", reconcile)
                .with_event_filter(|event| {
                    let name = event.new.and_then(|meta| meta.name.as_deref());
                    assert_ne!(name, Some("bad"), "nor does the filter");
                    true
                })
                .state(notes.clone());
            manager.controller(maps).controller(filters)
        }
    });
    for name in ["bad", "good"] {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.into());
        cluster.apply(secret).await.unwrap();
        cluster.settled().await;
    }
    let mut seen = notes.take();
    seen.sort();
    assert_eq!(seen, ["filters good", "maps good"]);
}

/// A period of zero, or one that is too long to compute with, resyncs nothing, and changes are still handled.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 14)]
async fn odd_periods_do_no_harm(cluster: Cluster) {
    for period in [Duration::MAX, Duration::ZERO] {
        let notes = Notes::default();
        cluster.run({
            let notes = notes.clone();
            move || {
                Controller::new("odd", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                    ctx.state().push(ctx.causes().to_string());
                    Ok::<_, Error>(Action::await_change())
                })
                .sync_period(Some(period))
                .every(period, Vec::new)
                .sync_timeout(Duration::MAX)
                .state(notes.clone())
            }
        });
        cluster.settled().await;
        notes.take();
        cluster.apply(map("one", format!("{period:?}"))).await.unwrap();
        cluster.settled().await;
        let seen = notes.take();
        assert!(seen.len() == 1 && !seen[0].contains("resynced"), "{seen:?}");
        cluster.stop("odd");
    }
}
