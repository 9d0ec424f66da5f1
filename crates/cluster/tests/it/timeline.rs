//! The timeline that a failed test prints.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher, Moment};
use evenkeel_runtime::{Action, Controller, Ctx, Result, Stage};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::mirror::{self, NAME, config};

/// The lines of the timeline without their times.
fn told(cluster: &Cluster) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    cluster.timeline().lines().map(words).collect()
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn it_tells_writes_causes_and_disturbances_in_order(cluster: Cluster) -> kube::Result<()> {
    cluster.run(mirror::controller);
    cluster.settled().await;
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    cluster.restart(NAME);
    cluster.settled().await;
    cluster.advance(Duration::from_secs(5)).await;
    let told = told(&cluster);
    let mut lines = told.iter();
    for expected in [
        "client apply configmaps/a → 201, revision",
        "mirror woken for default/a: ConfigMap default/a created",
        "mirror apply secrets/a → 201, revision",
        "test mirror crashed and starts again",
        "mirror woken for default/a: ConfigMap default/a listed",
        "test lets 5s pass",
    ] {
        assert!(lines.any(|line| line.starts_with(expected)), "no {expected:?} in order in {told:#?}");
    }
    assert!(!told.iter().any(|line| line.contains(" watch ") || line.contains(" list ")), "{told:#?}");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn it_tells_faults_and_failed_reconciles(cluster: Cluster) -> kube::Result<()> {
    cluster.fail(Matcher::writes().by("fails"), Fault::InternalError, 1);
    cluster.run(|| Controller::new("fails", fails));
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    let told = told(&cluster);
    let tells =
        |start: &str, end: &str| told.iter().any(|line| line.starts_with(start) && line.ends_with(end));
    assert!(tells("fails apply configmaps/b", "→ 500 (injected)"), "{told:#?}");
    assert!(
        tells("fails failed for default/a: apply ConfigMap default/b: ", "occurred: injected"),
        "{told:#?}"
    );
    assert!(tells("fails woken for default/a: retry", ""), "{told:#?}");
    Ok(())
}

async fn fails(map: Arc<ConfigMap>, ctx: Ctx) -> Result<Action> {
    if map.metadata.name.as_deref() == Some("a") {
        ctx.apply(config("b", "two")).await?;
    }
    Ok(Action::await_change())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn an_observer_sees_why_an_operator_was_woken(cluster: Cluster) -> kube::Result<()> {
    cluster.run(mirror::controller);
    cluster.settled().await;
    let mut seen = cluster.observe();
    cluster.apply(config("a", "one")).await?;
    cluster.settled().await;
    let mut woken = Vec::new();
    while let Ok(moment) = seen.try_recv() {
        if let Moment::Reconcile(reconcile) = moment
            && reconcile.stage == Stage::Began
        {
            woken.push(reconcile.causes);
        }
    }
    assert_eq!(woken.first().map(String::as_str), Some("ConfigMap default/a created"), "{woken:?}");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster)]
async fn it_begins_with_the_test(cluster: Cluster) {
    assert_eq!(cluster.timeline(), "");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn of_a_long_story_it_tells_the_end(cluster: Cluster) -> kube::Result<()> {
    for number in 0..60 {
        cluster.apply(config(&format!("map-{number}"), "one")).await?;
    }
    let told = told(&cluster);
    assert_eq!((told.len(), told[0].as_str()), (41, "and more before"));
    assert!(told[1].starts_with("client apply configmaps/map-20 "), "{told:#?}");
    assert!(told[40].starts_with("client apply configmaps/map-59 "), "{told:#?}");
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
async fn it_tells_which_watches_were_cut(cluster: Cluster) {
    cluster.run(mirror::controller);
    cluster.settled().await;
    cluster.cut_watch(Matcher::any().by(NAME).path("/secrets"));
    cluster.compact();
    let told = told(&cluster);
    assert_eq!(
        told,
        [
            "test cuts 1 watches: requests of */secrets* by mirror",
            "test compacts the store up to its current revision"
        ]
    );
}
