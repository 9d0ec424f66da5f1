//! The runtime side by side with kube-runtime's `Controller`, on the same embedded server, in one run.
//!
//! `cargo bench -p evenkeel-runtime --bench versus` prints a line for each measure and the ratio of the two. Memory is
//! measured in child processes of this one, so that neither side inherits the other's heap.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_cluster::Cluster;
use evenkeel_runtime::{Action, Context, Controller, Env, Error, Manager, Queue, Request};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, ResourceExt};
use kube_runtime::watcher;
use tokio::sync::mpsc;

type Seen = mpsc::UnboundedSender<(String, Instant)>;

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Ours,
    Kube,
}

impl Side {
    const BOTH: [Self; 2] = [Self::Ours, Self::Kube];

    fn word(self) -> &'static str {
        match self {
            Self::Ours => "evenkeel",
            Self::Kube => "kube-runtime",
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    if args.next().as_deref() == Some("memory") {
        let side = if args.next().as_deref() == Some("evenkeel") { Side::Ours } else { Side::Kube };
        let controllers = args.next().and_then(|count| count.parse().ok()).unwrap_or(1);
        println!("{}", runtime().block_on(memory(side, controllers)));
        return;
    }
    let objects: usize = number("OBJECTS", 10_000);
    println!("{:<44} {:>14} {:>14} {:>8}", "measure", "evenkeel", "kube-runtime", "ratio");
    let initial = Side::BOTH.map(|side| runtime().block_on(initial(side, objects)));
    line(&format!("initial reconcile of {objects}, s"), initial.map(|time| time.as_secs_f64()), false);
    let updates = Side::BOTH.map(|side| runtime().block_on(updates(side)));
    line("updates to reconciles, 1/s", updates.map(|(rate, _, _)| rate), true);
    line("write to reconcile, p50, µs", updates.map(|(_, p50, _)| p50), false);
    line("write to reconcile, p99, µs", updates.map(|(_, _, p99)| p99), false);
    let pods = number("PODS", 50_000);
    for controllers in [1, 3] {
        let memory = Side::BOTH.map(|side| memory_of_child(side, controllers));
        line(&format!("{pods} pods of 4 KiB, {controllers} controllers, MiB"), memory, false);
    }
    for keys in [10, 10_000, 1_000_000] {
        println!("{:<44} {:>14.0}", format!("queue with {keys} keys, add+get+done, 1/s"), queue(keys));
    }
}

/// Prints both and how many times better ours is.
fn line(measure: &str, [ours, theirs]: [f64; 2], more_is_better: bool) {
    let ratio = if more_is_better { ours / theirs } else { theirs / ours };
    println!("{measure:<44} {ours:>14.3} {theirs:>14.3} {ratio:>7.2}×");
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

async fn cluster() -> Cluster {
    let builder = Cluster::builder().env(Env::system()).controllers(false).records(false);
    builder.start().await.expect("the cluster starts")
}

fn map(name: &str, value: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    map.data = Some([("value".to_owned(), value.to_string())].into());
    map
}

/// Runs a controller whose reconcile tells its caller and does nothing else.
fn run<K>(side: Side, cluster: &Cluster, seen: Seen) -> tokio::task::JoinHandle<()>
where
    K: evenkeel_runtime::Object<DynamicType = ()>
        + kube::Resource<Scope = kube::core::NamespaceResourceScope>,
{
    let client = cluster.client();
    match side {
        Side::Ours => {
            let controller = Controller::new("bench", |object: Arc<K>, ctx: Context<Seen>| async move {
                let _ = ctx.state().send((object.resource_version().unwrap_or_default(), Instant::now()));
                Ok::<_, Error>(Action::done())
            });
            let manager = Manager::new(client).env(cluster.env().clone()).controller(controller.state(seen));
            tokio::spawn(async move { drop(manager.run_until(std::future::pending()).await) })
        }
        Side::Kube => {
            let controller = kube_runtime::Controller::new(Api::<K>::all(client), watcher::Config::default());
            let reconcile = |object: Arc<K>, seen: Arc<Seen>| async move {
                let _ = seen.send((object.resource_version().unwrap_or_default(), Instant::now()));
                Ok::<_, std::fmt::Error>(kube_runtime::controller::Action::await_change())
            };
            let policy = |_: Arc<K>, _: &std::fmt::Error, _: Arc<Seen>| {
                kube_runtime::controller::Action::requeue(Duration::from_secs(1))
            };
            tokio::spawn(controller.run(reconcile, policy, Arc::new(seen)).for_each(|_| async {}))
        }
    }
}

/// From start to the last of the first reconciles.
async fn initial(side: Side, objects: usize) -> Duration {
    let cluster = cluster().await;
    let api = cluster.api::<ConfigMap>();
    for at in 0..objects {
        api.create(&Default::default(), &map(&format!("m{at}"), 0)).await.expect("it is created");
    }
    let (sender, mut seen) = mpsc::unbounded_channel();
    let start = Instant::now();
    let running = run::<ConfigMap>(side, &cluster, sender);
    for _ in 0..objects {
        seen.recv().await;
    }
    let took = start.elapsed();
    running.abort();
    took
}

/// Throughput of updates to distinct objects, and the latency of single ones.
async fn updates(side: Side) -> (f64, f64, f64) {
    const OBJECTS: usize = 2000;
    const SINGLE: usize = 1000;
    let cluster = cluster().await;
    let api = cluster.api::<ConfigMap>();
    let (sender, mut seen) = mpsc::unbounded_channel();
    let running = run::<ConfigMap>(side, &cluster, sender);
    for at in 0..OBJECTS {
        api.create(&Default::default(), &map(&format!("m{at}"), 0)).await.expect("it is created");
    }
    while tokio::time::timeout(Duration::from_secs(2), seen.recv()).await.is_ok() {}
    let start = Instant::now();
    let count = Arc::new(AtomicUsize::new(0));
    let writer = tokio::spawn({
        let (api, count) = (api.clone(), count.clone());
        async move {
            for at in 0..OBJECTS {
                api.replace(&format!("m{at}"), &Default::default(), &map(&format!("m{at}"), 1))
                    .await
                    .expect("it is");
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    for _ in 0..OBJECTS {
        seen.recv().await;
    }
    let rate = OBJECTS as f64 / start.elapsed().as_secs_f64();
    writer.await.expect("the writer ends");
    let mut latencies = Vec::with_capacity(SINGLE);
    for at in 0..SINGLE {
        let name = format!("m{at}");
        // From before the write: its own answer often comes after the reconcile.
        let sent = Instant::now();
        let written = api.replace(&name, &Default::default(), &map(&name, 2)).await.expect("it is replaced");
        let version = written.resource_version().unwrap_or_default();
        while let Some((seen, at)) = seen.recv().await {
            if seen == version {
                latencies.push(at.saturating_duration_since(sent).as_secs_f64() * 1e6);
                break;
            }
        }
    }
    latencies.sort_by(f64::total_cmp);
    running.abort();
    (rate, latencies[SINGLE / 2], latencies[SINGLE * 99 / 100])
}

fn memory_of_child(side: Side, controllers: usize) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args(["memory", side.word(), &controllers.to_string()]).output();
    let output = output.expect("the child runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(f64::NAN)
}

/// What the caches of so many controllers on all pods add to this process, in MiB.
async fn memory(side: Side, controllers: usize) -> f64 {
    let pods = number("PODS", 50_000);
    let cluster = cluster().await;
    let api = cluster.api::<Pod>();
    for at in 0..pods {
        api.create(&Default::default(), &pod(at)).await.expect("it is created");
    }
    let before = resident_mib();
    let mut running = Vec::new();
    let (sender, mut seen) = mpsc::unbounded_channel();
    match side {
        Side::Ours => {
            let mut manager = Manager::new(cluster.client()).env(cluster.env().clone());
            for at in 0..controllers {
                let controller =
                    Controller::new(&format!("bench-{at}"), |pod: Arc<Pod>, ctx: Context<Seen>| async move {
                        let _ = ctx.state().send((pod.name_any(), Instant::now()));
                        Ok::<_, Error>(Action::done())
                    });
                manager = manager.controller(controller.state(sender.clone()));
            }
            running.push(tokio::spawn(async move { drop(manager.run_until(std::future::pending()).await) }));
        }
        Side::Kube => {
            running.extend((0..controllers).map(|_| run::<Pod>(Side::Kube, &cluster, sender.clone())))
        }
    }
    for _ in 0..pods * controllers {
        seen.recv().await;
    }
    resident_mib() - before
}

/// A pod of about 4 KiB.
fn pod(at: usize) -> Pod {
    let env: Vec<_> = (0..30)
        .map(|at| serde_json::json!({ "name": format!("VARIABLE_{at}"), "value": format!("a value of some length {at:060}") }))
        .collect();
    serde_json::from_value(serde_json::json!({
        "metadata": { "name": format!("pod-{at}"), "labels": { "app": "web", "tier": "front" } },
        "spec": { "containers": [{ "name": "web", "image": "registry.example.com/web:1", "env": env }] },
    }))
    .expect("it is a pod")
}

fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(f64::NAN);
    pages * 4096.0 / f64::from(1 << 20)
}

/// Rounds of add, get and done a second with so many keys in the queue.
fn queue(keys: usize) -> f64 {
    runtime().block_on(async {
        let queue = Queue::new("bench", &Env::system());
        let name = |at: usize| Request::namespaced(format!("ns-{}", at % 100), at.to_string());
        let all: Vec<Request> = (0..keys).map(name).collect();
        all.iter().for_each(|key| queue.add(key.clone()));
        let rounds = 1_000_000;
        let start = Instant::now();
        for _ in 0..rounds {
            if let Some(item) = queue.try_get() {
                queue.done(&item.key);
                queue.add(item.key);
            }
        }
        f64::from(rounds) / start.elapsed().as_secs_f64()
    })
}
