//! The cost of the store's operations: `cargo bench -p evenkeel-store [-- PART]`.
//!
//! Parts: `writes` (1, 8 and 64 writers on both backends, compared with the sync rate of the disk), `reads`, `watchers`
//! (fan-out to 1, 100 and 1,000), `growth` (the cost of every operation with a thousand and with a million unrelated keys),
//! `restart`. Each measurement takes two seconds.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_env::Env;
use evenkeel_store::{Expect, Op, Options, Range, Store, Write};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(2);
/// About the size of a small Kubernetes object.
const VALUE_BYTES: usize = 1024;

/// One part of the benchmark.
type Part = fn(&Runtime);

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let parts: [(&str, Part); 5] = [
        ("writes", writes),
        ("reads", reads),
        ("watchers", watchers),
        ("growth", growth),
        ("restart", restart),
    ];
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            println!("{name}");
            part(&runtime);
        }
    }
}

fn put(key: String) -> Write<()> {
    Write { key: key.into(), expect: Expect::Any, op: Op::Put(Bytes::from(vec![b'x'; VALUE_BYTES]), ()) }
}

fn memory() -> Store<()> {
    Store::memory(Env::system(), Options::default())
}

async fn disk(dir: &tempfile::TempDir) -> Store<()> {
    Store::open(dir.path(), Env::system(), Options::default()).await.unwrap()
}

/// A directory on the disk of the build, because the temporary directory may be in memory.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

async fn fill(store: &Store<()>, folder: &str, keys: usize) {
    for nth in 0..keys {
        store.write(put(format!("{folder}{nth:07}"))).await.unwrap();
    }
}

/// The rate of an operation, and its processor time on all threads together.
struct Rate {
    per_second: f64,
    cpu_micros: f64,
}

struct Stopwatch {
    start: Instant,
    cpu: f64,
}

impl Stopwatch {
    fn start() -> Self {
        Self { start: Instant::now(), cpu: cpu_seconds() }
    }

    fn is_over(&self) -> bool {
        self.start.elapsed() >= WINDOW
    }

    fn rate(&self, done: f64) -> Rate {
        let cpu_micros = (cpu_seconds() - self.cpu) * 1e6 / done;
        Rate { per_second: done / self.start.elapsed().as_secs_f64(), cpu_micros }
    }
}

/// Returns the processor time of this process in seconds; zero if the system does not report it.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // User and system time, in hundredths of a second, are the 12th and 13th field after the program's name.
    let fields = stat.rsplit(')').next().unwrap_or_default().split(' ').skip(12).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn writes(runtime: &Runtime) {
    for writers in [1, 8, 64] {
        let Rate { per_second, cpu_micros } = runtime.block_on(write_rate(memory(), writers));
        println!(
            "  memory, {writers:>2} writers  {per_second:>10.0} writes/s, {cpu_micros:>5.2} µs of processor each"
        );
    }
    for writers in [1, 8, 64] {
        let dir = directory();
        // Measured one after the other, because the speed of a shared disk changes from minute to minute.
        let syncs = syncs_per_second();
        let Rate { per_second, cpu_micros } =
            runtime.block_on(async { write_rate(disk(&dir).await, writers).await });
        let times = per_second / syncs;
        println!(
            "  disk,   {writers:>2} writers  {per_second:>10.0} writes/s, {cpu_micros:>5.2} µs of processor each, \
             {times:.1} times the disk's own {syncs:.0} syncs/s"
        );
    }
}

fn syncs_per_second() -> f64 {
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (start, mut syncs) = (Instant::now(), 0);
    while start.elapsed() < WINDOW {
        file.write_all(&[b'x'; VALUE_BYTES]).unwrap();
        file.sync_data().unwrap();
        syncs += 1;
    }
    f64::from(syncs) / start.elapsed().as_secs_f64()
}

/// Each writer updates its own thousand keys.
async fn write_rate(store: Store<()>, writers: usize) -> Rate {
    let watch = Arc::new(Stopwatch::start());
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, watch) = (store.clone(), watch.clone());
            tokio::spawn(async move {
                let mut made = 0;
                while !watch.is_over() {
                    store
                        .write(put(format!("/registry/core/configmaps/ns-{writer}/{:04}", made % 1000)))
                        .await
                        .unwrap();
                    made += 1;
                }
                made
            })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        made += task.await.unwrap();
    }
    watch.rate(f64::from(made))
}

fn reads(runtime: &Runtime) {
    let store = memory();
    let folder = "/registry/core/pods/ns/";
    runtime.block_on(fill(&store, folder, 10_000));
    let all = Range { prefix: folder.into(), ..Range::default() };
    report("all of 10,000", measure(|| black_box(store.range(&all).unwrap().entries.len())));
    let page = Range { limit: Some(500), after: Some(format!("{folder}0005000")), ..all.clone() };
    report("page of 500 from the middle", measure(|| black_box(store.range(&page).unwrap().remaining)));
    let at = store.revision();
    let page = Range { at: Some(at), ..page };
    store.range(&page).unwrap();
    runtime.block_on(fill(&store, folder, 5000));
    report("the same, 5,000 changes ago", measure(|| black_box(store.range(&page).unwrap().remaining)));
    let key = format!("{folder}0005000");
    report("one key", measure(|| black_box(store.get(&key).is_some())));
}

/// Measures one call and returns its seconds: processor time if the system reports it, because other processes share the
/// machine.
fn measure<T>(call: impl FnMut() -> T) -> f64 {
    measure_for(WINDOW, call)
}

fn measure_for<T>(window: Duration, mut call: impl FnMut() -> T) -> f64 {
    let (start, started, mut calls) = (Instant::now(), on_processor(), 0u32);
    while start.elapsed() < window {
        for _ in 0..16 {
            call();
        }
        calls += 16;
    }
    let seconds = match (started, on_processor()) {
        (Some(started), Some(ended)) => ended - started,
        _ => start.elapsed().as_secs_f64(),
    };
    seconds / f64::from(calls)
}

/// Returns the processor time of this thread in seconds.
fn on_processor() -> Option<f64> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(line.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}

fn report(what: &str, seconds: f64) {
    println!("  {what:<28}{:>10.2} µs", seconds * 1e6);
}

fn watchers(runtime: &Runtime) {
    for watchers in [1, 100, 1000] {
        let Rate { per_second, cpu_micros } = runtime.block_on(fan_out(watchers));
        println!(
            "  {watchers:>4} watchers    {per_second:>10.0} events/s, {cpu_micros:>5.2} µs of processor each"
        );
    }
}

/// How many writes are made before the bench waits for the slowest watcher: far fewer than the log keeps, so that no watch
/// overruns.
const AHEAD: usize = 100;

/// Writes as fast as the slowest watcher reads. Returns the rate of delivered events.
async fn fan_out(watchers: usize) -> Rate {
    let env = Env::system();
    let store: Store<()> = Store::memory(env.clone(), Options::default());
    let tasks: Vec<_> = (0..watchers)
        .map(|_| {
            let mut watch = store.watch("/registry/core/pods/", store.revision()).unwrap();
            tokio::spawn(async move {
                let mut seen = 0u64;
                while watch.next().await.is_ok() {
                    seen += 1;
                }
                seen
            })
        })
        .collect();
    // Watches of other keys must cost nothing.
    let _bystanders: Vec<_> =
        (0..1000).map(|nth| store.watch(&format!("/registry/x/{nth}/"), 1).unwrap()).collect();
    let (watch, mut made) = (Stopwatch::start(), 0u32);
    while !watch.is_over() {
        for _ in 0..AHEAD {
            store.write(put(format!("/registry/core/pods/ns/{:04}", made % 1000))).await.unwrap();
            made += 1;
        }
        env.ledger().idle(10 * WINDOW).await.unwrap();
    }
    let rate = watch.rate(f64::from(made) * watchers as f64);
    store.close();
    let mut seen = 0;
    for task in tasks {
        seen += task.await.unwrap();
    }
    assert_eq!(seen, u64::from(made) * watchers as u64, "a watcher missed something");
    rate
}

/// Measures operations on a folder of a thousand keys with few and with many other keys, alternately.
fn growth(runtime: &Runtime) {
    let few = runtime.block_on(crowded(1_000));
    let many = runtime.block_on(crowded(1_000_000));
    for (what, operation) in OPERATIONS {
        let mut seconds = [0.0; 2];
        for _ in 0..ROUNDS {
            for (total, store) in seconds.iter_mut().zip([&few, &many]) {
                let mut nth = 0;
                *total += measure_for(WINDOW / ROUNDS, || {
                    nth = (nth + 7) % 1000;
                    operation(store, nth)
                });
            }
        }
        let [few, many] = seconds.map(|total| total / f64::from(ROUNDS) * 1e6);
        let times = many / few;
        println!(
            "  {what:<24}{few:>8.2} µs beside 1,000, {many:>8.2} µs beside 1,000,000 unrelated keys: {times:.2} times"
        );
    }
}

const ROUNDS: u32 = 10;
const FOLDER: &str = "/registry/core/pods/ns/";

/// An operation on one of the thousand keys. Its result keeps the compiler from removing the call.
type Operation = fn(&Store<()>, usize) -> usize;

const OPERATIONS: [(&str, Operation); 6] = [
    ("get", |store, nth| usize::from(store.get(&key(nth)).is_some())),
    ("page of 100", |store, _| {
        store.range(&Range { prefix: FOLDER.into(), limit: Some(100), ..Range::default() }).unwrap().remaining
    }),
    ("count", |store, _| store.count(FOLDER)),
    ("watch, first change", |store, _| {
        let after = store.revision() - 10;
        usize::from(store.watch(FOLDER, after).unwrap().try_next().is_some())
    }),
    ("update", |store, nth| {
        usize::from(futures::FutureExt::now_or_never(store.write(put(key(nth)))).is_some())
    }),
    ("delete and create", |store, nth| {
        let delete = Write { key: key(nth).into(), expect: Expect::Any, op: Op::Delete };
        futures::FutureExt::now_or_never(store.write(delete));
        usize::from(futures::FutureExt::now_or_never(store.write(put(key(nth)))).is_some())
    }),
];

fn key(nth: usize) -> String {
    format!("{FOLDER}{nth:07}")
}

/// A store with a thousand keys in one folder, and others of another kind and of the same kind in other namespaces.
async fn crowded(unrelated: usize) -> Store<()> {
    let store = memory();
    for nth in 0..unrelated {
        let kind = if nth % 2 == 0 { "events" } else { "pods" };
        let key = format!("/registry/core/{kind}/other-{}/{nth}", nth % 100).into();
        let write = Write { key, expect: Expect::Any, op: Op::Put(Bytes::from_static(b"x"), ()) };
        store.write(write).await.unwrap();
    }
    fill(&store, FOLDER, 1000).await;
    store
}

fn restart(runtime: &Runtime) {
    let dir = directory();
    runtime.block_on(async {
        let store = disk(&dir).await;
        for chunk in 0..100 {
            let keys = (0..1000).map(|nth| put(format!("/registry/core/pods/ns/{:07}", chunk * 1000 + nth)));
            store.write_all(keys.collect()).await;
        }
        store.close();
        let watch = Stopwatch::start();
        let store = disk(&dir).await;
        report_opening("100,000 keys of 1 KiB", &watch);
        assert_eq!(store.count(""), 100_000);
        let empty = directory();
        let watch = Stopwatch::start();
        disk(&empty).await;
        report_opening("an empty directory", &watch);
    });
}

fn report_opening(what: &str, watch: &Stopwatch) {
    let Rate { per_second, cpu_micros } = watch.rate(1.0);
    println!("  open {what:<24}{:>8.1} ms, {:.0} ms of processor", 1e3 / per_second, cpu_micros / 1e3);
}
