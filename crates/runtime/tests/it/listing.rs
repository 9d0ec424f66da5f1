//! How a cache is filled: streamed or in pages, with selectors and transforms.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher};
use evenkeel_runtime::{
    Action, ContextError, Controller, Ctx, Error, Index, Informer, Informers, Manager, Request, Source,
    Subscription,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;

use crate::seam::{self, Answer};
use crate::{Notes, map, quiet, value};

fn informers(cluster: &Cluster) -> Informers {
    Informers::new(cluster.client(), cluster.env().clone())
}

fn names(informer: &Informer<ConfigMap>) -> Vec<String> {
    informer.cache().list().iter().map(|map| map.name_any()).collect()
}

fn collection(cluster: &Cluster, plural: &str) -> String {
    format!("/api/v1/namespaces/{}/{plural}", cluster.namespace())
}

/// The reads of a collection, in order: `stream`, `list` or `watch`.
fn reads(cluster: &Cluster, collection: &str) -> Vec<&'static str> {
    let word = |path: &str| match (path.contains("sendInitialEvents=true"), path.contains("watch=true")) {
        (true, _) => "stream",
        (_, true) => "watch",
        _ => "list",
    };
    let requests = cluster.requests().into_iter();
    let requests =
        requests.filter(|exchange| exchange.path.starts_with(collection) && exchange.method == "GET");
    requests.map(|exchange| word(&exchange.path)).collect()
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what the server is asked is counted, and it is made to fail")]
async fn a_list_is_streamed_as_the_beginning_of_the_watch() {
    let cluster = quiet(1).await;
    cluster.apply(map("one", 1)).await.unwrap();
    let maps = informers(&cluster).get(Source::<ConfigMap>::new());
    let events = Notes::default();
    let _subscription = maps.subscribe({
        let events = events.clone();
        move |event| events.push(format!("{} {}", event.change(), event.object().name_any()))
    });
    cluster.settled().await;
    assert!(maps.has_synced());
    cluster.apply(map("two", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(names(&maps), ["one", "two"]);
    assert_eq!(reads(&cluster, "/api/v1/configmaps"), ["stream"], "one request for all");
    assert_eq!(events.take(), ["listed one", "created two"]);
}

/// A cache is filled from a server that refuses to stream, and from one that ignores the parameter.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what the server is asked is counted, and it is made to fail")]
async fn pages_are_the_fallback_for_servers_that_do_not_stream() {
    for refuses in [true, false] {
        let cluster = quiet(2).await;
        for at in 0..1203 {
            cluster.apply(map(&format!("m{at}"), 1)).await.unwrap();
        }
        let pages = Arc::new(AtomicUsize::new(0));
        let client = seam::around(cluster.client(), {
            let pages = pages.clone();
            move |request| {
                let query = request.uri().query().unwrap_or_default().to_owned();
                pages.fetch_add(usize::from(query.contains("limit=500")), Ordering::SeqCst);
                match query.contains("sendInitialEvents") {
                    true if refuses => Answer::Refuse(422, "sendInitialEvents is forbidden for watch"),
                    true => Answer::Silence,
                    false => Answer::Pass,
                }
            }
        });
        let informers = Informers::new(client, cluster.env().clone());
        let maps = informers.get(Source::<ConfigMap>::new());
        maps.wait_synced(Duration::from_secs(60)).await.unwrap();
        assert_eq!(maps.cache().len(), 1203);
        assert_eq!(pages.load(Ordering::SeqCst), 3, "500 at a time");
        cluster.apply(map("later", 1)).await.unwrap();
        cluster.settled().await;
        assert!(maps.cache().get(&Request::namespaced("default", "later")).is_some());
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn pages_can_be_asked_for(cluster: Cluster) {
    let informers = informers(&cluster);
    informers.list_in_pages();
    let maps = informers.get(Source::<ConfigMap>::new().namespace(cluster.namespace()));
    maps.wait_synced(Duration::from_secs(10)).await.unwrap();
    cluster.settled().await;
    assert_eq!(reads(&cluster, &collection(&cluster, "configmaps")), ["list", "watch"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what the server is asked is counted, and it is made to fail")]
async fn a_watch_that_ends_is_resumed_and_a_version_that_is_too_old_is_listed_again() {
    let cluster = quiet(4).await;
    let maps = informers(&cluster).get(Source::<ConfigMap>::new());
    cluster.settled().await;
    cluster.advance(Duration::from_secs(2)).await;
    cluster.cut_watch(Matcher::any());
    cluster.settled().await;
    assert_eq!(reads(&cluster, "/api/v1/configmaps"), ["stream", "watch"], "it goes on where it was");
    cluster.cut_watch(Matcher::any());
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.compact();
    cluster.settled().await;
    assert_eq!(reads(&cluster, "/api/v1/configmaps"), ["stream", "watch", "watch", "stream"]);
    assert_eq!(names(&maps), ["one"]);
}

/// An object that was replaced while no watch was open is reported as a deletion and a creation, for subscribers that
/// track uids.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what the server is asked is counted, and it is made to fail")]
async fn a_relist_tells_of_an_object_that_was_replaced_as_of_two() {
    let cluster = quiet(12).await;
    cluster.apply(map("one", 1)).await.unwrap();
    let maps = informers(&cluster).get(Source::<ConfigMap>::new());
    let (events, _subscription) = told(&maps);
    cluster.settled().await;
    assert_eq!(events.take(), ["listed one with data"]);
    cluster.cut_watch(Matcher::any());
    cluster.delete::<ConfigMap>("one").await.unwrap();
    cluster.apply(map("one", 2)).await.unwrap();
    cluster.compact();
    cluster.settled().await;
    assert_eq!(events.take(), ["deleted one with data", "created one with data"]);
}

fn labelled(name: &str, app: &str) -> ConfigMap {
    let mut map = map(name, 1);
    map.labels_mut().insert("app".into(), app.into());
    map
}

/// Notes the events of an informer.
fn told(informer: &Informer<ConfigMap>) -> (Notes, Subscription) {
    let notes = Notes::default();
    let pushed = notes.clone();
    let subscription = informer.subscribe(move |event| {
        let map = event.object();
        let data = if map.data.is_some() { " with data" } else { "" };
        pushed.push(format!("{} {}{data}", event.change(), map.name_any()));
    });
    (notes, subscription)
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn selectors_decide_what_is_cached_and_leaving_one_is_a_deletion(cluster: Cluster) {
    for pages in [false, true] {
        for map in [labelled("one", "web"), labelled("two", "web"), map("three", 1)] {
            cluster.apply(map).await.unwrap();
        }
        let informers = informers(&cluster);
        if pages {
            informers.list_in_pages();
        }
        let source = || Source::<ConfigMap>::new().namespace(cluster.namespace());
        let web = informers.get(source().labels("app=web"));
        let one = informers.get(source().fields("metadata.name=one"));
        let (events, _subscription) = told(&web);
        cluster.settled().await;
        assert_eq!((names(&web), names(&one)), (vec!["one".into(), "two".into()], vec!["one".into()]));
        cluster.apply(map("two", 1)).await.unwrap();
        cluster.apply(map("three", 2)).await.unwrap();
        cluster.settled().await;
        assert_eq!((names(&web), names(&one)), (vec!["one".to_owned()], vec!["one".to_owned()]));
        let wanted = ["listed one with data", "listed two with data", "deleted two with data"];
        assert_eq!(events.take(), wanted, "in pages: {pages}");
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6)]
async fn what_a_transform_drops_is_never_cached_nor_told(cluster: Cluster) {
    cluster.apply(labelled("listed", "web")).await.unwrap();
    let informers = informers(&cluster);
    informers.strip_managed_fields();
    informers.transform(|map: &mut ConfigMap| map.data = None);
    let maps = informers.get(Source::<ConfigMap>::new().namespace(cluster.namespace()).labels("app=web"));
    let secrets = informers.get(Source::<Secret>::new().namespace(cluster.namespace()));
    let (events, _subscription) = told(&maps);
    cluster.settled().await;
    cluster.apply(labelled("watched", "web")).await.unwrap();
    let mut secret = Secret::default();
    secret.metadata.name = Some("one".into());
    secret.string_data = Some([("a".to_owned(), "b".to_owned())].into());
    cluster.apply(secret).await.unwrap();
    cluster.settled().await;
    assert_eq!(names(&maps), ["listed", "watched"]);
    assert!(maps.cache().list().iter().all(|map| map.data.is_none() && map.managed_fields().is_empty()));
    let secret = &secrets.cache().list()[0];
    assert!(secret.data.is_some() && secret.managed_fields().is_empty(), "transforms are by kind");
    cluster.delete::<ConfigMap>("watched").await.unwrap();
    cluster.settled().await;
    assert_eq!(events.take(), ["listed listed", "created watched", "deleted watched"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7)]
async fn an_index_finds_objects_by_owner_by_label_and_by_any_function(cluster: Cluster) {
    let parent = cluster.apply(map("parent", 0)).await.unwrap();
    for name in ["a", "b"] {
        let mut child = map(name, 7);
        child.labels_mut().insert("app".into(), name.into());
        evenkeel_runtime::owner::set_owner_reference(&parent, &mut child).unwrap();
        cluster.apply(child).await.unwrap();
    }
    let by_value = Index::new("value", |map: &ConfigMap| vec![value(map).to_owned()]);
    let source = Source::new().namespace(cluster.namespace());
    let maps = informers(&cluster).get(source.index(Index::by_owner()).index(Index::by_label("app")));
    cluster.settled().await;
    // An index that is added later is filled from the existing objects.
    maps.add_index(by_value);
    let found = |objects: Result<Vec<Arc<ConfigMap>>, ContextError>| {
        objects.unwrap().iter().map(|map| map.name_any()).collect::<Vec<_>>()
    };
    let cache = maps.cache();
    assert_eq!(found(cache.owned_by(&parent.uid().unwrap())), ["a", "b"]);
    assert_eq!(found(cache.by_index("evenkeel/label:app", "b")), ["b"]);
    assert_eq!(found(cache.by_index("value", "7")), ["a", "b"]);
    assert!(!cache.has_index("no such index"));
    let told = cache.by_index("no such index", "7").unwrap_err().to_string();
    assert_eq!(
        told,
        "read by index \"no such index\": the cache has evenkeel/owner-uid, evenkeel/label:app, value; declare it with \
         Controller::index, Controller::owns (for owners) or Source::index"
    );
}

/// While a reader iterates over a snapshot, the watch writes to the cache, and the snapshot stays as it was.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 13)]
async fn a_snapshot_does_not_hold_up_the_watch(cluster: Cluster) {
    for name in ["a", "b"] {
        cluster.apply(labelled(name, "web")).await.unwrap();
    }
    let source = Source::<ConfigMap>::new().namespace(cluster.namespace()).labels("app=web");
    let maps = informers(&cluster).get(source);
    cluster.settled().await;
    let snapshot = maps.cache().snapshot();
    let mut rest = snapshot.iter();
    assert_eq!(rest.next().map(|map| map.name_any()).as_deref(), Some("a"));
    cluster.delete::<ConfigMap>("b").await.unwrap();
    cluster.apply(labelled("c", "web")).await.unwrap();
    cluster.settled().await;
    assert_eq!(names(&maps), ["a", "c"], "what is written is there for others");
    assert_eq!(rest.map(|map| map.name_any()).collect::<Vec<_>>(), ["b"]);
}

/// A late subscriber gets each existing object once.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 11)]
async fn a_late_subscriber_begins_with_what_is_there(cluster: Cluster) {
    let source = Source::<ConfigMap>::new().namespace(cluster.namespace()).labels("app=web");
    let maps = informers(&cluster).get(source);
    for name in ["b", "a"] {
        cluster.apply(labelled(name, "web")).await.unwrap();
    }
    cluster.settled().await;
    let (events, subscription) = told(&maps);
    assert_eq!(events.take(), ["listed a with data", "listed b with data"]);
    cluster.delete::<ConfigMap>("a").await.unwrap();
    cluster.settled().await;
    assert_eq!(events.take(), ["deleted a with data"]);
    drop(subscription);
    cluster.delete::<ConfigMap>("b").await.unwrap();
    cluster.settled().await;
    assert!(events.take().is_empty());
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 8)]
async fn two_controllers_of_one_kind_share_one_watch(cluster: Cluster) {
    let notes = Notes::default();
    let controller = |name: &str| {
        Controller::new(name, |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
            ctx.state().push(format!("{} {}", ctx.controller(), map.name_any()));
            Ok::<_, Error>(Action::await_change())
        })
        .reads::<Secret>()
        .state(notes.clone())
    };
    let manager =
        Manager::new(cluster.client()).with_env(cluster.env().clone()).namespaces([cluster.namespace()]);
    let manager = manager.controller(controller("first")).controller(controller("second"));
    let _running = tokio::spawn(manager.run_until(std::future::pending()));
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.settled().await;
    let mut noted = notes.take();
    noted.sort();
    assert_eq!(noted, ["first one", "second one"]);
    assert_eq!(reads(&cluster, &collection(&cluster, "configmaps?")), ["stream"]);
    assert_eq!(reads(&cluster, &collection(&cluster, "secrets?")), ["stream"]);
}

/// The server goes away, its objects change while no watch is open, and it comes back without its old revisions.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what the server is asked is counted, and it is made to fail")]
async fn a_restart_of_the_api_server_is_survived() {
    let cluster = quiet(9).await;
    let notes = Notes::default();
    cluster.apply(map("changes", 1)).await.unwrap();
    cluster.apply(map("goes", 1)).await.unwrap();
    cluster.run({
        let notes = notes.clone();
        move || {
            Controller::<ConfigMap, _>::requests("survivor", |request: Request, ctx: Ctx<Notes>| async move {
                let seen = ctx.get_at::<ConfigMap>(&request)?;
                ctx.state().push(format!(
                    "{} {}",
                    request.name,
                    seen.map_or("gone".into(), |map| value(&map).to_owned())
                ));
                Ok::<_, Error>(Action::await_change())
            })
            .state(notes.clone())
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["changes 1", "goes 1"]);
    cluster.fail(Matcher::any().by("survivor"), Fault::InternalError, 2);
    cluster.cut_watch(Matcher::any());
    cluster.apply(map("changes", 2)).await.unwrap();
    cluster.delete::<ConfigMap>("goes").await.unwrap();
    cluster.apply(map("comes", 3)).await.unwrap();
    cluster.compact();
    cluster.settled().await;
    let mut after = notes.take();
    after.sort();
    assert_eq!(after, ["changes 2", "comes 3", "goes gone"]);
}

/// Cuts the stream in the middle of each line that the server sends, including those of the list.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "what the server is asked is counted, and it is made to fail")]
async fn a_watch_that_is_cut_at_any_line_ends_with_the_servers_state() {
    for cut in 0.. {
        let cluster = quiet(10).await;
        // The last objects of the list are the oldest, and `e` never changes: no watch from a later version would bring it.
        for name in ["e", "c", "b", "a"] {
            cluster.apply(map(name, 0)).await.unwrap();
        }
        let (client, given) = seam::cut_once_after(cluster.client(), cut);
        let maps = Informers::new(client, cluster.env().clone()).get(Source::<ConfigMap>::new());
        cluster.settled().await;
        cluster.apply(map("a", 1)).await.unwrap();
        cluster.delete::<ConfigMap>("b").await.unwrap();
        cluster.settled().await;
        cluster.apply(map("b", 2)).await.unwrap();
        cluster.apply(map("d", 2)).await.unwrap();
        cluster.delete::<ConfigMap>("c").await.unwrap();
        cluster.settled().await;
        let describe =
            |map: &ConfigMap| (map.name_any(), map.uid(), map.resource_version(), value(map).to_owned());
        let cached: Vec<_> = maps.cache().list().iter().map(|map| describe(map)).collect();
        let there: Vec<_> = cluster.list::<ConfigMap>().await.unwrap().iter().map(describe).collect();
        assert_eq!(cached, there, "cut after {cut} lines");
        if given.load(Ordering::SeqCst) <= cut {
            assert_eq!(cut, 10, "four objects, the bookmark after them, and five changes");
            break;
        }
    }
}

/// The existing objects arrive as the beginning of the watch, on a real server too, and there is no other request.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 11)]
async fn one_request_brings_the_list_and_the_watch(cluster: Cluster) {
    cluster.apply(map("a", 1)).await.unwrap();
    let (asked, client) = (Notes::default(), cluster.client());
    let noting = asked.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        noting.push(request.uri().query().unwrap_or_default());
        let client = client.clone();
        async move { client.send(request).await }
    });
    let informers = Informers::new(kube::Client::new(service, "default"), cluster.env().clone());
    let maps = informers.get(Source::<ConfigMap>::new().namespace(cluster.namespace()));
    maps.wait_synced(Duration::from_secs(10)).await.unwrap();
    let has = |name: &str| maps.cache().get(&Request::namespaced(cluster.namespace(), name)).is_some();
    assert!(has("a"));
    cluster.apply(map("b", 1)).await.unwrap();
    while !has("b") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let asked = asked.take();
    assert!(asked.len() == 1 && asked[0].contains("sendInitialEvents=true"), "{asked:?}");
}
