//! One list-then-watch: the state machine between the API server and a cache.
//!
//! ```text
//!                        Asleep ── the first change of the resource ──▶ Connecting
//!
//!            ┌────────────── 410 Gone, a cut list ───────────────┐
//!            │  ┌──────────── streamed, then its bookmark ────┐  │
//!            ▼  │                                             ▼  │
//!        Listing ──all pages──▶ Connecting ──response head──▶ Watching
//!            ▲                     ▲    ▲                        │
//!            └──────┬──────────────┘    └──── the server ends it ┤
//!                Waiting ◀───────────────── any failure ─────────┘
//! ```
//! A list is streamed (`sendInitialEvents`): the watch itself begins with the existing objects, and a bookmark marks the
//! end of the list, so that neither side holds a page in memory. If the server refuses to stream, or never sends the
//! bookmark, the list is requested in pages.
//!
//! Each watch has its own backoff, so that a failing watch delays no other. A reflector holds work in the ledger while
//! it lists or connects, and keeps a deadline while it waits for a retry. An open watch is neither.

mod decode;
mod listing;
mod reading;
mod sink;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_env::{Deadline, Env, Station, Work};
use futures::FutureExt;
use kube::Client;
use kube::core::params::WatchParams;
use tokio::time::{Instant, Sleep};

use crate::error::{chain, panic_text};
use crate::resource_use::{Waking, Woken};
use crate::wire::{self, Lines};
use decode::{Batches, READ_AHEAD};
use listing::Listed;
pub(super) use reading::{List, Reading};
pub(super) use sink::{Batch, Sink};

/// The first delay after a failure, doubled up to [`RETRY_MAX`]: client-go's numbers for reflectors.
const RETRY_MIN: Duration = Duration::from_millis(800);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A watch that was open this long was healthy: after its next failure the backoff starts from [`RETRY_MIN`] again.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// A watch that the server ends sooner counts as a failure, so that a reflector never reconnects in a tight loop.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// How long the server is asked to keep a watch open: between one and two times this, so that watches do not all end
/// at once.
const WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// How much longer than asked a watch may stay open before its connection is considered dead.
const WATCH_GRACE: Duration = Duration::from_secs(30);

/// Lists and watches one scope of a source. The type of the objects is hidden behind [`Sink`], so that this is compiled
/// once, not for each kind.
pub(super) struct Reflector {
    sink: Arc<dyn Sink>,
    client: Client,
    env: Env,
    namespace: Option<String>,
    requests: kube::core::Request,
    station: Station,
    deadline: Deadline,
    /// Held from the start, so that a watch that was declared but has not connected yet is pending work.
    first: Option<Work>,
    failures: u32,
    synced: bool,
    /// The number of this reflector among those of its source.
    scope: usize,
    /// Whether lists are streamed; stays false once the server has shown that it cannot stream.
    streams: bool,
    /// Set if the resource has no objects when the watch starts. The watch is then opened with the first object.
    asleep: Option<Waking>,
}

/// The state of a reflector.
enum State {
    /// The resource has no objects, so the empty cache is in sync. The watch is opened with the first object.
    Asleep(Waking),
    /// The server's state is unknown, or the watch lost track of it: list everything.
    Listing(Work),
    /// Everything up to this resource version is in the cache: open a watch from there.
    Connecting(String, Work),
    /// The watch is open.
    Watching(Box<Watching>),
    /// The last attempt failed: try again at this time, which is a deadline in the ledger.
    Waiting(Instant, Then),
}

struct Watching {
    /// How far the watch was read.
    reading: Reading,
    lines: Lines,
    since: Instant,
    /// When the connection is considered dead, even if it still sends events.
    end: Pin<Box<Sleep>>,
}

enum Then {
    List,
    Connect(String),
}

/// Why an attempt ended.
pub(super) enum Failure {
    /// The resource version is too old: list again.
    Gone,
    /// The server does not stream lists: list in pages.
    Unstreamed(&'static str),
    Error(kube::Error),
    /// A transform, an index or a subscriber panicked.
    Panic(String),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.code == 410 => Self::Gone,
            _ => Self::Error(error),
        }
    }
}

impl Reflector {
    pub(super) fn new(
        sink: Arc<dyn Sink>,
        (scope, namespace): (usize, Option<String>),
        streams: bool,
        client: Client,
        env: Env,
        asleep: Option<Waking>,
    ) -> Self {
        let name = match &namespace {
            Some(namespace) => format!("watch of {} ({namespace})", sink.source()),
            None => format!("watch of {}", sink.source()),
        };
        let station = env.ledger().station(name.as_str());
        let deadline = env.ledger().deadline(format!("{name}: retry"));
        let url = sink.url_path(namespace.as_deref());
        let first = asleep.is_none().then(|| station.enter());
        if asleep.is_some() {
            sink.progress().connected(scope, true);
        }
        let synced = asleep.is_some();
        let requests = kube::core::Request::new(url);
        Self {
            sink,
            client,
            env,
            namespace,
            requests,
            station,
            deadline,
            first,
            failures: 0,
            synced,
            scope,
            streams,
            asleep,
        }
    }

    pub(super) async fn run(mut self) {
        let mut state = match self.asleep.take() {
            Some(waking) => State::Asleep(waking),
            None => State::Listing(self.first.take().unwrap_or_else(|| self.station.enter())),
        };
        loop {
            // A user's transform, index or subscriber may panic: the watch must go on, or the cache would silently grow stale.
            let step = AssertUnwindSafe(self.step(state)).catch_unwind().await;
            state = step
                .unwrap_or_else(|panic| self.failed("read", Failure::Panic(panic_text(&*panic)), Then::List));
        }
    }

    async fn step(&mut self, state: State) -> State {
        match state {
            State::Asleep(waking) => match waking.await {
                Ok(Woken { work, before }) => State::Connecting(before.to_string(), work),
                // The sender is gone, so the resource will never be used.
                Err(_) => std::future::pending().await,
            },
            State::Listing(work) => match self.list().await {
                Ok(Listed::Pages(version)) => State::Connecting(version, work),
                Ok(Listed::Stream(version, lines)) => self.connected(version, lines, work),
                Err(failure) => self.failed("list", failure, Then::List),
            },
            State::Connecting(version, work) => match self.connect(&version).await {
                Ok(lines) => self.connected(version, lines, work),
                Err(failure) => self.failed("watch", failure, Then::Connect(version)),
            },
            State::Watching(watching) => self.watch(*watching).await,
            State::Waiting(at, then) => self.wait(at, then).await,
        }
    }

    async fn connect(&self, version: &str) -> Result<Lines, Failure> {
        self.open(version, false).await
    }

    /// Opens a watch from a resource version; with `initial_events`, it begins with all existing objects.
    async fn open(&self, version: &str, initial_events: bool) -> Result<Lines, Failure> {
        let base = WATCH_TIMEOUT.as_secs();
        let timeout = base + self.env.random_below(base);
        let params = WatchParams {
            label_selector: self.sink.source().labels.clone(),
            field_selector: self.sink.source().fields.clone(),
            timeout: u32::try_from(timeout).ok(),
            bookmarks: true,
            send_initial_events: initial_events,
        };
        let request = match self.sink.is_metadata() {
            true => self.requests.watch_metadata(&params, version),
            false => self.requests.watch(&params, version),
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // The server would delay events of a compressed watch until a block is full.
        let identity = http::HeaderValue::from_static("identity");
        request.headers_mut().insert(http::header::ACCEPT_ENCODING, identity);
        let response = wire::open(&self.client, request).await?;
        Ok(Lines::new(response.into_body()))
    }

    fn connected(&mut self, version: String, lines: Lines, _work: Work) -> State {
        let newly = !std::mem::replace(&mut self.synced, true);
        if !newly {
            self.sink.restarted();
        }
        self.sink.progress().connected(self.scope, newly);
        let since = Instant::now();
        let end = Box::pin(tokio::time::sleep_until(since + 2 * WATCH_TIMEOUT + WATCH_GRACE));
        let reading = Reading::watch(version);
        State::Watching(Box::new(Watching { reading, lines, since, end }))
    }

    /// Reads the watch until it ends or fails.
    async fn watch(&mut self, mut watching: Watching) -> State {
        loop {
            let line = tokio::select! {
                biased;
                line = watching.lines.next() => line,
                () = &mut watching.end => Ok(None),
            };
            let applied = match line {
                Ok(Some(line)) => self.apply_ready(line, &mut watching).await,
                Ok(None) => return self.ended(watching),
                Err(error) => Err(error.into()),
            };
            if let Err(failure) = applied {
                self.forget_failures_if_healthy(watching.since);
                return self.failed("watch", failure, Then::Connect(watching.reading.into_version()));
            }
            // A watch that always has another event ready yields to the tasks that handle the previous ones.
            tokio::task::consume_budget().await;
        }
    }

    /// Applies a line and the lines after it that have already arrived.
    async fn apply_ready(&self, line: Bytes, watching: &mut Watching) -> Result<(), Failure> {
        // Reading the next line releases the work of the previous one, which is not applied yet: hold work meanwhile.
        let _work = self.station.enter();
        let mut batches = Batches::of(&self.sink, watching.lines.ready(line, READ_AHEAD));
        while let Some(batch) = batches.next().await {
            let applied = batch.apply(&mut watching.reading);
            self.sink.observe(self.scope, watching.reading.version());
            self.sink.progress().heard();
            applied?;
        }
        Ok(())
    }

    /// The server ended the watch without an error: its timeout was reached.
    fn ended(&mut self, watching: Watching) -> State {
        self.forget_failures_if_healthy(watching.since);
        // Work for the next attempt is entered before the body, which may hold work of its own, is dropped.
        let work = self.station.enter();
        if watching.since.elapsed() < SHORTEST_WATCH {
            self.failures += 1;
            return self.wait_for_retry(Then::Connect(watching.reading.into_version()));
        }
        State::Connecting(watching.reading.into_version(), work)
    }

    fn forget_failures_if_healthy(&mut self, since: Instant) {
        if since.elapsed() >= HEALTHY_AFTER {
            self.failures = 0;
        }
    }

    fn failed(&mut self, verb: &str, failure: Failure, then: Then) -> State {
        let text = match failure {
            // A resource version that is too old needs a new list without a wait. A server that answers so repeatedly is failing.
            Failure::Gone if self.failures == 0 => {
                tracing::info!(source = %self.sink.source(), "the resource version of the watch is too old: listing again");
                self.failures = 1;
                return State::Listing(self.station.enter());
            }
            Failure::Gone => {
                self.failures = self.failures.saturating_add(1);
                let why = format!("{verb}: the server keeps saying that the version is too old");
                self.sink.progress().failed(self.scope, why.into());
                return self.wait_for_retry(Then::List);
            }
            Failure::Unstreamed(why) => format!("{verb}: {why}"),
            Failure::Panic(what) => format!("{verb}: a panic: {what}"),
            Failure::Error(kube::Error::Api(status)) => format!("{verb}: {}", status.message),
            Failure::Error(other) => format!("{verb}: {}", chain(&other)),
        };
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(source = %self.sink.source(), error = text, failures = self.failures, "watch failed");
        self.sink.progress().failed(self.scope, text.into());
        self.wait_for_retry(then)
    }

    /// Starts the backoff of this watch. The deadline is in the ledger before the work of the failed attempt is released.
    fn wait_for_retry(&self, then: Then) -> State {
        let doubled = RETRY_MIN.saturating_mul(1 << self.failures.saturating_sub(1).min(16));
        let delay = doubled.min(RETRY_MAX).mul_f64(1.0 + self.env.random_fraction() * 0.5);
        let at = Instant::now() + delay;
        self.deadline.set(Some(at));
        State::Waiting(at, then)
    }

    async fn wait(&mut self, at: Instant, then: Then) -> State {
        tokio::time::sleep_until(at).await;
        let work = self.station.enter();
        self.deadline.set(None);
        match then {
            Then::List => State::Listing(work),
            Then::Connect(version) => State::Connecting(version, work),
        }
    }
}
