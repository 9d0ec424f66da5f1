//! Watches that break, and caches that still reach the server's state.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher};
use evenkeel_runtime::{
    Action, Controller, Ctx, Error, Index, Informers, Predicate, Request, Source, Trigger,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};

use crate::seam::{self, Answer};
use crate::{Notes, map, quiet, value};

/// The objects of the server, as `name=value@version`.
async fn on_server(cluster: &Cluster) -> Vec<String> {
    cluster.list::<ConfigMap>().await.unwrap().iter().map(describe).collect()
}

fn describe(map: &ConfigMap) -> String {
    format!("{}={}@{}", map.name_any(), value(map), map.resource_version().unwrap_or_default())
}

/// Six writes: creates, updates, a delete, a recreate.
async fn step(cluster: &Cluster, at: usize) {
    match at {
        0 => drop(cluster.apply(map("one", 1)).await.unwrap()),
        1 => drop(cluster.apply(map("two", 1)).await.unwrap()),
        2 => drop(cluster.apply(map("one", 2)).await.unwrap()),
        3 => cluster.delete::<ConfigMap>("two").await.unwrap(),
        4 => drop(cluster.apply(map("two", 3)).await.unwrap()),
        _ => cluster.delete::<ConfigMap>("one").await.unwrap(),
    }
}

/// Cuts the watch before, after or around each step, with and without compaction. In the end the cache equals the
/// server's state, and so does the sum of all events.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "revisions are compacted")]
async fn a_watch_that_is_cut_anywhere_ends_with_the_servers_state() {
    for cut in 0..6 {
        for compact in [false, true] {
            for steps_meanwhile in 0..3 {
                let cluster = quiet(cut as u64).await;
                let informers = Informers::new(cluster.client(), cluster.env().clone());
                let maps = informers.get(Source::<ConfigMap>::new());
                let told = Notes::default();
                let subscription = maps.subscribe({
                    let told = told.clone();
                    move |event| told.push(format!("{} {}", event.change(), event.object().name_any()))
                });
                cluster.settled().await;
                let mut at = 0;
                while at < 6 {
                    if at == cut {
                        cluster.cut_watch(Matcher::any());
                        for _ in 0..steps_meanwhile.min(6 - at) {
                            step(&cluster, at).await;
                            at += 1;
                        }
                        if compact {
                            cluster.compact();
                        }
                        if steps_meanwhile > 0 {
                            continue;
                        }
                    }
                    step(&cluster, at).await;
                    at += 1;
                }
                cluster.settled().await;
                let cached: Vec<String> = maps.cache().list().iter().map(|map| describe(map)).collect();
                assert_eq!(cached, on_server(&cluster).await, "{cut} {compact} {steps_meanwhile}");
                let told = told.take();
                let ups = |name: &str| {
                    let count =
                        |word: &str| told.iter().filter(|line| **line == format!("{word} {name}")).count();
                    count("created") + count("listed") - count("deleted")
                };
                assert_eq!((ups("one"), ups("two")), (0, 1), "{told:?}");
                drop(subscription);
            }
        }
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1, embedded = "10 ms are measured in virtual time")]
async fn an_owned_watch_that_fails_does_not_delay_the_primary(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("patient", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(value(&map));
                Ok::<_, Error>(Action::await_change())
            })
            .owns::<Secret>()
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    notes.take();
    cluster.fail(Matcher::any().kind::<Secret>(), Fault::InternalError, 1000);
    cluster.cut_watch(Matcher::any().kind::<Secret>());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let start = tokio::time::Instant::now();
    cluster.apply(map("one", 7)).await.unwrap();
    while notes.0.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(start.elapsed() < Duration::from_millis(10));
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn equal_sources_share_one_watch_and_it_ends_with_the_last_holder(cluster: Cluster) {
    let informers = Informers::new(cluster.client(), cluster.env().clone());
    let source = || Source::<ConfigMap>::new().namespace(cluster.namespace());
    let first = informers.get(source());
    let second = informers.get(source());
    let other = informers.get(source().labels("app=web"));
    assert!(!first.cache().has_index(Index::<ConfigMap>::by_owner().name()));
    drop(informers.get(source().index(Index::by_owner())));
    assert!(first.cache().has_index(Index::<ConfigMap>::by_owner().name()), "an index more is no watch more");
    cluster.settled().await;
    assert_eq!(informers.len(), 2);
    drop((first, other));
    assert_eq!(informers.len(), 1);
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(second.cache().len(), 1);
    drop(second);
    assert!(informers.is_empty());
    let again = informers.get(source());
    again.wait_synced(Duration::from_secs(1)).await.unwrap();
    assert_eq!(again.cache().len(), 1);
}

/// Tested with streams and with pages, whose items of built-in kinds have no apiVersion and kind.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn dynamic_and_metadata_objects_are_cached_too(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    for pages in [false, true] {
        let accepted = Notes::default();
        let notes = accepted.clone();
        let client = seam::around(cluster.client(), move |request| {
            let accept = request.headers().get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok());
            let partial = accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata"));
            notes.push(if partial { "metadata" } else { "whole" });
            Answer::Pass
        });
        let informers = Informers::new(client, cluster.env().clone());
        if pages {
            informers.list_in_pages();
        }
        let resource = ApiResource::erase::<ConfigMap>(&());
        let dynamic = Source::<DynamicObject>::of(resource.clone()).namespace(cluster.namespace());
        let dynamic = informers.get(dynamic);
        cluster.settled().await;
        assert!(accepted.take().iter().all(|accept| accept == "whole"));
        let metadata =
            Source::<PartialObjectMeta<DynamicObject>>::of(resource).namespace(cluster.namespace());
        let metadata = informers.get(metadata);
        cluster.settled().await;
        assert!(accepted.take().iter().all(|accept| accept == "metadata"), "nothing else is sent at all");
        let key = Request::namespaced(cluster.namespace(), "one");
        let whole = dynamic.cache().get(&key).unwrap();
        assert_eq!(whole.data["data"]["value"], "1");
        assert_eq!(whole.types.as_ref().map(|types| types.kind.as_str()), Some("ConfigMap"));
        assert_eq!(metadata.cache().get(&key).unwrap().metadata.uid, whole.metadata.uid);
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn several_namespaces_share_a_cache_and_others_are_not_watched(cluster: Cluster) {
    let inside = |name: &str| format!("{}-{name}", cluster.namespace());
    for name in ["a", "b", "c"] {
        let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
        namespace.metadata.name = Some(inside(name));
        cluster.apply(namespace).await.unwrap();
    }
    let informers = Informers::new(cluster.client(), cluster.env().clone());
    let maps = informers.get(Source::<ConfigMap>::new().namespace(inside("a")).namespace(inside("b")));
    for name in ["a", "b", "c"] {
        cluster.namespaced(inside(name)).apply(map(&format!("in-{name}"), 1)).await.unwrap();
    }
    cluster.settled().await;
    let names: Vec<String> = maps.cache().list().iter().map(|map| map.name_any()).collect();
    assert_eq!(names, ["in-a", "in-b"]);
}

/// A relist of one namespace must not delete the objects of another from the cache.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "watches are cut, and revisions are compacted")]
async fn a_relist_of_one_namespace_leaves_the_others_as_they_are() {
    for pages in [false, true] {
        let cluster = quiet(8).await;
        for name in ["a", "ab", "b"] {
            let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
            namespace.metadata.name = Some(name.to_owned());
            cluster.apply(namespace).await.unwrap();
            for at in ["goes", "stays"] {
                cluster.namespaced(name).apply(map(&format!("{name}-{at}"), 1)).await.unwrap();
            }
        }
        let informers = Informers::new(cluster.client(), cluster.env().clone());
        if pages {
            informers.list_in_pages();
        }
        let maps = informers.get(Source::<ConfigMap>::new().namespace("a").namespace("ab").namespace("b"));
        let told = Notes::default();
        cluster.settled().await;
        let _subscription = maps.subscribe({
            let told = told.clone();
            move |event| told.push(format!("{} {}", event.change(), event.object().name_any()))
        });
        told.take();
        let path = "/api/v1/namespaces/a/configmaps";
        cluster.cut_watch(Matcher::any().path(path));
        cluster.namespaced("a").delete::<ConfigMap>("a-goes").await.unwrap();
        cluster.compact();
        cluster.settled().await;
        assert_eq!(told.take(), ["deleted a-goes"], "in pages: {pages}");
        assert_eq!(maps.cache().len(), 5);
    }
}

/// If one namespace may not be listed, the error says so, even after another namespace was listed.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the server is made to refuse")]
async fn a_namespace_that_may_not_be_listed_is_named_though_others_may() {
    let cluster = quiet(9).await;
    for refused in ["a", "b"] {
        let path = format!("/api/v1/namespaces/{refused}/configmaps");
        let client = seam::around(cluster.client(), move |request| match request.uri().path() == path {
            true => Answer::Refuse(403, "configmaps is forbidden: cannot list them here"),
            false => Answer::Pass,
        });
        let informers = Informers::new(client, cluster.env().clone());
        let maps = informers.get(Source::<ConfigMap>::new().namespace("a").namespace("b"));
        let error = maps.wait_synced(Duration::from_millis(500)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "sync the cache of ConfigMap in a, b within 500ms: list: configmaps is forbidden: cannot list them here",
            "{refused} is refused"
        );
        assert!(!maps.has_synced());
    }
}

/// The wait for a cache ends with a reason if the server never answers, and if every resource version is too old.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "the server is made to refuse")]
async fn a_cache_that_cannot_fill_says_why() {
    let cluster = quiet(10).await;
    for (silent, cause) in [
        (true, "the server has not answered the list"),
        (false, "watch: the server keeps saying that the version is too old"),
    ] {
        let client = seam::around(cluster.client(), move |request| {
            match request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                false if silent => Answer::Silence,
                true if !silent => Answer::Refuse(410, "too old resource version"),
                _ => Answer::Pass,
            }
        });
        let informers = Informers::new(client, cluster.env().clone());
        informers.list_in_pages();
        let maps = informers.get(Source::<ConfigMap>::new());
        let start = tokio::time::Instant::now();
        let error = maps.wait_synced(Duration::from_secs(20)).await.unwrap_err();
        assert_eq!((error.cause.as_str(), start.elapsed().as_secs()), (cause, 20));
        assert!(error.to_string().starts_with("sync the cache of ConfigMap within 20s: "), "{error}");
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn an_update_triggers_for_the_old_and_the_new_object(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            let pointed = Trigger::map(|map: &ConfigMap| [Request::cluster(value(map))]);
            Controller::without_primary("pointed", |request: Request, ctx: Ctx<Notes>| async move {
                ctx.state().push(request.to_string());
                Ok::<_, Error>(Action::await_change())
            })
            .watches(pointed)
            .state(notes.clone())
        }
    });
    cluster.apply(map("pointer", "left")).await.unwrap();
    cluster.settled().await;
    cluster.apply(map("pointer", "right")).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["left", "left", "right"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6)]
async fn an_index_finds_whom_a_change_concerns(cluster: Cluster) {
    let notes = Notes::default();
    for (name, secret) in [("one", "shared"), ("two", "shared"), ("three", "other")] {
        cluster.apply(map(name, secret)).await.unwrap();
    }
    cluster.run({
        let notes = notes.clone();
        move || {
            let index = Index::new("secret", |map: &ConfigMap| vec![value(map).to_owned()]);
            Controller::new("indexed", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(map.name_any());
                Ok::<_, Error>(Action::await_change())
            })
            .watches_indexed(index, |secret: &Secret| vec![secret.name_any()])
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    notes.take();
    let mut secret = Secret::default();
    secret.metadata.name = Some("shared".into());
    cluster.apply(secret).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["one", "two"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7)]
async fn predicates_keep_out_what_does_not_matter(cluster: Cluster) {
    let notes = Notes::default();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::new("labels", |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
                ctx.state().push(value(&map));
                Ok::<_, Error>(Action::await_change())
            })
            .filter(Predicate::labels_changed().or(Predicate::annotations_changed()))
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    cluster.apply(map("one", 2)).await.unwrap();
    cluster.settled().await;
    let mut labelled = map("one", 3);
    labelled.labels_mut().insert("a".into(), "b".into());
    cluster.apply(labelled).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["1", "3"]);
}
