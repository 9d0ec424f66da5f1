//! Several managers, one leader.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher};
use evenkeel_runtime::{Action, Context, Controller, Error, LeaderElection, Manager, ManagerError};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Notes, map, quiet};

/// A manager that notes who reconciled what.
fn candidate(
    cluster: &Cluster,
    name: &'static str,
    notes: &Notes,
    stop: &CancellationToken,
) -> JoinHandle<Result<(), ManagerError>> {
    let notes = notes.clone();
    let controller = Controller::new(name, move |_: Arc<ConfigMap>, ctx: Context<Notes>| async move {
        ctx.state().push(format!("{name} {}", ctx.request()));
        Ok::<_, Error>(Action::done())
    })
    .state(notes);
    let election = LeaderElection::new("default", "operator").identity(name);
    let manager = Manager::new(cluster.client_as(name, ["system:masters"]))
        .env(cluster.env().clone())
        .leader_election(election)
        .controller(controller);
    let stop = stop.clone();
    tokio::spawn(manager.run_until(async move { stop.cancelled().await }))
}

async fn holder(cluster: &Cluster) -> String {
    let lease: Lease = cluster.get("operator").await.unwrap();
    lease.spec.unwrap().holder_identity.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_works_and_a_stop_passes_the_lease_on() {
    let cluster = quiet(1).await;
    let notes = Notes::default();
    let (stop_one, stop_two) = (CancellationToken::new(), CancellationToken::new());
    let one = candidate(&cluster, "one", &notes, &stop_one);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _two = candidate(&cluster, "two", &notes, &stop_two);
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.apply(map("a", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["one default/a"]);
    assert_eq!(holder(&cluster).await, "one");

    stop_one.cancel();
    one.await.unwrap().unwrap();
    assert_eq!(holder(&cluster).await, "", "given back at the stop");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(holder(&cluster).await, "two");
    assert_eq!(notes.take(), ["two default/a"], "its caches were warm: it begins with what is there");
    stop_two.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_ends_before_another_begins() {
    let cluster = quiet(2).await;
    let notes = Notes::default();
    let stop = CancellationToken::new();
    let one = candidate(&cluster, "one", &notes, &stop);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _two = candidate(&cluster, "two", &notes, &stop);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(holder(&cluster).await, "one");
    let start = tokio::time::Instant::now();
    cluster.fail(Matcher::any().by("one").kind::<Lease>(), Fault::InternalError, 1000);
    cluster.fail(Matcher::any().path("/leases/operator").by("one"), Fault::InternalError, 1000);
    let error = loop {
        assert_eq!(holder(&cluster).await, "one", "nobody takes it while the first may still work");
        if one.is_finished() {
            break one.await.unwrap().unwrap_err();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let ended = start.elapsed();
    assert!(ended <= Duration::from_secs(12), "{ended:?}");
    assert!(error.to_string().contains("could not be renewed within 10s"), "{error}");
    while holder(&cluster).await != "two" {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(start.elapsed() < Duration::from_secs(25));
    }
    assert!(start.elapsed() > ended);
}
