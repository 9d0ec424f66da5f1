//! A server with many clients: open connections, watches, and writes that reach ten watches each.
//!
//! The server is `evenkeel up` in a process of its own, over TLS on loopback. Its clients are four users who may do
//! everything by RBAC, but are subject to the limits of a single user. Most connections use HTTP/1.1 and have one
//! watch; the remaining watches are on HTTP/2 connections, as many on each as the server allows.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::{Method, StatusCode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::Instant;

#[path = "client.rs"]
mod client;
#[path = "server.rs"]
mod server;
#[path = "tls.rs"]
mod tls;

use client::{Client, Watcher};
use server::Server;

/// How many watches see each write.
const WATCHES_EACH: usize = 10;
/// How many watches one HTTP/2 connection has: as many streams as the server allows.
const STREAMS: usize = 100;
/// How many connections write. A single user may have 150 writes in flight, and four users write.
const WRITERS: usize = 32;
/// How many connections are opened at a time.
const OPENING: usize = 64;
/// When a step counts as hanging: none takes as long, even on a slow machine.
const HANG: Duration = Duration::from_secs(300);

/// The amount of load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The number of open connections, including those of watches and writers.
    pub(crate) connections: usize,
    pub(crate) watches: usize,
    pub(crate) writes_per_second: u64,
    pub(crate) seconds: u64,
}

impl Load {
    /// This load, with the changes that the environment variables `EVENKEEL_LOAD_CONNECTIONS`, `EVENKEEL_LOAD_WATCHES`,
    /// `EVENKEEL_LOAD_WRITES` (per second) and `EVENKEEL_LOAD_SECONDS` ask for.
    pub(crate) fn or_settings(self) -> Result<Self, String> {
        Ok(Self {
            connections: setting("EVENKEEL_LOAD_CONNECTIONS", self.connections)?,
            watches: setting("EVENKEEL_LOAD_WATCHES", self.watches)?,
            writes_per_second: setting("EVENKEEL_LOAD_WRITES", self.writes_per_second)?,
            seconds: setting("EVENKEEL_LOAD_SECONDS", self.seconds)?,
        })
    }
}

/// The value of an environment variable, which must be a number above zero, or `unless_set`.
fn setting<T: std::str::FromStr + PartialOrd + From<u16>>(name: &str, unless_set: T) -> Result<T, String> {
    let Some(text) = std::env::var_os(name) else { return Ok(unless_set) };
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > T::from(0));
    number.ok_or_else(|| format!("the environment variable {name} must be a number above zero, not {text:?}"))
}

/// Raises the limit of open files of this process: each client is an open file, too.
fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) connections: usize,
    pub(crate) watches: usize,
    pub(crate) opened_in: Duration,
    pub(crate) writes: u64,
    /// How long the writes took.
    pub(crate) wrote_for: Duration,
    /// How many events the watches received: ten for each write.
    pub(crate) events: u64,
    pub(crate) resident_max_mb: u64,
    pub(crate) files_max: usize,
    /// How long the server took to end after SIGTERM, under the same load.
    pub(crate) ended_in: Duration,
    pub(crate) exit_code: Option<i32>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { connections, watches, opened_in, writes, wrote_for, events, .. } = self;
        let rate = *writes as f64 / wrote_for.as_secs_f64();
        writeln!(f, "{connections} connections and {watches} watches, opened in {opened_in:.1?}")?;
        writeln!(f, "{writes} writes in {wrote_for:.1?}, {rate:.0} a second, {events} events")?;
        writeln!(f, "at most {} MB resident and {} files open", self.resident_max_mb, self.files_max)?;
        write!(f, "ended with {:?} in {:.2?} after SIGTERM", self.exit_code, self.ended_in)
    }
}

/// Runs the load. The error is the first thing that went wrong.
pub(crate) async fn run(load: Load) -> Result<Report, String> {
    raise_limit();
    let server = Server::start();
    let clients = server.clients();
    let groups = (load.watches / WATCHES_EACH).max(1);
    prepare(&server.admin(), groups).await?;
    let before = Instant::now();
    let shared = Arc::new(Shared::new(groups));
    let mut watchers = open_watches(&clients, load, &shared).await?;
    let idle = open_idle(&clients, load, watchers.connections).await?;
    let opened_in = before.elapsed();
    let (connections, watches) = (watchers.connections + idle.len() + WRITERS, watchers.tasks.len());
    let sampled = server.sample();
    let before = Instant::now();
    write(&clients, load, &shared, Some(Duration::from_secs(load.seconds))).await?;
    let wrote_for = before.elapsed();
    let writes = shared.writes();
    shared.wait_until_seen(writes * WATCHES_EACH as u64).await?;
    let events = shared.events.load(Ordering::Relaxed);
    let (resident_max_mb, files_max) = sampled.finish();
    // The load continues until the server has ended.
    shared.ending.store(true, Ordering::Relaxed);
    let more = tokio::spawn({
        let (clients, shared) = (clients.clone(), shared.clone());
        async move { write(&clients, load, &shared, None).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (exit_code, ended_in) = server.terminate();
    let _ = tokio::time::timeout(HANG, more).await.map_err(|_| "writers hang after the end")?;
    while let Some(ended) = watchers.tasks.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    drop(idle);
    Ok(Report {
        connections,
        watches,
        opened_in,
        writes,
        wrote_for,
        events,
        resident_max_mb,
        files_max,
        ended_in,
        exit_code,
    })
}

/// What the clients share.
struct Shared {
    /// The number of writes to each group.
    written: Vec<AtomicU64>,
    /// The number of events received.
    events: AtomicU64,
    /// Whether the server was told to end. Errors are expected from then on.
    ending: AtomicBool,
}

impl Shared {
    fn new(groups: usize) -> Self {
        Self {
            written: (0..groups).map(|_| AtomicU64::new(0)).collect(),
            events: AtomicU64::new(0),
            ending: AtomicBool::new(false),
        }
    }

    fn writes(&self) -> u64 {
        self.written.iter().map(|it| it.load(Ordering::Relaxed)).sum()
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    async fn wait_until_seen(&self, events: u64) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let seen = self.events.load(Ordering::Relaxed);
            if seen == events {
                return Ok(());
            }
            if seen > events || start.elapsed() > HANG {
                return Err(format!("{seen} events were seen, {events} were written"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn namespace(group: usize) -> String {
    format!("load-{group}")
}

fn object(group: usize) -> String {
    format!("/api/v1/namespaces/{}/configmaps/load", namespace(group))
}

/// Grants the users their permissions, and creates a namespace with an object for each group of watches.
async fn prepare(admin: &Client, groups: usize) -> Result<(), String> {
    let mut connection = admin.connect_h1().await?;
    let binding = server::binding();
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    connection.expect(Method::POST, path, binding, StatusCode::CREATED).await?;
    for group in 0..groups {
        let name = namespace(group);
        let body = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        connection.expect(Method::POST, "/api/v1/namespaces", body, StatusCode::CREATED).await?;
        let path = format!("/api/v1/namespaces/{name}/configmaps");
        let body = r#"{"metadata":{"name":"load"},"data":{"n":""}}"#.to_owned();
        connection.expect(Method::POST, &path, body, StatusCode::CREATED).await?;
    }
    Ok(())
}

struct Watchers {
    tasks: JoinSet<Result<(), String>>,
    connections: usize,
}

/// Opens the watches, each with a task that counts its events.
async fn open_watches(clients: &[Client], load: Load, shared: &Arc<Shared>) -> Result<Watchers, String> {
    let (h1, h2) = divide(load);
    let mut opening = JoinSet::new();
    let mut opened = Vec::new();
    let groups = shared.written.len();
    let mut numbers = 0..load.watches;
    for connection in 0..h1 + h2 {
        let count = if connection < h1 { 1 } else { STREAMS };
        let client = clients[connection % clients.len()].clone();
        let groups: Vec<usize> = numbers.by_ref().take(count).map(|number| number % groups).collect();
        if opening.len() >= OPENING {
            opened.extend(joined(&mut opening).await?);
        }
        let is_h1 = connection < h1;
        opening.spawn(async move { open_some(&client, is_h1, &groups).await });
    }
    while !opening.is_empty() {
        opened.extend(joined(&mut opening).await?);
    }
    let mut tasks = JoinSet::new();
    for (group, watcher) in opened {
        tasks.spawn(count(watcher, group, shared.clone()));
    }
    Ok(Watchers { tasks, connections: h1 + h2 })
}

/// The number of connections with one watch each, and of those with [`STREAMS`] watches.
fn divide(load: Load) -> (usize, usize) {
    let connections = load.connections.saturating_sub(WRITERS);
    // With h connections of many watches and the rest of one: h × STREAMS + (connections − h) ≥ watches.
    let h2 = load.watches.saturating_sub(connections).div_ceil(STREAMS - 1);
    (load.watches.saturating_sub(h2 * STREAMS), h2)
}

type Opened = Vec<(usize, Watcher)>;

async fn joined(opening: &mut JoinSet<Result<Opened, String>>) -> Result<Opened, String> {
    match opening.join_next().await {
        Some(opened) => opened.map_err(|error| error.to_string())?,
        None => Ok(Vec::new()),
    }
}

async fn open_some(client: &Client, is_h1: bool, groups: &[usize]) -> Result<Opened, String> {
    let mut connection = if is_h1 { client.connect_h1().await? } else { client.connect_h2().await? };
    let mut opened = Vec::new();
    for group in groups {
        let path = format!("/api/v1/namespaces/{}/configmaps?watch=true", namespace(*group));
        opened.push((*group, connection.watch(&path).await?));
    }
    Ok(opened)
}

/// Counts the events of a watch, and checks their order, until it ends.
async fn count(mut watcher: Watcher, group: usize, shared: Arc<Shared>) -> Result<(), String> {
    let mut seen = 0;
    loop {
        match watcher.next().await {
            Ok(Some(line)) => {
                if !line.starts_with(br#"{"type":"MODIFIED""#) || shared.is_ending() {
                    continue;
                }
                seen += 1;
                let expected = format!(r#""n":"{seen}""#);
                if memchr::memmem::find(&line, expected.as_bytes()).is_none() {
                    return Err(format!(
                        "group {group}: change {seen} is {}",
                        String::from_utf8_lossy(&line)
                    ));
                }
                shared.events.fetch_add(1, Ordering::Relaxed);
            }
            Ok(None) | Err(_) if shared.is_ending() => return Ok(()),
            Ok(None) => return Err(format!("the watch of group {group} ended after {seen} changes")),
            Err(error) => return Err(format!("the watch of group {group} broke: {error}")),
        }
    }
}

/// Opens the remaining connections. Each sends one request and is then idle.
async fn open_idle(clients: &[Client], load: Load, open: usize) -> Result<Vec<client::Connection>, String> {
    let mut idle = Vec::new();
    for index in 0..load.connections.saturating_sub(open + WRITERS) {
        let mut connection = clients[index % clients.len()].connect_h1().await?;
        connection.expect(Method::GET, "/readyz", String::new(), StatusCode::OK).await?;
        idle.push(connection);
    }
    Ok(idle)
}

/// Writes at the rate of the load for this time, or until the server has ended.
async fn write(
    clients: &[Client],
    load: Load,
    shared: &Arc<Shared>,
    how_long: Option<Duration>,
) -> Result<(), String> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (client, shared) = (clients[writer % clients.len()].clone(), shared.clone());
        writers.spawn(async move { write_some(&client, writer, load, &shared, how_long).await });
    }
    while let Some(ended) = writers.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    Ok(())
}

/// One writer. It writes to groups of its own, so that events arrive in the order of its writes.
async fn write_some(
    client: &Client,
    writer: usize,
    load: Load,
    shared: &Shared,
    how_long: Option<Duration>,
) -> Result<(), String> {
    let mut connection = match client.connect_h1().await {
        Err(_) if shared.is_ending() => return Ok(()),
        connection => connection?,
    };
    let own: Vec<usize> = (writer..shared.written.len()).step_by(WRITERS).collect();
    let Some(writes_max) =
        (!own.is_empty()).then(|| how_long.map(|it| it.as_secs() * load.writes_per_second))
    else {
        return Ok(());
    };
    let writing = WRITERS.min(shared.written.len()) as u64;
    let mut ticks =
        tokio::time::interval(Duration::from_secs(1) * writing as u32 / load.writes_per_second as u32);
    for write in 0..writes_max.map_or(u64::MAX, |writes| writes / writing) {
        ticks.tick().await;
        let group = own[(write % own.len() as u64) as usize];
        let number = shared.written[group].load(Ordering::Relaxed) + 1;
        let body = format!(r#"{{"data":{{"n":"{number}"}}}}"#);
        match connection.expect(Method::PATCH, &object(group), body, StatusCode::OK).await {
            Ok(()) => shared.written[group].store(number, Ordering::Relaxed),
            Err(_) if shared.is_ending() => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for a child process that was told to end.
fn wait(child: &mut Child) -> Option<i32> {
    child.wait().ok().and_then(|status| status.code())
}
