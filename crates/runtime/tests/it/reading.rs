//! Reads of a reconcile: from which cache, and from the server.

use std::sync::Arc;

use evenkeel_cluster::Cluster;
use evenkeel_runtime::{Action, Controller, Ctx, Error, Manager, Source};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt;
use kube::core::PartialObjectMeta;

use crate::seam::{self, Answer};
use crate::{Notes, map};

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.into());
    secret.labels_mut().insert("read".into(), name.into());
    secret
}

fn names(secrets: &[Arc<Secret>]) -> String {
    secrets.iter().map(|secret| secret.name_any()).collect::<Vec<_>>().join(",")
}

/// If a controller declared several caches of one kind, it reads from the one with the widest scope.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn a_list_is_of_all_or_of_one_namespace(cluster: Cluster) {
    let elsewhere = format!("{}-b", cluster.namespace());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(elsewhere.clone());
    cluster.apply(namespace).await.unwrap();
    for name in ["one", "two"] {
        cluster.apply(secret(name)).await.unwrap();
    }
    cluster.namespaced(elsewhere.as_str()).apply(secret("three")).await.unwrap();
    cluster.apply(map("one", 1)).await.unwrap();
    let notes = Notes::default();
    cluster.run({
        let (notes, own) = (notes.clone(), cluster.namespace().to_owned());
        move || {
            let both = || Source::<Secret>::new().namespace(&own).namespace(&elsewhere);
            let state = (notes.clone(), own.clone(), elsewhere.clone());
            Controller::new("lists", |_: Arc<ConfigMap>, ctx: Ctx<(Notes, String, String)>| async move {
                let (notes, own, elsewhere) = ctx.state();
                notes.push(names(&ctx.list::<Secret>()?));
                notes.push(names(&ctx.list_in::<Secret>(own)?));
                notes.push(names(&ctx.list_in::<Secret>(elsewhere)?));
                Ok::<_, Error>(Action::await_change())
            })
            .reads_with(both().labels("read=two"))
            .reads_with(both())
            .reads_with(both().fields("metadata.name=three"))
            .state(state)
        }
    });
    cluster.settled().await;
    assert_eq!(notes.take(), ["one,two,three", "one,two", "three"]);
}

/// A read from the server returns `None` for a missing object, and a read of metadata requests metadata only.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn a_live_read_finds_what_is_there_now(cluster: Cluster) {
    cluster.apply(map("one", 1)).await.unwrap();
    cluster.apply(secret("one")).await.unwrap();
    let asked = Notes::default();
    let noting = asked.clone();
    let client = seam::around(cluster.client(), move |request| {
        if request.uri().path().contains("/secrets/") {
            let accept = request.headers().get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok());
            let partial = accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata"));
            noting.push(if partial { "metadata" } else { "whole" });
        }
        Answer::Pass
    });
    let notes = Notes::default();
    let controller = Controller::new("looks", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
        let missing = ctx.fetch::<Secret>("missing").await?.is_none();
        let whole = ctx.fetch::<Secret>("one").await?.is_some();
        let metadata = ctx.fetch::<PartialObjectMeta<Secret>>("one").await?;
        let labels = metadata.map(|secret| secret.labels()["read"].clone());
        ctx.state().push(format!("{missing} {whole} {labels:?}"));
        Ok::<_, Error>(Action::await_change())
    });
    let manager = Manager::new(client).with_env(cluster.env().clone()).namespaces([cluster.namespace()]);
    let manager = manager.controller(controller.max_concurrent(0).state(notes.clone()));
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    cluster.settled().await;
    assert_eq!(notes.take(), ["true true Some(\"one\")"], "one worker is the least");
    assert_eq!(asked.take(), ["whole", "whole", "metadata"]);
    running.abort();
}
