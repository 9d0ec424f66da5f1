//! Events: their text, series and limits; and that they never delay a reconcile.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher};
use evenkeel_runtime::finalizer::Phase;
use evenkeel_runtime::{Action, Controller, Ctx, Error, EventType};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use tokio::time::Instant;

use crate::{Notes, map, value};

/// Changes an object so that it is reconciled again.
async fn touch(cluster: &Cluster, name: &str) {
    let mut touched = map(name, 1);
    touched.annotations_mut().insert("touched".into(), "1".into());
    cluster.apply(touched).await.unwrap();
    cluster.settled().await;
}

/// Records as many events as the value of the map, each with another reason.
fn talker() -> Controller<ConfigMap> {
    Controller::new("talker", |map: Arc<ConfigMap>, ctx: Ctx| async move {
        for at in 0..value(&map).parse().unwrap_or(0) {
            ctx.event(&map, &format!("Reason{at}"), "x".repeat(at * 100));
        }
        Ok::<_, Error>(Action::await_change())
    })
}

async fn events_about(cluster: &Cluster, name: &str) -> Vec<Event> {
    let mut events = cluster.list::<Event>().await.unwrap();
    events.retain(|event| event.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name));
    events
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn an_object_that_causes_very_many_is_cut_off_and_others_are_not(cluster: Cluster) {
    cluster.run(talker);
    cluster.apply(map("loud", 40)).await.unwrap();
    cluster.apply(map("quiet", 3)).await.unwrap();
    cluster.settled().await;
    assert_eq!(events_about(&cluster, "loud").await.len(), 25);
    let quiet = events_about(&cluster, "quiet").await;
    assert_eq!(quiet.len(), 3);
    let event = &quiet[0];
    assert_eq!(event.reporting_controller.as_deref(), Some("talker"));
    assert_eq!((event.type_.as_deref(), event.action.as_deref()), (Some("Normal"), Some("Reconcile")));
    let regarding = event.regarding.as_ref().unwrap();
    assert_eq!(
        (regarding.kind.as_deref(), regarding.namespace.as_deref()),
        (Some("ConfigMap"), Some(cluster.namespace()))
    );
}

/// One of two controllers has used up its budget of events about an object.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7)]
async fn no_controller_uses_up_the_budget_of_another(cluster: Cluster) {
    cluster.run_manager("all", |manager| {
        let of_touched = Controller::new("of-touched", |map: Arc<ConfigMap>, ctx: Ctx| async move {
            if map.annotations().contains_key("touched") {
                ctx.event(&map, "Touched", "it was touched");
            }
            Ok::<_, Error>(Action::await_change())
        });
        manager.controller(talker()).controller(of_touched)
    });
    cluster.apply(map("one", 40)).await.unwrap();
    cluster.settled().await;
    assert_eq!(events_about(&cluster, "one").await.len(), 25);
    touch(&cluster, "one").await;
    let events = events_about(&cluster, "one").await;
    let of_touched =
        events.iter().filter(|event| event.reporting_controller.as_deref() == Some("of-touched"));
    assert_eq!(of_touched.count(), 1);
}

/// Budgets used to be by namespace and name only, so that an object with many events silenced objects of other kinds,
/// and later objects, with the same name.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 9)]
async fn no_object_uses_up_the_budget_of_another_with_its_name(cluster: Cluster) {
    let loud = ObjectReference {
        api_version: Some("example.com/v1".into()),
        kind: Some("Database".into()),
        name: Some("same".into()),
        namespace: Some(cluster.namespace().into()),
        uid: Some("1".into()),
        ..ObjectReference::default()
    };
    let others = [
        ObjectReference { kind: Some("Bucket".into()), ..loud.clone() },
        ObjectReference { api_version: Some("example.org/v1".into()), ..loud.clone() },
        ObjectReference { uid: Some("2".into()), ..loud.clone() },
    ];
    cluster.run(move || {
        let (loud, others) = (loud.clone(), others.clone());
        Controller::new("talker", move |_: Arc<ConfigMap>, ctx: Ctx| {
            let (loud, others) = (loud.clone(), others.clone());
            async move {
                let record = |about: &ObjectReference, reason: &str| {
                    ctx.recorder().record_about(about.clone(), EventType::Normal, reason, "said");
                };
                (0..40).for_each(|at| record(&loud, &format!("Reason{at}")));
                others.iter().for_each(|other| record(other, "Seen"));
                Ok::<_, Error>(Action::await_change())
            }
        })
    });
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    let events = events_about(&cluster, "same").await;
    let seen = events.iter().filter(|event| event.reason.as_deref() == Some("Seen")).count();
    assert_eq!((events.len(), seen), (28, 3), "with the same words, but for the reason");
}

/// The time since the last refill used to be lost when an event came before the next refill.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 8, embedded = "minutes pass")]
async fn a_budget_comes_back_one_by_one(cluster: Cluster) {
    cluster.run(talker);
    cluster.apply(map("loud", 40)).await.unwrap();
    cluster.settled().await;
    // One more event every 300 s: two after 899 s, and four after 1299 s.
    for (wanted, seconds, events) in [(41, 899, 27), (42, 400, 29)] {
        cluster.advance(Duration::from_secs(seconds)).await;
        cluster.apply(map("loud", wanted)).await.unwrap();
        cluster.settled().await;
        assert_eq!(events_about(&cluster, "loud").await.len(), events);
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn a_long_note_is_cut_to_what_the_server_takes(cluster: Cluster) {
    cluster.run(talker);
    cluster.apply(map("long", 20)).await.unwrap();
    cluster.settled().await;
    let events = events_about(&cluster, "long").await;
    assert_eq!(events.len(), 20);
    let longest = events.iter().filter_map(|event| event.note.as_ref()).map(String::len).max();
    assert_eq!(longest, Some(1024));
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn an_event_that_was_deleted_begins_a_new_series(cluster: Cluster) {
    cluster.run(talker);
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    let first = events_about(&cluster, "one").await.remove(0).name_any();
    cluster.delete::<Event>(&first).await.unwrap();
    touch(&cluster, "one").await;
    let events = events_about(&cluster, "one").await;
    assert_eq!(events.len(), 1);
    assert_ne!(events[0].name_any(), first);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4, embedded = "seven minutes pass")]
async fn a_series_ends_after_six_minutes(cluster: Cluster) {
    cluster.run(talker);
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    cluster.advance(Duration::from_secs(7 * 60)).await;
    touch(&cluster, "one").await;
    assert_eq!(events_about(&cluster, "one").await.len(), 2);
}

/// An event every five minutes stays one series, however long it continues.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 10, embedded = "minutes pass")]
async fn a_series_goes_on_while_its_event_keeps_coming(cluster: Cluster) {
    cluster.run(talker);
    for at in 0..4 {
        let mut touched = map("one", 1);
        touched.annotations_mut().insert("touched".into(), at.to_string());
        cluster.apply(touched).await.unwrap();
        cluster.settled().await;
        cluster.advance(Duration::from_secs(5 * 60)).await;
    }
    let events = events_about(&cluster, "one").await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].series.as_ref().map(|series| series.count), Some(4));
}

/// Events about cluster-scoped objects are in `default`, where `kubectl describe` looks for them.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 11, embedded = "the namespace default is everybody's")]
async fn events_about_cluster_scoped_objects_are_in_default(cluster: Cluster) {
    cluster.run(|| {
        Controller::new("of-namespaces", |namespace: Arc<Namespace>, ctx: Ctx| async move {
            ctx.event(&namespace, "Seen", "it was seen");
            Ok::<_, Error>(Action::await_change())
        })
    });
    cluster.settled().await;
    let events = kube::Api::<Event>::all(cluster.client()).list(&Default::default()).await.unwrap();
    let places: Vec<_> = events.iter().filter_map(|event| event.namespace()).collect();
    assert!(!places.is_empty() && places.iter().all(|place| place == "default"), "{places:?}");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn a_server_that_takes_no_events_delays_no_reconcile(cluster: Cluster) {
    let notes = Notes::default();
    cluster.fail(Matcher::writes().kind::<Event>(), Fault::Timeout, 3);
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("hasty", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.event(&map, "Seen", "it was seen");
                ctx.state().push(map.name_any());
                Ok::<_, Error>(Action::await_change())
            })
            .state(notes.clone())
        }
    });
    let start = Instant::now();
    for name in ["one", "two", "three"] {
        cluster.apply(map(name, 1)).await.unwrap();
    }
    while notes.0.lock().len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Events that do not fit into the buffer are dropped, and the reconcile continues.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 12, embedded = "a thousand events, none of which is sent while they are recorded")]
async fn events_that_find_no_room_are_dropped(cluster: Cluster) {
    cluster.run(|| {
        Controller::new("flood", |map: Arc<ConfigMap>, ctx: Ctx| async move {
            for at in 0..1100 {
                let mut about = (*map).clone();
                about.metadata.name = Some(format!("m{at}"));
                ctx.event(&about, "Seen", "it was seen");
            }
            Ok::<_, Error>(Action::await_change())
        })
    });
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(cluster.list::<Event>().await.unwrap().len(), 1000);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6)]
async fn a_cleanup_that_fails_is_seen_on_its_object(cluster: Cluster) {
    cluster.run(|| {
        Controller::new("bucket", |map: Arc<ConfigMap>, ctx: Ctx| async move {
            let work = |phase| async move {
                match phase {
                    Phase::Apply => Ok(Action::await_change()),
                    Phase::Cleanup => Err(Error::message("the bucket is not empty")),
                }
            };
            ctx.finalizer(&map, "example.com/bucket", work).await
        })
    });
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    cluster.delete::<ConfigMap>("one").await.unwrap();
    let seen = async {
        loop {
            let events = events_about(&cluster, "one").await;
            if let Some(event) =
                events.into_iter().find(|event| event.reason.as_deref() == Some("CleanupFailed"))
            {
                return event;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let event = tokio::time::timeout(Duration::from_secs(30), seen).await.unwrap();
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.note.as_deref(), Some("finalizer example.com/bucket: the bucket is not empty"));
    let left: ConfigMap = cluster.get("one").await.unwrap();
    assert_eq!(left.finalizers(), ["example.com/bucket"], "the object is still there");
    // On a real cluster, nothing must be left behind.
    cluster.stop("bucket");
    cluster
        .patch::<ConfigMap>("one", serde_json::json!({ "metadata": { "finalizers": null } }))
        .await
        .unwrap();
}
