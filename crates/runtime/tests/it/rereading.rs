//! Read your own writes: a key is not reconciled again from a cache that does not show its writes.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher};
use evenkeel_runtime::{Action, Controller, Ctx, Error, Manager, Source};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt;
use tokio::time::Instant;

use crate::{Notes, map, quiet, value};

fn secret(name: &str, value: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.into());
    secret.string_data = Some([("value".to_owned(), value.to_owned())].into());
    secret
}

/// Breaks the watch of Secrets two seconds after the start, for `attempts` attempts: the first retry is at once, the
/// next after about one second, then two, then four.
async fn break_secrets(cluster: &Cluster, attempts: usize) {
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.fail(Matcher::any().path("/api/v1/secrets"), Fault::InternalError, attempts);
    cluster.cut_watch(Matcher::any().path("/api/v1/secrets"));
}

/// Applies a Secret with the name of the map, and notes the time, the map, and whether the cache shows the Secret.
async fn copy(map: Arc<ConfigMap>, ctx: Ctx<(Instant, Notes)>) -> Result<Action, Error> {
    let (start, notes) = ctx.state();
    let cached = ctx.get::<Secret>(&map.name_any()).map(|found| found.is_some());
    let at = start.elapsed().as_millis();
    notes.push(format!("{at} {} cached={:?} behind={}", map.name_any(), cached.ok(), ctx.is_behind()));
    ctx.apply(secret(&map.name_any(), value(&map))).await?;
    Ok(Action::await_change())
}

/// With one worker: a key that waits for its write must not block the worker.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn a_key_that_waits_for_its_write_frees_its_worker() {
    let cluster = quiet(1).await;
    let (notes, start) = (Notes::default(), Instant::now());
    cluster.run({
        let notes = notes.clone();
        move || Controller::new("copy", copy).reads::<Secret>().state((start, notes.clone()))
    });
    cluster.settled().await;
    break_secrets(&cluster, 1).await;
    cluster.apply(map("one", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    cluster.apply(map("one", 2)).await.unwrap();
    cluster.apply(map("two", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(
        notes.take(),
        ["2000 one cached=Some(false) behind=false", "2010 two cached=Some(false) behind=false"],
        "the other key is not delayed, and the waiting one is not reconciled from before its write"
    );
    cluster.settled().await;
    let later = notes.take();
    assert_eq!(later.len(), 1, "once, though the wait was for several causes: {later:?}");
    assert!(later[0].ends_with(" one cached=Some(true) behind=false"), "{later:?}");
    assert_eq!(cluster.get::<Secret>("one").await.unwrap().data.unwrap()["value"].0, b"2");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn the_wait_is_bounded_then_the_object_is_read_live_and_that_is_counted() {
    let cluster = quiet(2).await;
    let (notes, start) = (Notes::default(), Instant::now());
    let controller = Controller::new("copy", copy).reads::<Secret>().state((start, notes.clone()));
    let manager = Manager::new(cluster.client()).with_env(cluster.env().clone()).controller(controller);
    let metrics = manager.metrics().clone();
    let _running = tokio::spawn(manager.run_until(std::future::pending()));
    cluster.settled().await;
    break_secrets(&cluster, 4).await;
    cluster.apply(map("one", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    cluster.apply(map("one", 2)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        notes.take(),
        ["2000 one cached=Some(false) behind=false", "5010 one cached=Some(false) behind=true"]
    );
    let text = metrics.encode().replace(".0\n", "\n");
    assert!(text.contains("evenkeel_stale_read_waits_total{controller=\"copy\"} 1"), "{text}");
    assert!(text.contains("evenkeel_stale_reads_total{controller=\"copy\"} 1"), "{text}");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn only_a_cache_that_is_sure_to_see_the_write_is_waited_for() {
    // A cache with selectors may never show the write, a cache of another namespace never does.
    let scopes: [fn(Source<Secret>) -> Source<Secret>; 3] = [
        |source| source.labels("app=web"),
        |source| source.fields("type=example.com/other"),
        |source| source.namespace("kube-system"),
    ];
    for scope in scopes {
        let cluster = quiet(3).await;
        let (notes, start) = (Notes::default(), Instant::now());
        cluster.run({
            let notes = notes.clone();
            move || {
                let some = scope(Source::<Secret>::new());
                Controller::new("copy", copy).reads_with(some).state((start, notes.clone()))
            }
        });
        cluster.settled().await;
        break_secrets(&cluster, 4).await;
        for at in 1..=2 {
            cluster.apply(map("one", at)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(
            notes.take(),
            ["2000 one cached=Some(false) behind=false", "2010 one cached=Some(false) behind=false"]
        );
    }
}

/// The writes of a failed attempt are waited for, so that the next attempt does not repeat them.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn the_writes_of_an_attempt_that_failed_are_waited_for_too() {
    let cluster = quiet(10).await;
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("fails", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                let cached = ctx.get::<Secret>(&map.name_any())?.is_some();
                ctx.state().push(format!("{} cached {cached}", map.name_any()));
                if cached {
                    return Ok(Action::await_change());
                }
                ctx.create(secret(&map.name_any(), "")).await?;
                match value(&map) {
                    "panic" => panic!("after the write"),
                    "hang" => std::future::pending().await,
                    _ => Err(Error::message("after the write")),
                }
            })
            .timeout(Duration::from_millis(100))
            .max_concurrent(3)
            .reads::<Secret>()
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    break_secrets(&cluster, 1).await;
    for how in ["fail", "panic", "hang"] {
        cluster.apply(map(how, how)).await.unwrap();
    }
    cluster.settled().await;
    let mut noted = notes.take();
    noted.sort();
    let wanted =
        ["fail", "hang", "panic"].map(|how| ["false", "true"].map(|there| format!("{how} cached {there}")));
    assert_eq!(noted, wanted.concat());
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn a_deletion_is_waited_for_until_that_object_is_gone() {
    let cluster = quiet(4).await;
    let notes = Notes::default();
    cluster.apply(secret("one", "")).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("delete", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                let found = ctx.get::<Secret>("one")?;
                ctx.state().push(format!("found {}", found.is_some()));
                if let Some(found) = found {
                    assert!(ctx.delete(&found).await?);
                }
                Ok::<_, Error>(Action::await_change())
            })
            .reads::<Secret>()
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    break_secrets(&cluster, 1).await;
    for at in 1..=2 {
        cluster.apply(map("one", at)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.settled().await;
    assert_eq!(notes.take(), ["found true", "found false"]);
}

/// A reconcile can choose to wait for its own writes before it lists.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn a_list_after_a_write_sees_it_once_the_caches_have_caught_up() {
    let cluster = quiet(5).await;
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("list", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.create(secret(&map.name_any(), "")).await?;
                let before = ctx.list::<Secret>()?.len();
                let caught_up = ctx.caught_up().await;
                ctx.state().push(format!("{before} {caught_up} {}", ctx.list::<Secret>()?.len()));
                Ok::<_, Error>(Action::await_change())
            })
            .reads::<Secret>()
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    break_secrets(&cluster, 1).await;
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["0 true 1"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn a_write_through_the_bare_client_can_be_remembered() {
    let cluster = quiet(6).await;
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("bare", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                let cached = ctx.get::<Secret>("one")?.is_some();
                ctx.state().push(format!("cached {cached}"));
                if !cached {
                    let api = kube::Api::<Secret>::namespaced(ctx.client().clone(), "default");
                    let written = api.create(&Default::default(), &secret("one", "")).await?;
                    ctx.remember(&written);
                }
                Ok::<_, Error>(Action::await_change())
            })
            .reads::<Secret>()
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    break_secrets(&cluster, 1).await;
    for at in 1..=2 {
        cluster.apply(map("one", at)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster.settled().await;
    assert_eq!(notes.take(), ["cached false", "cached true"]);
}

/// Breaks the watch of ConfigMaps for `attempts` attempts.
fn break_maps(cluster: &Cluster, attempts: usize) {
    cluster.fail(Matcher::any().path("/api/v1/configmaps"), Fault::InternalError, attempts);
    cluster.cut_watch(Matcher::any().path("/api/v1/configmaps"));
}

/// Writes the map itself while its watch is broken, and is requeued soon.
async fn count_up(map: Arc<ConfigMap>, ctx: Ctx<(Cluster, Notes)>) -> Result<Action, Error> {
    let (cluster, notes) = ctx.state();
    notes.push(format!("{} behind={}", value(&map), ctx.is_behind()));
    if value(&map) != "1" {
        return Ok(Action::await_change());
    }
    break_maps(cluster, 4);
    let mut next = (*map).clone();
    next.data = self::map("one", 2).data;
    ctx.update(&next).await?;
    Ok(Action::requeue(Duration::from_millis(10)))
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn the_object_itself_is_read_live_after_the_bound() {
    let cluster = quiet(7).await;
    let notes = Notes::default();
    cluster.run({
        let state = (cluster.clone(), notes.clone());
        move || Controller::new("count", count_up).state(state.clone())
    });
    cluster.settled().await;
    cluster.apply(map("one", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(notes.take(), ["1 behind=false", "2 behind=true"], "the cache still has the first one");
}

/// Removes the finalizer of a map that is being deleted, while the watch of maps is broken.
async fn let_go(map: Arc<ConfigMap>, ctx: Ctx<(Cluster, Notes)>) -> Result<Action, Error> {
    let (cluster, notes) = ctx.state();
    let going = map.metadata.deletion_timestamp.is_some();
    notes.push(format!("going={going}"));
    if !going {
        return Ok(Action::await_change());
    }
    break_maps(cluster, 1);
    let mut next = (*map).clone();
    next.metadata.finalizers = None;
    ctx.update(&next).await?;
    Ok(Action::requeue(Duration::from_millis(10)))
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn who_takes_the_last_finalizer_does_not_see_the_object_again() {
    let cluster = quiet(8).await;
    let notes = Notes::default();
    cluster.run({
        let state = (cluster.clone(), notes.clone());
        move || Controller::new("let-go", let_go).state(state.clone())
    });
    cluster.settled().await;
    let mut held = map("one", 1);
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    cluster.apply(held).await.unwrap();
    cluster.settled().await;
    cluster.delete::<ConfigMap>("one").await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["going=false", "going=true"]);
}

/// A cache of two namespaces has two watches, and the progress of one does not show writes in the other.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are broken, and their retries are timed exactly")]
async fn a_write_is_waited_for_in_its_own_namespace() {
    let cluster = quiet(9).await;
    let mut other = Namespace::default();
    other.metadata.name = Some("other".into());
    cluster.apply(other).await.unwrap();
    let (notes, start) = (Notes::default(), Instant::now());
    let controller = Controller::new("copy", copy).reads::<Secret>().state((start, notes.clone()));
    let manager = Manager::new(cluster.client()).with_env(cluster.env().clone());
    let manager = manager.namespaces(["default", "other"]).controller(controller);
    let _running = tokio::spawn(manager.run_until(std::future::pending()));
    cluster.settled().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let watch = || Matcher::any().path("/namespaces/other/secrets");
    cluster.fail(watch(), Fault::InternalError, 1);
    cluster.cut_watch(watch());
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(cluster.client(), "other");
    maps.create(&Default::default(), &map("one", 1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    // The watch of the first namespace makes progress.
    cluster.apply(secret("unrelated", "1")).await.unwrap();
    let change = kube::api::Patch::Merge(serde_json::json!({ "data": { "value": "2" } }));
    maps.patch("one", &Default::default(), &change).await.unwrap();
    cluster.settled().await;
    let noted = notes.take();
    assert!(noted.len() >= 2, "{noted:?}");
    assert!(noted[0].ends_with("one cached=Some(false) behind=false"), "{noted:?}");
    assert!(noted[1].ends_with("one cached=Some(true) behind=false"), "{noted:?}");
}
