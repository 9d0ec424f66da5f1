//! What queues a key, in which order keys are reconciled, and what follows from the result of a reconcile.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::controller::Owned;
use evenkeel_runtime::owner::{set_controller_reference, set_owner_reference};
use evenkeel_runtime::{
    Action, Backoff, Controller, Ctx, Error, ErrorExt, Event, Predicate, Request, Source, Trigger,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use tokio::time::Instant;

use crate::{Notes, map, quiet, value};

/// Notes the name and the causes.
async fn note(map: Arc<ConfigMap>, ctx: Ctx<Notes>) -> Result<Action, Error> {
    ctx.state().push(format!("{}: {}", map.name_any(), ctx.causes()));
    Ok(Action::await_change())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn owned_kinds_trigger_their_controller_or_any_owner() {
    let cluster = quiet(1).await;
    let (controllers, owners) = (Notes::default(), Notes::default());
    for name in ["one", "two"] {
        cluster.apply(map(name, 1)).await.unwrap();
    }
    cluster.run({
        let notes = controllers.clone();
        move || Controller::new("controllers", note).owns::<Secret>().state(notes.clone())
    });
    cluster.run({
        let notes = owners.clone();
        move || {
            Controller::new("owners", note)
                .owns_with(Owned::from(Source::<Secret>::new()).any_owner())
                .state(notes.clone())
        }
    });
    cluster.settled().await;
    controllers.take();
    owners.take();
    let (one, two): (ConfigMap, ConfigMap) =
        (cluster.get("one").await.unwrap(), cluster.get("two").await.unwrap());
    let mut secret = Secret::default();
    secret.metadata.name = Some("child".into());
    set_controller_reference(&one, &mut secret).unwrap();
    set_owner_reference(&two, &mut secret).unwrap();
    cluster.apply(secret).await.unwrap();
    cluster.settled().await;
    assert_eq!(controllers.take(), ["one: Secret default/child created"]);
    assert_eq!(owners.take(), ["one: Secret default/child created", "two: Secret default/child created"]);
    cluster.delete::<Secret>("child").await.unwrap();
    cluster.settled().await;
    assert_eq!(controllers.take(), ["one: Secret default/child deleted"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn streams_and_timers_bring_keys_with_their_causes() {
    let cluster = quiet(2).await;
    let notes = Notes::default();
    let (sender, receiver) = futures::channel::mpsc::unbounded();
    let receiver = parking_lot::Mutex::new(Some(receiver));
    cluster.run({
        let notes = notes.clone();
        move || {
            let key = || vec![Request::namespaced("default", "timed")];
            let stream = receiver.lock().take().expect("it starts once");
            Controller::without_primary("fed", |request: Request, ctx: Ctx<Notes>| async move {
                ctx.state().push(format!("{request}: {}", ctx.causes()));
                Ok::<_, Error>(Action::await_change())
            })
            .stream("webhook", stream)
            .every(Duration::from_secs(60), key)
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    sender.unbounded_send(Request::namespaced("default", "pushed")).unwrap();
    cluster.advance(Duration::from_secs(1)).await;
    assert_eq!(notes.take(), ["default/pushed: webhook"]);
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(notes.take(), ["default/timed: timer"]);
}

/// Objects from a webhook or a cloud provider's API are mapped, filtered and prioritized like those of a watch.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn objects_of_a_stream_are_generic_events() {
    let cluster = quiet(15).await;
    let notes = Notes::default();
    let (sender, receiver) = futures::channel::mpsc::unbounded::<ConfigMap>();
    let receiver = parking_lot::Mutex::new(Some(receiver));
    cluster.run({
        let (notes, seen) = (notes.clone(), notes.clone());
        move || {
            let seen = seen.clone();
            let pointed = Trigger::map(|map: &ConfigMap| [Request::cluster(value(map))]);
            let wanted = Predicate::new(move |event: &Event<ConfigMap>| {
                let old = event.old().is_some();
                seen.push(format!("{} {:?}, old: {old}", event.change(), event.origin()));
                value(event.object()) != "unwanted"
            });
            let stream = receiver.lock().take().expect("it starts once");
            Controller::without_primary("fed", |request: Request, ctx: Ctx<Notes>| async move {
                ctx.state().push(format!("{request}: {}", ctx.causes()));
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, Error>(Action::await_change())
            })
            .stream_of("webhook", stream, pointed.filter(wanted).priority(10))
            .stream("usual", futures::stream::iter(["a", "b"].map(Request::cluster)))
            .with_event_filter(|event| event.new.and_then(|map| map.name.as_deref()) != Some("filtered"))
            .state(notes.clone())
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    for (name, value) in [("one", "unwanted"), ("filtered", "x"), ("two", "wanted")] {
        sender.unbounded_send(map(name, value)).unwrap();
    }
    cluster.settled().await;
    let generic = "generic Stream, old: false";
    assert_eq!(notes.take(), ["a: usual", generic, generic, "wanted: webhook", "b: usual"]);
}

/// With one worker that takes a second for each key, watch events go before the first list and before a resync.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn live_changes_go_before_the_initial_list_and_before_a_resync() {
    let cluster = quiet(3).await;
    let notes = Notes::default();
    for name in ["a", "b", "c"] {
        cluster.apply(map(name, 1)).await.unwrap();
    }
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("slow", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(map.name_any());
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, Error>(Action::await_change())
            })
            .sync_period(Some(Duration::from_secs(1000)))
            .state(notes.clone())
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.apply(map("live", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["a", "live", "b", "c"]);
    // The resync happens between 900 and 1100 s; its first key is in flight when the change arrives.
    while notes.0.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.apply(map("live", 2)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["a", "live", "b", "c"], "and a key that was replayed too comes once");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn one_key_at_a_time_unless_more_are_asked_for() {
    for (workers, seconds) in [(None, 4), (Some(2), 2)] {
        let cluster = quiet(4).await;
        for name in ["a", "b", "c", "d"] {
            cluster.apply(map(name, 1)).await.unwrap();
        }
        let start = Instant::now();
        cluster.run(move || {
            let controller = Controller::new("slow", |_: Arc<ConfigMap>, _: Ctx| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, Error>(Action::await_change())
            });
            match workers {
                Some(workers) => controller.max_concurrent(workers),
                None => controller,
            }
        });
        cluster.settled().await;
        assert_eq!(start.elapsed(), Duration::from_secs(seconds));
    }
}

/// The attempt number grows with errors and requeues with backoff, and starts over after a requeue with a delay or a
/// success.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn a_requeue_after_a_time_forgets_the_backoff_and_a_requeue_keeps_it() {
    let cluster = quiet(5).await;
    let notes = Notes::default();
    let start = Instant::now();
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            let step = std::sync::atomic::AtomicUsize::new(0);
            Controller::new("steps", move |_: Arc<ConfigMap>, ctx: Ctx<Notes>| {
                let step = step.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                async move {
                    let at = start.elapsed().as_millis();
                    ctx.state().push(format!("{at} ms: attempt {}, {}", ctx.attempt(), ctx.causes()));
                    match step {
                        0 => Err(Error::message("no")),
                        1 => Ok(Action::requeue_with_backoff()),
                        2 => Ok(Action::requeue(Duration::from_secs(1))),
                        3 => Err(Error::message("no")),
                        _ => Ok(Action::await_change()),
                    }
                }
            })
            .backoff(evenkeel_runtime::Backoff::default().jitter(0.0))
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    cluster.advance(Duration::from_secs(2)).await;
    assert_eq!(
        notes.take(),
        [
            "0 ms: attempt 0, ConfigMap default/one listed",
            "5 ms: attempt 1, retry",
            "15 ms: attempt 2, requeue",
            "1015 ms: attempt 0, timer",
            "1020 ms: attempt 1, retry",
        ]
    );
}

/// Of two keys that are requeued for the same time, the one with the higher priority is reconciled first.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn a_result_may_set_the_priority_of_the_next_reconcile() {
    let cluster = quiet(6).await;
    let notes = Notes::default();
    for name in ["a-low", "b-high"] {
        cluster.apply(map(name, 1)).await.unwrap();
    }
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("priority", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(map.name_any());
                tokio::time::sleep(Duration::from_secs(1)).await;
                if ctx.causes().to_string().contains("timer") {
                    return Ok::<_, Error>(Action::await_change());
                }
                let high = map.name_any().ends_with("high");
                // The second key is reconciled a second later, so that both delays end at the same time.
                let (delay, priority) = if high { (9, 10) } else { (10, -10) };
                Ok(Action::requeue(Duration::from_secs(delay)).priority(priority))
            })
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    cluster.advance(Duration::from_secs(15)).await;
    assert_eq!(notes.take(), ["a-low", "b-high", "b-high", "a-low"]);
}

/// Two keys fail and become ready while the only worker is busy: the key of a trigger with high priority is retried
/// first, though it failed later. This holds for the backoff and for the delay of an error.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn a_retry_keeps_its_priority() {
    for own_delay in [false, true] {
        let cluster = quiet(12).await;
        let notes = Notes::default();
        cluster.run({
            let notes = notes.clone();
            move || {
                let high = Trigger::map(|secret: &Secret| [Request::of(secret)]).priority(10);
                let ten_seconds = Duration::from_secs(10);
                Controller::<ConfigMap, _>::requests(
                    "failing",
                    move |key: Request, ctx: Ctx<Notes>| async move {
                        ctx.state().push(&*key.name);
                        let busy = &*key.name == "busy";
                        tokio::time::sleep(Duration::from_secs(if busy { 20 } else { 1 })).await;
                        match ctx.attempt() {
                            0 if own_delay && !busy => {
                                Err(Error::message("no").retry_after(ten_seconds).into())
                            }
                            0 if !busy => Err(Error::message("no")),
                            _ => Ok(Action::await_change()),
                        }
                    },
                )
                .watches::<Secret>(high)
                .backoff(Backoff::new(ten_seconds, ten_seconds).jitter(0.0))
                .state(notes.clone())
            }
        });
        cluster.settled().await;
        cluster.apply(map("low", 1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut secret = Secret::default();
        secret.metadata.name = Some("high".into());
        cluster.apply(secret).await.unwrap();
        cluster.apply(map("busy", 1)).await.unwrap();
        cluster.settled().await;
        assert_eq!(notes.take(), ["low", "high", "busy", "high", "low"], "a delay of its own: {own_delay}");
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn a_missed_change_passes_a_predicate_unless_it_asks_for_replays_too() {
    use evenkeel_cluster::Matcher;
    for also_replays in [false, true] {
        let cluster = quiet(7).await;
        let notes = Notes::default();
        cluster.apply(map("one", 1)).await.unwrap();
        cluster.run({
            let notes = notes.clone();
            move || {
                let labels = Predicate::labels_changed();
                let labels = if also_replays { labels.also_replays() } else { labels };
                Controller::new("missed", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                    ctx.state().push(value(&map));
                    Ok::<_, Error>(Action::await_change())
                })
                .filter(labels)
                .state(notes.clone())
            }
        });
        cluster.settled().await;
        notes.take();
        cluster.cut_watch(Matcher::any());
        cluster.apply(map("one", 2)).await.unwrap();
        cluster.compact();
        cluster.settled().await;
        let expected: &[&str] = if also_replays { &[] } else { &["2"] };
        assert_eq!(notes.take(), expected);
    }
}

/// A function of the event can compare the old and the new object.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn a_trigger_may_look_at_the_whole_event() {
    let cluster = quiet(8).await;
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    let mut secret = Secret::default();
    secret.metadata.name = Some("key".into());
    secret.string_data = Some([("a".to_owned(), "1".to_owned())].into());
    cluster.apply(secret.clone()).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            let changed = Trigger::events(|event: &Event<Secret>| match event {
                Event::Updated { old, new, .. } if old.data != new.data => {
                    Some(Request::new(new.namespace().as_deref(), "one"))
                }
                _ => None,
            });
            Controller::new("rotation", note).watches(changed).state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["one: ConfigMap default/one listed"]);
    secret.labels_mut().insert("touched".into(), "yes".into());
    cluster.apply(secret.clone()).await.unwrap();
    cluster.settled().await;
    assert!(notes.take().is_empty());
    secret.string_data = Some([("a".to_owned(), "2".to_owned())].into());
    cluster.apply(secret).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["one: Secret default/key updated"]);
}

/// Owned objects can have a predicate of their own; of two filters of the primary kind, both apply.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 9)]
async fn each_trigger_has_its_own_filter(cluster: Cluster) {
    let notes = Notes::default();
    let parent = cluster.apply(map("one", 1)).await.unwrap();
    let mut secret = Secret::default();
    secret.metadata.name = Some("child".into());
    set_controller_reference(&parent, &mut secret).unwrap();
    cluster.apply(secret.clone()).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("filtered", note)
                .owns_with(Owned::from(Source::<Secret>::new()).filter(Predicate::labels_changed()))
                .filter(Predicate::labels_changed())
                .filter(Predicate::annotations_changed())
                .state(notes.clone())
        }
    });
    cluster.settled().await;
    notes.take();
    secret.string_data = Some([("a".to_owned(), "1".to_owned())].into());
    cluster.apply(secret.clone()).await.unwrap();
    cluster.settled().await;
    assert!(notes.take().is_empty(), "its labels are as they were");
    secret.labels_mut().insert("touched".into(), "yes".into());
    cluster.apply(secret).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["one: Secret default/child updated"]);
    let mut primary = map("one", 1);
    primary.labels_mut().insert("touched".into(), "yes".into());
    cluster.apply(primary.clone()).await.unwrap();
    cluster.settled().await;
    primary.annotations_mut().insert("touched".into(), "yes".into());
    cluster.apply(primary.clone()).await.unwrap();
    cluster.settled().await;
    assert!(notes.take().is_empty(), "one of two is not enough, whichever it is");
    primary.labels_mut().insert("touched".into(), "again".into());
    primary.annotations_mut().insert("touched".into(), "again".into());
    cluster.apply(primary).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["one: ConfigMap default/one updated"]);
}

/// While the only worker is busy, a change arrives and then one through a trigger with a priority, which goes first.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the order of keys is exact in virtual time only")]
async fn a_trigger_may_have_a_priority() {
    let cluster = quiet(10).await;
    let notes = Notes::default();
    for name in ["busy", "usual", "urgent"] {
        cluster.apply(map(name, 1)).await.unwrap();
    }
    cluster.run({
        let notes = notes.clone();
        move || {
            let urgent = |secret: &Secret| [Request::new(secret.namespace().as_deref(), "urgent")];
            Controller::new("urgent", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(map.name_any());
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok::<_, Error>(Action::await_change())
            })
            .watches(Trigger::map(urgent).priority(50))
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    notes.take();
    cluster.apply(map("busy", 2)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    cluster.apply(map("usual", 2)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut secret = Secret::default();
    secret.metadata.name = Some("key".into());
    cluster.apply(secret).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["busy", "urgent", "usual"]);
}

/// A filter of the whole controller applies to watch events of every kind. Relists and resyncs pass, unless they have a
/// filter too. Of two filters, both apply.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "hours pass, and the watch is cut")]
async fn a_filter_of_the_whole_controller_lets_replays_pass_unless_asked() {
    use evenkeel_cluster::Matcher;
    for also_replays in [false, true] {
        let cluster = quiet(13).await;
        let notes = Notes::default();
        cluster.apply(map("one", 1)).await.unwrap();
        cluster.run({
            let notes = notes.clone();
            move || {
                let controller = Controller::new("whole", note)
                    .with_event_filter(|event| event.labels_changed())
                    .with_event_filter(|event| event.annotations_changed());
                let controller = match also_replays {
                    true => controller.with_replay_filter(|event| event.labels_changed()),
                    false => controller,
                };
                controller.state(notes.clone())
            }
        });
        cluster.settled().await;
        assert_eq!(notes.take(), ["one: ConfigMap default/one listed"]);
        let mut labelled = map("one", 1);
        labelled.labels_mut().insert("touched".into(), "yes".into());
        cluster.apply(labelled.clone()).await.unwrap();
        cluster.settled().await;
        labelled.annotations_mut().insert("touched".into(), "no".into());
        cluster.apply(labelled.clone()).await.unwrap();
        cluster.settled().await;
        assert!(notes.take().is_empty(), "one of two is not enough, whichever it is");
        labelled.labels_mut().insert("touched".into(), "again".into());
        labelled.annotations_mut().insert("touched".into(), "yes".into());
        cluster.apply(labelled.clone()).await.unwrap();
        cluster.settled().await;
        assert_eq!(notes.take(), ["one: ConfigMap default/one updated"]);
        labelled.data = map("one", 2).data;
        cluster.cut_watch(Matcher::any());
        cluster.apply(labelled).await.unwrap();
        cluster.compact();
        cluster.settled().await;
        let missed = notes.take();
        cluster.advance(Duration::from_secs(11 * 60 * 60)).await;
        cluster.settled().await;
        let replayed = notes.take();
        match also_replays {
            true => assert!(missed.is_empty() && replayed.is_empty(), "{missed:?} {replayed:?}"),
            false => {
                assert_eq!(missed, ["one: ConfigMap default/one updated"]);
                assert_eq!(replayed, ["one: ConfigMap default/one resynced"]);
            }
        }
    }
}

/// A child that was deleted or changed while no watch was open, and whose events are compacted, still triggers its
/// owner. kube-runtime misses that.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the watch is cut, and revisions are compacted")]
async fn what_happened_to_a_child_while_nobody_watched_reaches_its_owner() {
    use evenkeel_cluster::Matcher;
    let cluster = quiet(14).await;
    let notes = Notes::default();
    for owner in ["one", "two", "three"] {
        let parent = cluster.apply(map(owner, 1)).await.unwrap();
        let mut secret = Secret::default();
        secret.metadata.name = Some(format!("of-{owner}"));
        set_controller_reference(&parent, &mut secret).unwrap();
        cluster.apply(secret).await.unwrap();
    }
    cluster.run({
        let notes = notes.clone();
        move || Controller::new("parents", note).owns::<Secret>().state(notes.clone())
    });
    cluster.settled().await;
    notes.take();
    cluster.cut_watch(Matcher::any().kind::<Secret>());
    cluster.delete::<Secret>("of-one").await.unwrap();
    let mut changed: Secret = cluster.get("of-two").await.unwrap();
    changed.labels_mut().insert("touched".into(), "yes".into());
    changed.metadata.managed_fields = None;
    cluster.apply(changed).await.unwrap();
    cluster.compact();
    cluster.settled().await;
    let mut noted = notes.take();
    noted.sort();
    assert_eq!(noted, ["one: Secret default/of-one deleted", "two: Secret default/of-two updated"]);
}

/// If a mapping panics for one object, other objects are still mapped, by the watch and by the resync.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "hours pass")]
async fn a_trigger_that_panics_loses_that_event_alone() {
    let cluster = quiet(16).await;
    let notes = Notes::default();
    cluster.apply(map("a", "bad")).await.unwrap();
    cluster.apply(map("b", "good")).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            let pointed = Trigger::map(|map: &ConfigMap| {
                assert_ne!(value(map), "bad", "no such value");
                [Request::cluster(map.name_any())]
            });
            Controller::without_primary("pointed", |request: Request, ctx: Ctx<Notes>| async move {
                ctx.state().push(format!("{request}: {}", ctx.causes()));
                Ok::<_, Error>(Action::await_change())
            })
            .watches(pointed)
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["b: ConfigMap default/b listed"]);
    cluster.apply(map("c", "bad")).await.unwrap();
    cluster.apply(map("b", "better")).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["b: ConfigMap default/b updated"]);
    cluster.advance(Duration::from_secs(11 * 60 * 60)).await;
    cluster.settled().await;
    assert_eq!(notes.take(), ["b: ConfigMap default/b resynced"]);
    cluster.apply(map("b", "best")).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["b: ConfigMap default/b updated"], "it is still connected");
}
