//! The defaults of a test's cluster, and what each option changes.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, testing};
use evenkeel_runtime::{Action, Controller, Ctx, Source};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::Patch;
use serde_json::json;

use crate::mirror::config;

fn pod(name: &str) -> Pod {
    let pod =
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    serde_json::from_value(pod).expect("it is one")
}

fn deployment(name: &str) -> Deployment {
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": pod(name).spec});
    let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("it is one")
}

#[evenkeel_macros::test(crate = evenkeel_cluster, embedded = "the nodes are counted")]
async fn unless_switched_off_there_are_controllers_and_a_node(cluster: Cluster) -> kube::Result<()> {
    assert_eq!(cluster.list::<Node>().await?.len(), 1);
    cluster.apply(deployment("web")).await?;
    cluster.settled().await;
    cluster.assert_has::<Deployment>("web", json!({"status": {"readyReplicas": 1}})).await;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, nodes = 3, embedded = "the nodes are counted")]
async fn there_are_as_many_nodes_as_asked_for(cluster: Cluster) -> kube::Result<()> {
    assert_eq!(cluster.list::<Node>().await?.len(), 3);
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, embedded = "there must be no controllers")]
async fn without_controllers_nothing_is_made_and_nobody_writes(cluster: Cluster) -> kube::Result<()> {
    cluster.apply(deployment("web")).await?;
    cluster.mark();
    cluster.settled().await;
    cluster.assert_no_writes();
    cluster.assert_none::<ReplicaSet>().await;
    cluster.assert_none::<Node>().await;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, scheduler = false, embedded = "there must be no scheduler")]
async fn without_a_scheduler_pods_get_no_node(cluster: Cluster) -> kube::Result<()> {
    cluster.apply(pod("a")).await?;
    cluster.settled().await;
    cluster.assert_has::<Pod>("a", json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}})).await;
    Ok(())
}

#[evenkeel_macros::test(crate = evenkeel_cluster, seed = 7, embedded = "a seed is for virtual time")]
async fn the_seed_is_the_one_that_was_asked_for(cluster: Cluster) {
    assert_eq!(cluster.env().seed(), Some(7));
}

#[test]
fn without_records_no_request_is_kept() {
    let run = testing::run(testing::options().records(false), |cluster| async move {
        cluster.apply(config("a", "one")).await?;
        Ok::<_, kube::Error>((cluster.requests().len(), cluster.writes().len()))
    });
    assert_eq!(run.expect("the request succeeds"), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn settled_waits_as_long_as_it_may_and_says_what_is_pending() {
    for limit in [Duration::from_secs(10), Duration::from_secs(100)] {
        let cluster = Cluster::builder().controllers(false).settle_limit(limit).start().await;
        let cluster = cluster.expect("a cluster in memory starts");
        let deadline = cluster.env().ledger().deadline("a look at the moon");
        deadline.set(Some(tokio::time::Instant::now() + Duration::from_secs(1000)));
        let before = tokio::time::Instant::now();
        let told = cluster.try_settled().await.expect_err("the moon is far").to_string();
        assert!(before.elapsed() <= limit, "{:?}", before.elapsed());
        assert!(told.starts_with(&format!("not settled within {limit:?}; still pending:\n")), "{told}");
        assert!(told.contains("a look at the moon"), "{told}");
    }
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(expected = "not settled within 60s; still pending:\n  a look at the moon")]
async fn settled_fails_after_a_minute_with_what_is_pending(cluster: Cluster) {
    let deadline = cluster.env().ledger().deadline("a look at the moon");
    deadline.set(Some(tokio::time::Instant::now() + Duration::from_secs(1000)));
    cluster.settled().await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false)]
#[should_panic(expected = "idle() at crates/cluster/tests/it/options.rs:")]
async fn idle_fails_where_it_was_called(cluster: Cluster) {
    let station = cluster.env().ledger().station("somebody");
    let _work = station.enter_with("thinks for ever");
    cluster.idle().await;
}

/// Writes in every reconcile, and so triggers itself.
async fn restless(map: Arc<ConfigMap>, ctx: Ctx) -> evenkeel_runtime::Result<Action> {
    let seen = json!({"metadata": {"annotations": {"seen": map.metadata.resource_version}}});
    ctx.patch(&map, &Patch::Merge(seen)).await?;
    Ok(Action::await_change())
}

/// An operator that triggers itself takes no virtual time, so that a test would wait forever.
#[tokio::test(start_paused = true)]
async fn an_operator_that_wakes_itself_is_not_waited_for() {
    let cluster = Cluster::builder().controllers(false).start().await.expect("a cluster in memory starts");
    cluster.run(|| Controller::new_with("restless", Source::new().labels("mirror"), restless));
    cluster.apply(config("a", "one")).await.expect("it is stored");
    let told = cluster.try_settled().await.expect_err("it never rests").to_string();
    assert!(
        told.starts_with(
            "not settled: reconciles by restless of default/a go on and on without time passing; still pending:\n"
        ),
        "{told}"
    );
    assert!(
        cluster.timeline().contains("restless                 patch configmaps/a → 200, revision"),
        "{told}"
    );
}
