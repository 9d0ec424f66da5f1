//! How a manager starts and ends: order, grace period, signals, the first fatal error.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio, Termination};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_cluster::{Cluster, Fault, Matcher};
use evenkeel_runtime::{Action, Controller, Ctx, Error, Informer, LeaderElection, Manager, Request, Source};
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Notes, map};

fn manager(cluster: &Cluster) -> Manager {
    Manager::new(cluster.client()).with_env(cluster.env().clone()).namespaces([cluster.namespace()])
}

/// A controller whose reconciles take `duration`, note their begin and end, and record an event at the end.
fn slow(notes: &Notes, duration: Duration) -> Controller<ConfigMap> {
    Controller::new("slow", move |map: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
        ctx.state().push("begun");
        tokio::time::sleep(duration).await;
        ctx.event(&map, "Ended", "as it should");
        ctx.state().push("ended");
        Ok::<_, Error>(Action::await_change())
    })
    .state(notes.clone())
}

/// Runs a manager until the first note, then stops it. Returns how long the stop took.
async fn stopped_at_work(manager: Manager, notes: &Notes) -> Duration {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(manager.run_until(async move { stopped.cancelled().await }));
    while notes.0.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let start = Instant::now();
    stop.cancel();
    running.await.unwrap().unwrap();
    start.elapsed()
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 1)]
async fn a_stop_waits_for_what_runs_and_sends_its_last_events(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    let manager = manager(&cluster).controller(slow(&notes, Duration::from_secs(4)));
    let took = stopped_at_work(manager, &notes).await;
    assert_eq!(notes.take(), ["begun", "ended"]);
    assert!((Duration::from_secs(3)..Duration::from_secs(6)).contains(&took), "{took:?}");
    let events = cluster.list::<Event>().await.unwrap();
    assert_eq!(events[0].reason.as_deref(), Some("Ended"));
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 2, embedded = "half a minute is counted exactly")]
async fn a_stop_waits_for_thirty_seconds_at_most(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    let usual = manager(&cluster).controller(slow(&notes, Duration::from_secs(1000)));
    assert_eq!(stopped_at_work(usual, &notes).await, Duration::from_secs(30));
    assert_eq!(notes.take(), ["begun"]);
    let hasty = manager(&cluster)
        .controller(slow(&notes, Duration::from_secs(1000)))
        .grace_period(Duration::from_secs(1));
    assert_eq!(stopped_at_work(hasty, &notes).await, Duration::from_secs(1));
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 3)]
async fn who_works_stops_before_what_it_works_with(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    let beside = notes.clone();
    let manager = manager(&cluster)
        .runnable_always("connection", |stop| async move {
            stop.cancelled().await;
            beside.push("connection closed");
            Ok::<_, Error>(())
        })
        .controller(slow(&notes, Duration::from_secs(2)));
    stopped_at_work(manager, &notes).await;
    assert_eq!(notes.take(), ["begun", "ended", "connection closed"]);
}

/// A runnable that notes its start, whether the cache was filled by then, and its stop.
fn noting(
    notes: &Notes,
    name: &'static str,
    cache: &Informer<Secret>,
) -> impl FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), Error>> + Send + 'static {
    let (notes, cache) = (notes.clone(), cache.clone());
    move |stop| {
        Box::pin(async move {
            notes.push(format!("{name} begun, cache filled: {}", cache.has_synced()));
            stop.cancelled().await;
            notes.push(format!("{name} ended"));
            Ok(())
        })
    }
}

/// The order is controller-runtime's: servers, caches, runnables that run always, and then what needs the lease.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 6)]
async fn parts_start_in_their_order_and_stop_in_the_reverse(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    // The first lists fail, so that the cache is filled some seconds later. A server does not wait for it.
    cluster.fail(Matcher::any().by("manager").kind::<Secret>(), Fault::InternalError, 2);
    let manager = Manager::new(cluster.client_as("manager", ["system:masters"]))
        .with_env(cluster.env().clone())
        .namespaces([cluster.namespace()])
        .leader_election(LeaderElection::new(cluster.namespace(), "operator"));
    let secrets = manager.informers().get(Source::<Secret>::new());
    let manager = manager
        .controller(slow(&notes, Duration::from_secs(2)))
        .runnable("leading", noting(&notes, "leading", &secrets))
        .runnable_always("always", noting(&notes, "always", &secrets))
        .server("server", noting(&notes, "server", &secrets));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(manager.run_until(async move { stopped.cancelled().await }));
    while notes.0.lock().len() < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut begun = notes.take();
    // Controllers and runnables start together.
    begun[2..].sort();
    let wanted = [
        "server begun, cache filled: false",
        "always begun, cache filled: true",
        "begun",
        "leading begun, cache filled: true",
    ];
    assert_eq!(begun, wanted);
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(notes.take(), ["leading ended", "ended", "always ended", "server ended"]);
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 4)]
async fn a_runnable_waits_for_the_lease_unless_it_runs_always(cluster: Cluster) {
    let notes = Notes::default();
    let candidate = |name: &'static str| {
        let (elected, always) = (notes.clone(), notes.clone());
        let election = LeaderElection::new(cluster.namespace(), "operator").identity(name);
        let manager = manager(&cluster)
            .leader_election(election)
            .runnable("elected", move |stop| async move {
                elected.push(format!("{name} works"));
                stop.cancelled().await;
                Ok::<_, Error>(())
            })
            .runnable_always("always", move |stop| async move {
                always.push(format!("{name} is there"));
                stop.cancelled().await;
                Ok::<_, Error>(())
            });
        tokio::spawn(manager.run_until(std::future::pending()))
    };
    let one = candidate("one");
    // The manager leads four seconds after it created the lease.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let two = candidate("two");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(notes.take(), ["one is there", "one works", "two is there"]);
    one.abort();
    two.abort();
}

/// A key that a stopping controller takes from a channel would be lost.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 8)]
async fn streams_and_timers_are_not_asked_any_more_once_it_stops(cluster: Cluster) {
    let (notes, asked) = (Notes::default(), Notes::default());
    cluster.apply(map("one", 1)).await.unwrap();
    let asking = asked.clone();
    let controller = slow(&notes, Duration::from_secs(5)).every(Duration::from_secs(1), move || {
        asking.push("asked");
        Vec::new()
    });
    let took = stopped_at_work(manager(&cluster).controller(controller), &notes).await;
    assert!(took > Duration::from_secs(3), "{took:?}");
    let times = asked.take().len();
    assert!(times <= 1, "asked {times} times");
}

/// An informer may be dropped before its cache is filled: the manager does not wait for it.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 9)]
async fn a_cache_that_nobody_holds_any_more_does_not_hold_up_the_start(cluster: Cluster) {
    let notes = Notes::default();
    let manager =
        Manager::new(cluster.client_as("manager", ["system:masters"])).with_env(cluster.env().clone());
    cluster.fail(Matcher::any().by("manager").kind::<Secret>(), Fault::InternalError, 2);
    let secrets = manager.informers().get(Source::<Secret>::new().namespace(cluster.namespace()));
    let begun = notes.clone();
    let manager = manager.runnable_always("always", |stop| async move {
        begun.push("begun");
        stop.cancelled().await;
        Ok::<_, Error>(())
    });
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(notes.take().is_empty());
    drop(secrets);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(notes.take(), ["begun"]);
    running.abort();
}

/// A reconcile that waits for something can learn of the stop.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 7)]
async fn a_long_reconcile_is_told_of_the_stop(cluster: Cluster) {
    let notes = Notes::default();
    cluster.apply(map("one", 1)).await.unwrap();
    let controller = Controller::new("patient", |_: Arc<ConfigMap>, ctx: Ctx<Notes>| async move {
        ctx.state().push("begun");
        ctx.cancelled().cancelled().await;
        ctx.state().push("told");
        Ok::<_, Error>(Action::await_change())
    });
    let took = stopped_at_work(manager(&cluster).controller(controller.state(notes.clone())), &notes).await;
    assert_eq!(notes.take(), ["begun", "told"]);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// A stop used to wait for a controller whose cache did not fill, up to the grace period.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 10)]
async fn a_stop_does_not_wait_for_caches_to_fill(cluster: Cluster) {
    let notes = Notes::default();
    cluster.fail(Matcher::any().by("manager").kind::<ConfigMap>(), Fault::InternalError, 10_000);
    let beside = notes.clone();
    let manager = Manager::new(cluster.client_as("manager", ["system:masters"]))
        .with_env(cluster.env().clone())
        .namespaces([cluster.namespace()])
        .grace_period(Duration::from_secs(600))
        .controller(slow(&notes, Duration::ZERO))
        .runnable("beside", |_| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            beside.push("begun");
            Ok::<_, Error>(())
        });
    let took = stopped_at_work(manager, &notes).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// The token is cancelled when the lease is lost, also for holders outside of the reconcile.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 11)]
async fn who_lost_the_lease_is_told_to_cancel(cluster: Cluster) {
    let token = Arc::new(Mutex::new(None));
    cluster.apply(map("one", 1)).await.unwrap();
    let controller = Controller::new("leader", |_: Arc<ConfigMap>, ctx: Ctx<Kept>| async move {
        *ctx.state().lock() = Some(ctx.cancelled().clone());
        Ok::<_, Error>(Action::await_change())
    });
    let manager = Manager::new(cluster.client_as("leader", ["system:masters"]))
        .with_env(cluster.env().clone())
        .namespaces([cluster.namespace()])
        .leader_election(LeaderElection::new(cluster.namespace(), "operator"))
        .controller(controller.state(token.clone()));
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    while token.lock().is_none() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!token.lock().as_ref().unwrap().is_cancelled());
    cluster.fail(Matcher::any().by("leader").kind::<Lease>(), Fault::InternalError, 10_000);
    assert_eq!(running.await.unwrap().unwrap_err().part, "leader election");
    assert!(token.lock().as_ref().unwrap().is_cancelled());
}

type Kept = Mutex<Option<CancellationToken>>;

/// A stream that panics when it is polled.
fn broken_stream() -> impl futures::Stream<Item = Request> + Send + 'static {
    futures::stream::once(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        panic!("the bus is gone")
    })
}

/// A controller without its stream, its timer or a worker would look alive and miss events.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 12)]
async fn a_controller_whose_task_panics_is_a_fatal_error(cluster: Cluster) {
    let plain = || {
        Controller::<ConfigMap>::requests("fed", |_: Request, _: Ctx| async {
            Ok::<_, Error>(Action::await_change())
        })
    };
    let timer = plain().every(Duration::from_secs(1), || panic!("no such key"));
    let observed = plain().stream("keys", futures::stream::iter([Request::namespaced("a", "b")]));
    let observed = manager(&cluster).controller(observed).observer(|_| panic!("not seen"));
    for (broken, said) in [
        (manager(&cluster).controller(plain().stream("bus", broken_stream())), "the bus is gone"),
        (manager(&cluster).controller(timer), "no such key"),
        (observed, "not seen"),
    ] {
        let ended = tokio::time::timeout(Duration::from_secs(20), broken.run_until(std::future::pending()));
        let error = ended.await.expect("it ends").unwrap_err();
        assert_eq!(error.part, "fed");
        assert!(error.to_string().contains(said), "{error}");
    }
}

/// Two controllers with one name would share metrics, and undo each other's applies.
#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 13)]
async fn two_controllers_of_one_name_are_refused(cluster: Cluster) {
    let notes = Notes::default();
    let twice = manager(&cluster)
        .controller(slow(&notes, Duration::ZERO))
        .runnable("slow", |_| async { Ok::<_, Error>(()) })
        .controller(slow(&notes, Duration::ZERO));
    let ended = tokio::time::timeout(Duration::from_secs(20), twice.run_until(std::future::pending()));
    let error = ended.await.expect("it does not begin").unwrap_err();
    assert_eq!(error.to_string(), "run slow: another controller of this manager has the same name");
}

#[evenkeel_macros::test(crate = evenkeel_cluster, controllers = false, seed = 5)]
async fn a_runnable_that_panics_is_a_fatal_error_too(cluster: Cluster) {
    let broken = manager(&cluster).runnable_always("broken", |_| async {
        if true {
            panic!("no such disk");
        }
        Ok::<_, Error>(())
    });
    let error = broken.run_until(std::future::pending()).await.unwrap_err();
    assert_eq!(error.part, "broken");
    assert!(error.to_string().contains("no such disk"), "{error}");
}

const CHILD: &str = "EVENKEEL_RUNTIME_STOPPING_CHILD";

/// The `main` of an operator in a process of its own: runs until a signal, or fails if it is told to.
#[tokio::test]
async fn the_process_of_an_operator() {
    let Ok(what) = std::env::var(CHILD) else { return };
    let cluster = Cluster::builder().controllers(false).start().await.unwrap();
    let manager = manager(&cluster).runnable("part", move |stop| async move {
        println!("running");
        if what == "fail" {
            return Err(Error::from(std::io::Error::other("no disk")));
        }
        stop.cancelled().await;
        println!("stopping");
        if what == "hang" {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    // As if `main` returned the result.
    let code = manager.run().await.report();
    std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 1 });
}

fn operator(what: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["stopping::the_process_of_an_operator", "--exact", "--nocapture"])
        .env(CHILD, what)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Sends a signal once the operator runs. Returns the rest of its output and its exit code.
fn signalled(signal: &str) -> (String, Option<i32>) {
    let mut child = operator("run");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "running" {}
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    (rest.join("\n"), child.wait().unwrap().code())
}

#[test]
fn sigterm_and_ctrl_c_stop_it_gracefully() {
    for signal in ["-TERM", "-INT"] {
        let (rest, code) = signalled(signal);
        assert_eq!((rest.as_str(), code), ("stopping", Some(0)), "{signal}");
    }
}

/// The first signal asks the manager to stop, the second ends it at once.
#[test]
fn a_second_signal_does_not_wait() {
    let mut child = operator("hang");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for said in ["running", "stopping"] {
        while lines.next().unwrap().unwrap() != said {}
        assert!(child.try_wait().unwrap().is_none());
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "a stop that was waited for is no error");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Error: run manager: a second signal came before all work had ended"), "{said}");
}

#[test]
fn a_fatal_error_is_a_message_and_a_code() {
    let output = operator("fail").wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Error: run part: no disk"), "{said}");
}
