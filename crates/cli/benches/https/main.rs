//! Throughput and cost of `evenkeel up` over HTTPS.
//!
//! Each figure is measured over at least two seconds with 32 connections, by a client that does as little as possible.
//! The processor time of the server process is printed beside each figure, because it does not depend on other load.
//! The ceiling is a hyper server with TLS that answers with constant bytes, measured with the same client.
//!
//! `cargo bench -p evenkeel-cli --bench https -- get watch` measures the named parts: start, get, write, list, watch,
//! disk.

mod client;
mod constant;
mod server;
#[path = "../load/tls.rs"]
mod tls;

use std::time::Duration;

use client::{Client, Connection};
use server::Server;

const CONNECTIONS: usize = 32;
const WINDOW: Duration = Duration::from_secs(2);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LISTED: usize = 5_000;
/// How often GETs and their ceiling are measured in turns.
const ROUNDS: usize = 8;
const WATCHERS: usize = 100;

fn main() {
    if constant::is_child() {
        return constant::serve();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    runtime.block_on(async {
        if wants("start") {
            startup();
        }
        if wants("get") {
            gets().await;
        }
        if wants("write") {
            writes().await;
        }
        if wants("list") {
            lists().await;
        }
        if wants("watch") {
            fan_out().await;
        }
        if wants("disk") {
            on_disk().await;
        }
    });
}

fn startup() {
    let times = (0..5).map(|_| Server::up(&[]).ready_after).collect::<Vec<_>>();
    println!("ready after exec         {:>10.1?} (best of 5; worst {:.1?})", min(&times), max(&times));
    let server = Server::up(&[]);
    std::thread::park_timeout(Duration::from_secs(2));
    println!("resident when idle       {:>10.1} MB", server.resident_mb());
}

/// GETs and the ceiling are measured in turns, so that other load affects both.
async fn gets() {
    let constant = Server::constant();
    let server = Server::up(&["--no-controllers"]);
    fill(&server.client(), CONNECTIONS).await;
    let (mut rates, mut ceilings) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        ceilings += run(&constant, "GETs of constant bytes", |_, _| get("/")).await;
        rates += run(&server, "GETs", |_, _| get(&format!("{MAPS}/c0-0"))).await;
    }
    println!("GETs against the ceiling {:>10.0} % (of {ROUNDS} rounds)", 100.0 * rates / ceilings);
}

async fn writes() {
    let server = Server::up(&["--no-controllers"]);
    run(&server, "creates, in memory", create).await;
    run(&server, "merge patches", |connection, n| {
        let body = format!("{{\"data\":{{\"key\":\"{n}\"}}}}");
        request("PATCH", &format!("{MAPS}/c{connection}-0"), "application/merge-patch+json", &body)
    })
    .await;
}

async fn lists() {
    let server = Server::up(&["--no-controllers"]);
    let client = server.client();
    fill(&client, LISTED).await;
    let mut connection = client.connect().await;
    let (mut times, cpu) = (Vec::new(), server.cpu());
    while times.iter().sum::<Duration>() < WINDOW {
        times.push(timed(connection.exchange(&get(MAPS))).await);
    }
    let cpu = (server.cpu() - cpu) / times.len() as u32;
    times.sort_unstable();
    let (best, median, worst) = (times[0], times[times.len() / 2], times[times.len() - 1]);
    println!(
        "LIST of {LISTED}             {median:>10.1?} (median; {best:.1?} to {worst:.1?})   server {cpu:.1?} each"
    );
    let cpu = server.cpu();
    let took = timed(connection.exchange(&request("DELETE", MAPS, "application/json", ""))).await;
    println!("deletecollection of {LISTED} {took:>10.1?}   server {:.1?}", server.cpu() - cpu);
}

async fn on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data");
    let server = Server::up(&["--no-controllers", "--data-dir", path.to_str().expect("it is text")]);
    run(&server, "creates, on disk", create).await;
}

/// Many watches of one namespace, while objects are written.
async fn fan_out() {
    let server = Server::up(&["--no-controllers"]);
    let client = server.client();
    let mut counting = tokio::task::JoinSet::new();
    let (done, ending) = tokio::sync::watch::channel(false);
    for _ in 0..WATCHERS {
        let mut watch = client.connect().await;
        watch.send(&get(&format!("{MAPS}?watch=1&resourceVersion=0"))).await;
        let mut ending = ending.clone();
        counting.spawn(async move {
            tokio::select! {
                biased;
                _ = ending.wait_for(|done| *done) => {}
                () = watch.count_lines() => {}
            }
            watch.lines
        });
    }
    let cpu = server.cpu();
    let before = now();
    let mut writing = tokio::task::JoinSet::new();
    for number in 0..4 {
        let mut connection = client.connect().await;
        writing.spawn(async move {
            let mut made = 0;
            while before.elapsed() < WINDOW {
                connection.exchange(&create(1000 + number, made)).await;
                made += 1;
            }
        });
    }
    while writing.join_next().await.is_some() {}
    let _ = done.send(true);
    let mut events = 0;
    while let Some(Ok(lines)) = counting.join_next().await {
        events += lines;
    }
    report("events to 100 watchers", events, before.elapsed(), server.cpu() - cpu);
}

/// Sends requests on all connections for a while, and prints the rate of responses.
async fn run(
    server: &Server,
    what: &str,
    make: impl Fn(usize, usize) -> Vec<u8> + Copy + Send + 'static,
) -> f64 {
    let client = server.client();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(client.connect().await);
    }
    let (cpu, before) = (server.cpu(), now());
    let mut running = tokio::task::JoinSet::new();
    for (number, mut connection) in connections.into_iter().enumerate() {
        running.spawn(async move {
            let mut answered = 0;
            while before.elapsed() < WINDOW {
                connection.exchange(&make(number, answered)).await;
                answered += 1;
            }
            answered
        });
    }
    let mut answered = 0;
    while let Some(Ok(count)) = running.join_next().await {
        answered += count;
    }
    report(what, answered, before.elapsed(), server.cpu() - cpu)
}

fn report(what: &str, count: usize, took: Duration, cpu: Duration) -> f64 {
    let rate = count as f64 / took.as_secs_f64();
    let each = cpu.as_secs_f64() * 1e6 / count.max(1) as f64;
    println!("{what:<24} {rate:>10.0} /s   server {each:>7.1} µs each");
    rate
}

async fn fill(client: &Client, count: usize) {
    let mut running = tokio::task::JoinSet::new();
    for number in 0..CONNECTIONS {
        let mut connection: Connection = client.connect().await;
        running.spawn(async move {
            for made in (number..count).step_by(CONNECTIONS) {
                connection.exchange(&create(number, made)).await;
            }
        });
    }
    while running.join_next().await.is_some() {}
}

/// A ConfigMap of one KiB.
fn create(connection: usize, number: usize) -> Vec<u8> {
    let value = "x".repeat(900);
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"c{connection}-{number}"}},"data":{{"key":"{value}"}}}}"#
    );
    request("POST", MAPS, "application/json", &body)
}

fn get(path: &str) -> Vec<u8> {
    request("GET", path, "application/json", "")
}

fn request(method: &str, path: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

#[expect(clippy::disallowed_methods, reason = "it is real time that is measured")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

async fn timed<F: Future>(what: F) -> Duration {
    let before = now();
    what.await;
    before.elapsed()
}

fn min(times: &[Duration]) -> Duration {
    times.iter().min().copied().unwrap_or_default()
}

fn max(times: &[Duration]) -> Duration {
    times.iter().max().copied().unwrap_or_default()
}
