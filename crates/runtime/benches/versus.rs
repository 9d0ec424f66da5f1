//! Compares the runtime with kube-runtime's `Controller`, on the same embedded server, in one run.
//!
//! `cargo bench -p evenkeel-runtime --bench versus` prints a line for each measure: the median of repeats that alternate
//! between the two sides, how many times better ours is, and the goal. Memory is measured in child processes, so that
//! neither side inherits the other's heap.
//!
//! Both sides share this process with the server, whose time is part of both times and brings every ratio closer to one.
//! So throughput is measured a second time "without the server": its answers were recorded, or taken from it before the
//! clock started. Beside the elapsed time, the CPU time of this process is printed, which depends less on other
//! processes of a loaded machine. Environment variables change what is measured: `OBJECTS` (a second, larger size of the
//! initial reconcile), `PODS`, `REPEATS`; an argument (`initial`, `updates`, `latency`, `memory`, `queue`) runs only that
//! part.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

#[path = "versus/memory.rs"]
mod memory;
#[path = "versus/meter.rs"]
mod meter;
#[path = "versus/queues.rs"]
mod queues;
#[path = "versus/sides.rs"]
mod sides;
#[path = "versus/tap.rs"]
mod tap;
#[path = "versus/tape.rs"]
mod tape;

use std::time::{Duration, Instant};

use evenkeel_cluster::Cluster;
use evenkeel_runtime::Env;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt};
use tokio::sync::mpsc;

use meter::{Meter, Spent};
use sides::{Seen, Side, run};
use tap::{Hold, Tap};
use tape::Tape;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [word, side, controllers] = args.as_slice()
        && word == memory::CHILD
    {
        return memory::child(Side::named(side), controllers.parse().unwrap_or(1));
    }
    let wanted = |part: &str| args.is_empty() || args.iter().any(|arg| arg == part);
    println!("{:<46} {:>12} {:>12} {:>8} {:>6}", "measure", "evenkeel", "kube-runtime", "ratio", "goal");
    if wanted("initial") {
        for objects in [10_000, number("OBJECTS", 100_000)] {
            let [whole, alone] = runtime().block_on(initial(objects));
            for (spent, whose) in [(whole, ""), (alone, ", no server")] {
                print_spent(&format!("initial reconcile of {objects}{whose}"), objects, spent);
            }
        }
    }
    if wanted("updates") {
        for (hold, whose) in [(Hold::WithServer, ""), (Hold::WithClient, ", no server")] {
            let spent = runtime().block_on(updates(hold));
            print_spent(&format!("updates to reconciles{whose}"), UPDATES, spent);
        }
    }
    if wanted("latency") {
        runtime().block_on(latency());
    }
    if wanted("memory") {
        memory::compare();
    }
    if wanted("queue") {
        queues::compare();
    }
}

/// One line of the report.
struct Line {
    measure: String,
    /// How many times better ours should be.
    goal: f64,
    /// Whether more is better.
    more: bool,
}

impl Line {
    fn print(&self, [ours, theirs]: [f64; 2]) {
        let ratio = if self.more { ours / theirs } else { theirs / ours };
        let met = if ratio >= self.goal { "" } else { "  missed" };
        println!("{:<46} {ours:>12.3} {theirs:>12.3} {ratio:>7.2}× {:>5.1}×{met}", self.measure, self.goal);
    }
}

/// How many objects are updated to measure the throughput of updates.
const UPDATES: usize = 10_000;

/// Prints a line for the throughput, and one for the CPU time of each reconcile.
fn print_spent(measure: &str, reconciles: usize, spent: [Vec<Spent>; 2]) {
    let each = |of: fn(&Spent) -> Duration| {
        spent.each_ref().map(|all| median(all.iter().map(|spent| of(spent).as_secs_f64()).collect()))
    };
    let rates = each(|spent| spent.time).map(|seconds| reconciles as f64 / seconds);
    Line { measure: format!("{measure}, 1/s"), goal: 2.0, more: true }.print(rates);
    let micros = each(|spent| spent.processor).map(|seconds| seconds * 1e6 / reconciles as f64);
    Line { measure: format!("{measure}, CPU µs each"), goal: 2.0, more: false }.print(micros);
}

fn number(name: &str, default: usize) -> usize {
    evenkeel_env::setting(name).unwrap_or_else(|error| panic!("{error}")).unwrap_or(default)
}

fn repeats() -> usize {
    number("REPEATS", 5).max(1)
}

/// The median of the values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts")
}

async fn cluster() -> Cluster {
    let builder = Cluster::builder().env(Env::system()).controllers(false).records(false);
    builder.start().await.expect("the cluster starts")
}

fn map(at: usize, value: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("m{at}"));
    map.data = Some([("value".to_owned(), value.to_string())].into());
    map
}

/// A cluster with this number of maps.
async fn filled(objects: usize) -> Cluster {
    let cluster = cluster().await;
    let api = &cluster.api::<ConfigMap>();
    let creates = (0..objects).map(|at| async move {
        api.create(&Default::default(), &map(at, 0)).await.expect("it is created");
    });
    futures::stream::iter(creates).buffer_unordered(16).for_each(|()| async {}).await;
    cluster
}

/// Writes a new value to this number of maps.
async fn write(cluster: &Cluster, objects: usize, value: usize) {
    let api = &cluster.api::<ConfigMap>();
    let writes = (0..objects).map(|at| async move {
        let written = api.replace(&format!("m{at}"), &Default::default(), &map(at, value)).await;
        written.expect("it is replaced");
    });
    futures::stream::iter(writes).buffer_unordered(16).for_each(|()| async {}).await;
}

/// Measures from the start to the last of the first reconciles: with the server, and with its recorded answers.
async fn initial(objects: usize) -> [[Vec<Spent>; 2]; 2] {
    let cluster = filled(objects).await;
    let tapes = [Tape::default(), Tape::default()];
    for side in Side::BOTH {
        // The run that records is not measured.
        first_reconciles(side, tapes[side as usize].around(cluster.client()), &cluster, objects).await;
    }
    let mut whole = [Vec::new(), Vec::new()];
    let mut alone = [Vec::new(), Vec::new()];
    for _ in 0..repeats() {
        for side in Side::BOTH {
            let at = side as usize;
            whole[at].push(first_reconciles(side, cluster.client(), &cluster, objects).await);
            let client = tapes[at].around(cluster.client());
            alone[at].push(first_reconciles(side, client, &cluster, objects).await);
        }
    }
    [whole, alone]
}

async fn first_reconciles(side: Side, client: Client, cluster: &Cluster, objects: usize) -> Spent {
    let seen = Seen::default();
    seen.expect(objects);
    let meter = Meter::start();
    let running = run::<ConfigMap>(side, client, cluster.env(), seen.clone());
    seen.all().await;
    let spent = meter.read();
    stop(running).await;
    spent
}

/// Measures reconciles for updates of distinct objects, whose events wait in the watch when the clock starts.
async fn updates(hold: Hold) -> [Vec<Spent>; 2] {
    let cluster = filled(UPDATES).await;
    let mut spent = [Vec::new(), Vec::new()];
    for round in 0..repeats() {
        for side in Side::BOTH {
            let tap = Tap::default();
            let seen = Seen::default();
            seen.expect(UPDATES);
            let client = tap.around(cluster.client());
            let running = run::<ConfigMap>(side, client, cluster.env(), seen.clone());
            seen.all().await;
            seen.expect(UPDATES);
            tap.close(hold);
            write(&cluster, UPDATES, 1 + 2 * round + side as usize).await;
            let meter = Meter::start();
            tap.open();
            seen.all().await;
            spent[side as usize].push(meter.read());
            stop(running).await;
        }
    }
    spent
}

/// Measures one update at a time: from the write, and from the server's event, to the reconcile.
async fn latency() {
    const SINGLE: usize = 1000;
    let cluster = filled(SINGLE).await;
    let mut by_side = [Samples::default(), Samples::default()];
    for round in 0..repeats() {
        for side in Side::BOTH {
            let tap = Tap::default();
            let (sender, mut seen) = Seen::each();
            let client = tap.around(cluster.client());
            let running = run::<ConfigMap>(side, client, cluster.env(), sender);
            for _ in 0..SINGLE {
                seen.recv().await;
            }
            let samples = &mut by_side[side as usize];
            for at in 0..SINGLE {
                samples.take(&cluster, at, 1 + 2 * round + side as usize, &tap, &mut seen).await;
            }
            stop(running).await;
        }
    }
    let [ours, theirs] = by_side.map(Samples::sorted);
    type Of = fn(&Samples) -> &[f64];
    let rows: [(&str, Of); 2] = [
        ("event to reconcile", |samples| &samples.from_event),
        ("write to reconcile", |samples| &samples.from_write),
    ];
    for (what, of) in rows {
        for (word, percent) in [("p50", 50), ("p99", 99)] {
            let at = |samples: &Samples| of(samples)[of(samples).len() * percent / 100];
            // The write is the server's work and the same on both sides: only the time from the event is the runtime's.
            let goal = if what.starts_with("event") { 2.0 } else { 1.0 };
            let line = Line { measure: format!("{what}, {word}, µs"), goal, more: false };
            line.print([at(&ours), at(&theirs)]);
        }
    }
}

/// Latencies in microseconds.
#[derive(Default)]
struct Samples {
    from_event: Vec<f64>,
    from_write: Vec<f64>,
}

impl Samples {
    async fn take(
        &mut self,
        cluster: &Cluster,
        at: usize,
        value: usize,
        tap: &Tap,
        seen: &mut mpsc::UnboundedReceiver<(String, Instant)>,
    ) {
        let api = cluster.api::<ConfigMap>();
        let sent = Instant::now();
        let written = api.replace(&format!("m{at}"), &Default::default(), &map(at, value)).await;
        let version = written.expect("it is replaced").resource_version().unwrap_or_default();
        while let Some((seen, reconciled)) = seen.recv().await {
            if seen == version {
                let micros = |from: Instant| reconciled.saturating_duration_since(from).as_secs_f64() * 1e6;
                self.from_event.push(micros(tap.last_event()));
                self.from_write.push(micros(sent));
                return;
            }
        }
    }

    fn sorted(mut self) -> Self {
        self.from_event.sort_by(f64::total_cmp);
        self.from_write.sort_by(f64::total_cmp);
        self
    }
}

/// Ends a side and frees what it holds, so that the other side starts alone.
async fn stop(running: tokio::task::JoinHandle<()>) {
    running.abort();
    let _ = running.await;
    tokio::time::sleep(Duration::from_millis(50)).await;
}
