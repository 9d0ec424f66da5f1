//! Leader election among several managers.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Exchange, Fault, Matcher};
use evenkeel_runtime::{Action, Controller, Ctx, Env, Error, LeaderElection, Manager, ManagerError};
use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Notes, map, value};

/// A process that takes part in the election, and notes what it reconciles.
struct Candidate {
    running: JoinHandle<Result<(), ManagerError>>,
    stop: CancellationToken,
}

impl Candidate {
    fn start(cluster: &Cluster, name: &'static str, notes: &Notes) -> Self {
        Self::start_in(cluster, name, notes, cluster.env().clone())
    }

    /// Starts a candidate with its own clock.
    fn start_in(cluster: &Cluster, name: &'static str, notes: &Notes, env: Env) -> Self {
        let election = LeaderElection::new(cluster.namespace(), "operator").identity(name);
        let manager = Manager::new(cluster.client_as(name, ["system:masters"]))
            .with_env(env)
            .namespaces([cluster.namespace()])
            .leader_election(election)
            .controller(Controller::new(name, reconcile).state((name, notes.clone())));
        Self::run(manager)
    }

    fn run(manager: Manager) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let running = tokio::spawn(manager.run_until(async move { stopped.cancelled().await }));
        Self { running, stop }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }

    fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// The error that the process ended with, if it has ended.
    fn ended(&mut self) -> Option<String> {
        let ended = (&mut self.running).now_or_never()?;
        Some(ended.unwrap().map_or_else(|error| error.to_string(), |()| "ended in peace".into()))
    }

    async fn error(self) -> String {
        self.running.await.unwrap().unwrap_err().to_string()
    }
}

/// Starts two processes: "one" leads, "two" is the standby.
async fn leader_and_standby(cluster: &Cluster, notes: &Notes) -> (Candidate, Candidate) {
    leader_and_standby_in(cluster, notes, [cluster.env(), cluster.env()]).await
}

/// Starts two processes with clocks of their own: "one" leads, "two" is the standby.
async fn leader_and_standby_in(cluster: &Cluster, notes: &Notes, envs: [&Env; 2]) -> (Candidate, Candidate) {
    let one = Candidate::start_in(cluster, "one", notes, envs[0].clone());
    held_by(cluster, "one").await;
    (one, Candidate::start_in(cluster, "two", notes, envs[1].clone()))
}

/// Notes which process works. A map with the value "freeze" stops the whole process for a minute during the reconcile, a
/// map with the value "slow" takes some time.
async fn reconcile(map: Arc<ConfigMap>, ctx: Ctx<(&'static str, Notes)>) -> Result<Action, Error> {
    let (name, notes) = ctx.state();
    notes.push(format!("{name} {}", ctx.request()));
    if value(&map) == "slow" {
        seconds(15).await;
        notes.push("ended");
    }
    if value(&map) == "freeze" {
        // The clock advances while no task of the process runs.
        let _ = tokio::time::advance(Duration::from_secs(60)).now_or_never();
        let annotation = serde_json::json!({ "metadata": { "annotations": { "by": name } } });
        let written = ctx.patch(&map, &kube::core::params::Patch::Merge(annotation)).await;
        notes.push(written.map_or_else(|error| error.to_string(), |_| "written".into()));
    }
    Ok(Action::await_change())
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn holder(cluster: &Cluster) -> String {
    let lease: Option<Lease> = cluster.get_opt("operator").await.unwrap();
    lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
}

/// Whether this candidate leads. The creator of a lease leads from its first renewal on.
async fn leads(cluster: &Cluster, name: &str) -> bool {
    let lease: Option<Lease> = cluster.get_opt("operator").await.unwrap();
    let Some(spec) = lease.and_then(|lease| lease.spec) else { return false };
    let proven = spec.lease_transitions > Some(0) || spec.renew_time > spec.acquire_time;
    spec.holder_identity.as_deref() == Some(name) && proven
}

/// Waits until this candidate leads. Returns how long that took.
async fn held_by(cluster: &Cluster, name: &str) -> Duration {
    let start = Instant::now();
    while !leads(cluster, name).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(start.elapsed() < Duration::from_secs(40), "{name} does not lead");
    }
    start.elapsed()
}

fn asked(cluster: &Cluster, by: &str, path: &str) -> Vec<Exchange> {
    let asked = |request: &Exchange| &*request.by == by && request.path.contains(path);
    cluster.requests().into_iter().filter(asked).collect()
}

/// Lets the server fail all requests of `name`.
fn cut_off(cluster: &Cluster, name: &str, times: usize) {
    cluster.fail(Matcher::any().by(name), Fault::InternalError, times);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn only_the_leader_works_and_a_stop_passes_the_lease_on(cluster: Cluster) {
    let notes = Notes::default();
    let (mut one, two) = leader_and_standby(&cluster, &notes).await;
    seconds(20).await;
    cluster.apply(map("a", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(one.ended(), None);
    assert_eq!(notes.take(), ["one default/a"]);
    assert_eq!(holder(&cluster).await, "one");

    let lists = asked(&cluster, "two", "configmaps?").len();
    assert!(lists > 0, "a standby fills its caches");
    one.stop().await;
    assert_eq!(holder(&cluster).await, "", "given back at the stop");
    assert!(held_by(&cluster, "two").await < Duration::from_secs(3), "and taken at the next look");
    cluster.settled().await;
    assert_eq!(notes.take(), ["two default/a"], "it begins with what is there");
    assert_eq!(asked(&cluster, "two", "configmaps?").len(), lists, "from the caches that it had");
    two.stop().await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2)]
async fn a_leader_that_cannot_renew_ends_before_another_begins(cluster: Cluster) {
    let notes = Notes::default();
    let (one, two) = leader_and_standby(&cluster, &notes).await;
    seconds(5).await;
    let start = Instant::now();
    cut_off(&cluster, "one", 10_000);
    while !one.has_ended() {
        assert_eq!(holder(&cluster).await, "one", "nobody takes it while the first may still work");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let ended = start.elapsed();
    assert!(ended <= Duration::from_secs(12), "{ended:?}");
    let error = one.error().await;
    assert!(error.starts_with("run leader election: lead as holder of lease"), "{error}");
    assert!(error.contains("could not be renewed within 10s"), "{error}");
    held_by(&cluster, "two").await;
    assert!(start.elapsed() > ended && start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    two.stop().await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn a_server_that_is_away_for_less_than_the_deadline_changes_nothing(cluster: Cluster) {
    let notes = Notes::default();
    let (one, two) = leader_and_standby(&cluster, &notes).await;
    seconds(3).await;
    // A renewal is attempted every two seconds: three of them fail.
    cluster.fail(Matcher::any().by("one").kind::<Lease>(), Fault::InternalError, 3);
    cluster.fail(Matcher::any().by("two").kind::<Lease>(), Fault::InternalError, 3);
    seconds(20).await;
    assert_eq!(holder(&cluster).await, "one");
    cluster.apply(map("a", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["one default/a"]);
    two.stop().await;
    one.stop().await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn a_server_that_is_away_for_longer_ends_the_leader_and_elects_anew_when_it_is_back(cluster: Cluster) {
    let notes = Notes::default();
    let (one, two) = leader_and_standby(&cluster, &notes).await;
    seconds(3).await;
    // Two requests every two to two and a half seconds: the candidate is cut off for at least fifteen seconds.
    cut_off(&cluster, "one", 10_000);
    cluster.fail(Matcher::any().by("two").kind::<Lease>(), Fault::InternalError, 8);
    while !one.has_ended() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(holder(&cluster).await, "one", "nobody could write that it is over");
    let sent = asked(&cluster, "one", "/").len();
    held_by(&cluster, "two").await;
    cluster.apply(map("a", 1)).await.unwrap();
    cluster.settled().await;
    assert_eq!(notes.take(), ["two default/a"]);
    assert_eq!(asked(&cluster, "one", "/").len(), sent, "who ended sends nothing any more");
    two.stop().await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5, embedded = "time stops for a process")]
async fn a_frozen_leader_sends_nothing_when_it_wakes(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("a", "freeze")).await.unwrap();
    let one = Candidate::start(&cluster, "one", &notes);
    let start = Instant::now();
    while !one.has_ended() {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(start.elapsed() < Duration::from_secs(100), "{:?}", notes.take());
    }
    let noted = notes.take();
    assert_eq!(noted[0], "one default/a");
    // The process may have ended before its write was refused.
    let refused = |note: &String| note.ends_with("not sent, this process is not the leader any more");
    assert!(noted[1..].iter().all(refused), "{noted:?}");
    let annotated = cluster.get::<ConfigMap>("a").await.unwrap().annotations().contains_key("by");
    assert!(!annotated, "a minute later another may have written");
    assert_eq!(asked(&cluster, "one", "/configmaps/a").len(), 0);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6, embedded = "clocks differ")]
async fn clocks_that_differ_by_an_hour_do_no_harm(cluster: Cluster) {
    let notes = Notes::default();
    // The clock of a new environment is behind the cluster's clock by the age of the cluster.
    tokio::time::advance(Duration::from_secs(3600)).await;
    let behind = Env::seeded(9);
    assert!(cluster.env().now().duration_since(behind.now()).as_secs() >= 3600);
    for envs in [[cluster.env(), &behind], [&behind, cluster.env()]] {
        let (one, two) = leader_and_standby_in(&cluster, &notes, envs).await;
        for _ in 0..60 {
            seconds(1).await;
            assert_eq!(holder(&cluster).await, "one", "it renews, whatever time it says it is");
        }
        one.running.abort();
        let waited = held_by(&cluster, "two").await;
        assert!((Duration::from_secs(12)..Duration::from_secs(18)).contains(&waited), "{waited:?}");
        two.stop().await;
    }
}

/// A candidate that compared the times in the lease with its own clock would take the lease too early, or never.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 10, embedded = "clocks jump")]
async fn wall_clocks_that_jump_do_no_harm(cluster: Cluster) {
    let notes = Notes::default();
    let worlds = [Env::seeded(1), Env::seeded(2)];
    let (one, two) = leader_and_standby_in(&cluster, &notes, [&worlds[0], &worlds[1]]).await;
    let minutes = jiff::SignedDuration::from_mins;
    for (world, by) in [(0, minutes(90)), (1, minutes(90)), (0, minutes(-180)), (1, minutes(-300))] {
        worlds[world].shift_clock(by);
        for _ in 0..20 {
            seconds(1).await;
            assert_eq!(holder(&cluster).await, "one", "after {by} in process {world}");
        }
    }
    worlds[1].shift_clock(minutes(600));
    one.running.abort();
    let waited = held_by(&cluster, "two").await;
    assert!((Duration::from_secs(12)..Duration::from_secs(18)).contains(&waited), "{waited:?}");
    worlds[1].shift_clock(minutes(-600));
    seconds(20).await;
    assert!(!two.has_ended(), "its own renewals do not depend on the wall clock either");
    two.stop().await;
}

/// A manager without controllers, and functions that write with its fenced and its unfenced client.
fn bare(cluster: &Cluster) -> (Manager, impl AsyncFn() -> bool, impl AsyncFn() -> bool) {
    let election = LeaderElection::new(cluster.namespace(), "operator").identity("one");
    let client = cluster.client_as("one", ["system:masters"]);
    let manager = Manager::new(client).with_env(cluster.env().clone()).leader_election(election);
    let writes = |client: &kube::Client| {
        let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client.clone(), cluster.namespace());
        async move || {
            let patch = serde_json::json!({ "data": { "value": "written" } });
            maps.patch("a", &Default::default(), &kube::api::Patch::Merge(patch)).await.is_ok()
        }
    };
    let (fenced, free) = (writes(manager.client()), writes(manager.unfenced_client()));
    (manager, fenced, free)
}

/// The client of runnables used to be unfenced, unlike that of reconciles.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 11)]
async fn the_managers_client_sends_only_while_it_leads(cluster: Cluster) {
    cluster.apply(map("a", 1)).await.unwrap();
    let (manager, fenced, free) = bare(&cluster);
    assert!(!fenced().await && free().await, "nobody leads yet");
    let one = Candidate::run(manager);
    held_by(&cluster, "one").await;
    assert!(fenced().await);
    // Requests for the lease fail; all other requests are served.
    cluster.fail(Matcher::any().by("one").kind::<Lease>(), Fault::InternalError, 10_000);
    let (start, mut last) = (Instant::now(), Duration::ZERO);
    while !one.has_ended() {
        let sent = start.elapsed();
        if fenced().await {
            last = sent;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Requests wait one and a half retry periods after the last renewal, which began at most one period ago.
    assert!((Duration::from_secs(1)..=Duration::from_secs(3)).contains(&last), "{last:?}");
    assert!(!fenced().await && free().await);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 12, embedded = "time stops for a process")]
async fn the_managers_client_sends_nothing_when_a_frozen_process_wakes(cluster: Cluster) {
    cluster.apply(map("a", 1)).await.unwrap();
    let (manager, fenced, _) = bare(&cluster);
    let one = Candidate::run(manager);
    held_by(&cluster, "one").await;
    assert!(fenced().await);
    let _ = tokio::time::advance(Duration::from_secs(60)).now_or_never();
    assert!(!fenced().await, "its lease may be another's by now");
    drop(one);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7)]
async fn a_lease_that_is_deleted_is_made_anew_by_its_holder(cluster: Cluster) {
    let notes = Notes::default();
    let (one, two) = leader_and_standby(&cluster, &notes).await;
    seconds(5).await;
    for _ in 0..5 {
        cluster.delete::<Lease>("operator").await.unwrap();
        // One retry period until the holder notices, and one until it renews the lease that it created.
        assert!(held_by(&cluster, "one").await < Duration::from_secs(5));
    }
    two.stop().await;
    assert!(!one.has_ended());
    one.stop().await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 8)]
async fn a_standby_stops_at_once_and_leaves_the_lease_alone(cluster: Cluster) {
    let notes = Notes::default();
    let (one, two) = leader_and_standby(&cluster, &notes).await;
    seconds(5).await;
    let start = Instant::now();
    two.stop().await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(holder(&cluster).await, "one");
    let wrote =
        asked(&cluster, "two", "leases").into_iter().any(|request| request.method != http::Method::GET);
    assert!(!wrote);
    one.stop().await;
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 17)]
async fn who_lost_the_lease_does_not_finish_what_it_began(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("a", "slow")).await.unwrap();
    let one = Candidate::start(&cluster, "one", &notes);
    held_by(&cluster, "one").await;
    seconds(1).await;
    let start = Instant::now();
    cut_off(&cluster, "one", 10_000);
    let error = one.error().await;
    assert!(error.contains("could not be renewed"), "{error}");
    assert!(start.elapsed() <= Duration::from_secs(12), "{:?}", start.elapsed());
    seconds(20).await;
    assert_eq!(notes.take(), ["one default/a"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 18)]
async fn the_lease_is_held_until_the_last_work_has_ended(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("a", "slow")).await.unwrap();
    let one = Candidate::start(&cluster, "one", &notes);
    held_by(&cluster, "one").await;
    // The work begins only when the lease that the process created has proved to be its own.
    while notes.0.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    one.stop.cancel();
    loop {
        let holder = holder(&cluster).await;
        // The lease may be released between the read of the lease and its answer, but only after the work has ended.
        if notes.0.lock().len() == 2 {
            break;
        }
        assert_eq!(holder, "one");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    one.running.await.unwrap().unwrap();
    assert_eq!(notes.take(), ["one default/a", "ended"]);
    assert_eq!(holder(&cluster).await, "");
}

/// A process that restarts at once may keep the lease, so that no other process takes over in between.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 15)]
async fn a_lease_may_be_kept_at_a_stop(cluster: Cluster) {
    let election = LeaderElection::new(cluster.namespace(), "operator").identity("one").keep_on_stop();
    let manager = Manager::new(cluster.client()).with_env(cluster.env().clone()).leader_election(election);
    let one = Candidate::run(manager);
    held_by(&cluster, "one").await;
    one.stop().await;
    assert_eq!(holder(&cluster).await, "one");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 16)]
async fn who_leads_is_in_the_metrics_and_who_led_is_not(cluster: Cluster) {
    for lost in [false, true] {
        let (manager, ..) = bare(&cluster);
        let metrics = manager.metrics().clone();
        let leads = || metrics.encode().contains("leader_election_master_status{name=\"operator\"} 1");
        assert!(!leads());
        let one = Candidate::run(manager);
        while !leads() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(holder(&cluster).await, "one");
        if lost {
            cluster.fail(Matcher::any().by("one").kind::<Lease>(), Fault::InternalError, 10_000);
            one.error().await;
        } else {
            one.stop().await;
        }
        assert!(!leads());
    }
}

/// A task that waits for rest is woken before the controllers when the lease is taken. It used to see a cluster at rest.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 19)]
async fn a_cluster_is_not_at_rest_between_the_election_and_the_first_reconcile(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("a", 1)).await.unwrap();
    let one = Candidate::start(&cluster, "one", &notes);
    let (waiting, seen) = (cluster.clone(), notes.clone());
    let waited = tokio::spawn(async move {
        waiting.settled().await;
        seen.take()
    });
    assert_eq!(waited.await.unwrap(), ["one default/a"]);
    one.stop().await;
}
