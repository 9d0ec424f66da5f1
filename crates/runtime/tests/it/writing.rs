//! Writes of a reconcile, and what the next reconcile sees of them.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, CrashPoint, Fault, Matcher};
use evenkeel_runtime::finalizer::Phase;
use evenkeel_runtime::{Action, Controller, Ctx, Error, ResultExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::ResourceExt;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Preconditions};
use serde_json::json;

use crate::applying::in_a_reconcile;
use crate::{Notes, map, quiet, value};

pub(crate) fn child(name: &str, value: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.into());
    secret.string_data = Some([("value".to_owned(), value.to_owned())].into());
    secret
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn a_second_reconcile_writes_nothing_and_triggers_nothing(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("copy", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(ctx.causes().to_string());
                ctx.apply(child(&map.name_any(), value(&map))).await?;
                Ok::<_, Error>(Action::await_change())
            })
            .owns::<Secret>()
            .state(notes.clone())
        }
    });
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    let secret: Secret = cluster.get("one").await.unwrap();
    assert_eq!(secret.owner_references()[0].name, "one");
    let revision = secret.resource_version();
    notes.take();
    let mut annotated = map("one", 1);
    annotated.annotations_mut().insert("touch".into(), "1".into());
    cluster.apply(annotated).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["ConfigMap default/one updated"]);
    assert_eq!(cluster.get::<Secret>("one").await.unwrap().resource_version(), revision);
}

/// The duplicate-child bug: a reconcile creates a child with a generated name if it finds none in its cache. If it runs
/// again before the cache shows the first child, it creates a second. Returns the number of children.
async fn children_after_a_slow_watch(cluster: &Cluster, remember: bool) -> usize {
    cluster.run(move || {
        Controller::new("generate", move |map: Arc<ConfigMap>, ctx: Ctx| async move {
            let found = ctx.children::<Secret>()?;
            if found.is_empty() {
                let mut secret = child("", value(&map));
                secret.metadata.name = None;
                secret.metadata.generate_name = Some("child-".into());
                match remember {
                    true => {
                        ctx.create(secret).await?;
                        // All writes must be waited for, not only the last one.
                        let made = json!({ "metadata": { "annotations": { "made": "yes" } } });
                        ctx.patch(&map, &kube::api::Patch::Merge(made)).await?;
                    }
                    false => create_behind_the_context(&map, &ctx, secret).await?,
                }
            }
            Ok::<_, Error>(Action::await_change())
        })
        .owns::<Secret>()
    });
    cluster.settled().await;
    // The watch of the children is cut and a second late; the parent changes meanwhile.
    let watch = || Matcher::any().method(http::Method::GET).by("generate").kind::<Secret>();
    cluster.fail(watch(), Fault::InternalError, 1);
    cluster.cut_watch(watch());
    for value in [1, 2] {
        cluster.apply(map("one", value)).await.unwrap();
        cluster.apply(map("two", value)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.settled().await;
    cluster.list::<Secret>().await.unwrap().len()
}

/// Creates a Secret with the client, without the context remembering it.
async fn create_behind_the_context(map: &ConfigMap, ctx: &Ctx, mut secret: Secret) -> Result<(), Error> {
    evenkeel_runtime::owner::set_controller_reference(map, &mut secret)?;
    let api = kube::Api::<Secret>::namespaced(ctx.client().clone(), &map.namespace().unwrap_or_default());
    api.create(&Default::default(), &secret).await?;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn without_memory_a_second_child_is_created(cluster: Cluster) {
    assert_eq!(children_after_a_slow_watch(&cluster, false).await, 4, "of two parents");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn a_reconcile_does_not_miss_the_child_that_the_last_one_created(cluster: Cluster) {
    assert_eq!(children_after_a_slow_watch(&cluster, true).await, 2, "of two parents");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn reading_a_kind_that_was_not_declared_is_an_error_that_says_what_to_do(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("undeclared", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(ctx.get::<Deployment>("one").unwrap_err().to_string());
                let pods = ApiResource::erase::<Pod>(&());
                let dynamic = ctx.objects::<DynamicObject>(pods).cache().map(drop);
                ctx.state().push(dynamic.unwrap_err().to_string());
                Ok::<_, Error>(Action::await_change())
            })
            .state(notes.clone())
        }
    });
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    let said = notes.take();
    assert_eq!(
        said[0],
        "read Deployment.apps: the controller \"undeclared\" declares no cache of this kind; add .owns::<Deployment>() to it \
         if it creates these objects, .watches::<Deployment>(trigger) if it reacts to them, or .reads::<Deployment>() if it \
         only reads them, or read from the server with ctx.fetch"
    );
    assert_eq!(
        said[1],
        "read Pod: the controller \"undeclared\" declares no cache of this kind; add .owns_with(source) to it if it \
         creates these objects, .watches_with(source, trigger) if it reacts to them, or .reads_with(source) if it only reads \
         them, or read from the server with ctx.fetch"
    );
}

pub(crate) fn web() -> Deployment {
    serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
            },
        },
    }))
    .unwrap()
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn a_status_is_written_only_on_change(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(web()).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("ready", |deployment: Arc<Deployment>, ctx: Ctx<Notes>| async move {
                let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                let status =
                    json!({ "replicas": replicas, "observedGeneration": deployment.metadata.generation });
                let written = ctx.status(&deployment, status).await?;
                ctx.state().push(format!("{} {}", ctx.causes(), written.is_some()));
                Ok::<_, Error>(Action::await_change())
            })
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["Deployment default/web listed true", "Deployment default/web updated false"]);
    let status = cluster.get::<Deployment>("web").await.unwrap().status.unwrap();
    assert_eq!((status.replicas, status.observed_generation), (Some(3), Some(1)));
}

/// Crashes the operator before and after each of its writes, and with the answer lost: the result is always the same.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn a_finalizer_survives_a_crash_anywhere() {
    for point in [1, 2, 3] {
        for make in [CrashPoint::Before, CrashPoint::AnswerLost, CrashPoint::After] {
            let cluster = quiet(5).await;
            let outside = Notes::default();
            cluster.run({
                let outside = outside.clone();
                move || {
                    Controller::new("bucket", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                        let outside = ctx.state().clone();
                        let held = map.finalizers().contains(&"example.com/bucket".to_owned());
                        let (ctx, map, outside) = (&ctx, &map, &outside);
                        ctx.finalizer(map, "example.com/bucket", |phase| async move {
                            match phase {
                                Phase::Apply => {
                                    assert!(
                                        held || ctx.fetch::<ConfigMap>("one").await?.is_some_and(|map| {
                                            map.finalizers().contains(&"example.com/bucket".to_owned())
                                        })
                                    );
                                    ctx.apply(child("one", value(map))).await?;
                                    outside.push("made");
                                }
                                Phase::Cleanup => outside.push("removed"),
                            }
                            Ok::<_, Error>(Action::await_change())
                        })
                        .await
                    })
                    .state(outside.clone())
                }
            });
            let mut foreign = map("one", 1);
            foreign.metadata.finalizers = Some(vec!["example.com/foreign".into()]);
            cluster.apply(foreign).await.unwrap();
            cluster.crash("bucket", make(point));
            cluster.settled().await;
            let read: ConfigMap = cluster.get("one").await.unwrap();
            assert_eq!(read.finalizers(), ["example.com/foreign", "example.com/bucket"]);
            cluster.delete::<ConfigMap>("one").await.unwrap();
            cluster.settled().await;
            let read: ConfigMap = cluster.get("one").await.unwrap();
            assert_eq!(read.finalizers(), ["example.com/foreign"]);
            assert_eq!(outside.take().last().map(String::as_str), Some("removed"));
        }
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6)]
async fn cleanup_that_fails_keeps_the_object_and_is_retried(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("bucket", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                let ctx = &ctx;
                ctx.finalizer(&map, "example.com/bucket", |phase| async move {
                    ctx.state().push(format!("{phase:?}"));
                    match phase {
                        Phase::Cleanup if ctx.attempt() < 2 => Err(Error::message("the bucket is not empty")),
                        _ => Ok(Action::await_change()),
                    }
                })
                .await
            })
            .state(notes.clone())
        }
    });
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    notes.take();
    cluster.delete::<ConfigMap>("one").await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["Cleanup", "Cleanup", "Cleanup"]);
    assert!(cluster.get_opt::<ConfigMap>("one").await.unwrap().is_none());
}

/// The number of requests with this method that an operator made.
fn sent(cluster: &Cluster, by: &str, method: http::Method) -> usize {
    cluster.requests().iter().filter(|request| &*request.by == by && request.method == method).count()
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7)]
async fn create_or_update_writes_only_what_differs(cluster: Cluster) {
    let notes = Notes::default();
    let state = notes.clone();
    cluster.run(move || {
        Controller::new("ensure", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
            let wanted = value(&map).to_owned();
            let (written, did) = ctx
                .create_or_update(child("one", ""), |secret| {
                    secret.string_data = None;
                    let data = k8s_openapi::ByteString(wanted.into_bytes());
                    secret.data = Some([("value".to_owned(), data)].into());
                })
                .await?;
            ctx.state().push(format!("{did:?} {}", written.name_any()));
            let existing = ctx.create(child("one", "")).await.ignore_already_exists()?;
            assert!(existing.is_none());
            ctx.create_or_update(child("found", ""), |_| {}).await?;
            Ok::<_, Error>(Action::await_change())
        })
        .owns::<Secret>()
        .state(state.clone())
    });
    cluster.apply(child("found", "as it was")).await.unwrap();
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take()[..2], ["Created one", "Unchanged one"]);
    let found: Secret = cluster.get("found").await.unwrap();
    assert_eq!(found.owner_references()[0].name, "one", "what was found is owned from now on");
    assert_eq!(sent(&cluster, "ensure", http::Method::PUT), 1);
    let first: Secret = cluster.get("one").await.unwrap();
    let mut annotated = map("one", 1);
    annotated.annotations_mut().insert("touch".into(), "1".into());
    cluster.apply(annotated).await.unwrap();
    cluster.settled().await;
    assert_eq!(cluster.get::<Secret>("one").await.unwrap().resource_version(), first.resource_version());
    assert_eq!(sent(&cluster, "ensure", http::Method::PUT), 1, "nothing differed any more");
    assert_eq!(notes.take(), ["Unchanged one"]);
    cluster.apply(map("one", 2)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take()[0], "Updated one");
    assert_eq!(cluster.get::<Secret>("one").await.unwrap().data.unwrap()["value"].0, b"2");
    assert_eq!(sent(&cluster, "ensure", http::Method::PUT), 2);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 8)]
async fn events_become_series_and_do_not_delay_anything(cluster: Cluster) {
    cluster.run(|| {
        Controller::new("talker", |map: Arc<ConfigMap>, ctx: Ctx| async move {
            ctx.event(&map, "Seen", "it was seen");
            ctx.warning(&map, "Odd", format!("value {}", value(&map)));
            Ok::<_, Error>(Action::await_change())
        })
    });
    for at in 0..3 {
        cluster.apply(map("one", at)).await.unwrap();
        cluster.settled().await;
    }
    let events =
        cluster.api::<k8s_openapi::api::events::v1::Event>().list(&Default::default()).await.unwrap().items;
    let seen: Vec<_> = events.iter().filter(|event| event.reason.as_deref() == Some("Seen")).collect();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].series.as_ref().unwrap().count, 3);
    assert_eq!(seen[0].reporting_controller.as_deref(), Some("talker"));
    assert_eq!(events.len(), 4, "three different warnings");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 12)]
async fn get_or_create_leaves_what_is_there(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    in_a_reconcile(&cluster, "creator", |ctx| async move {
        let made = ctx.get_or_create(child("kept", "first")).await?;
        let found = ctx.get_or_create(child("kept", "second")).await?;
        assert_eq!((made.uid(), made.resource_version()), (found.uid(), found.resource_version()));
        assert_eq!(found.data.unwrap()["value"].0, b"first");
        Ok("as it should be".into())
    })
    .await;
    assert_eq!(cluster.get::<Secret>("kept").await.unwrap().owner_references()[0].name, "one");
    // An object that is in a cache needs no request.
    cluster.run(|| {
        Controller::new("looker", |_: Arc<ConfigMap>, ctx: Ctx| async move {
            ctx.get_or_create(child("kept", "third")).await?;
            Ok::<_, Error>(Action::await_change())
        })
        .reads::<Secret>()
    });
    cluster.settled().await;
    assert_eq!(sent(&cluster, "looker", http::Method::POST), 0);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 13)]
async fn an_update_or_a_deletion_of_what_somebody_else_changed_is_refused(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    in_a_reconcile(&cluster, "writer", |ctx| async move {
        let old = ctx.create(child("contested", "ours")).await?;
        let mut newer = old.clone();
        newer.annotations_mut().insert("by".into(), "them".into());
        let newer = ctx.update(&newer).await?;
        let error = ctx.update(&old).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
        let label = json!({ "metadata": { "labels": { "by": "us" } } });
        let newer = ctx.patch(&newer, &kube::api::Patch::Merge(label)).await?;
        let as_it_was = Preconditions { uid: None, resource_version: old.resource_version() };
        let exactly = DeleteParams::background().preconditions(as_it_was);
        let error = ctx.delete_with(&newer, &exactly).await.unwrap_err();
        assert!(error.is_conflict(), "{error}");
        assert!(ctx.delete(&newer).await?);
        let again = ctx.create(child("contested", "theirs")).await?;
        assert!(!ctx.delete(&newer).await?, "that object is gone");
        let kept = ctx.fetch::<Secret>("contested").await?.unwrap();
        assert_eq!(kept.uid(), again.uid(), "and one of the same name is another");
        assert!(ctx.delete(&again).await?);
        assert!(!ctx.delete(&again).await?);
        Ok("as it should be".into())
    })
    .await;
}
