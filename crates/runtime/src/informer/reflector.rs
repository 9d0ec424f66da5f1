//! One list-then-watch: the state machine between the API server and a cache.
//!
//! ```text
//!            ┌────────────── 410 Gone, a cut list ───────────────┐
//!            │  ┌──────────── streamed, then its bookmark ────┐  │
//!            ▼  │                                             ▼  │
//!        Listing ──all pages──▶ Connecting ──response head──▶ Watching
//!            ▲                     ▲    ▲                        │
//!            └──────┬──────────────┘    └──── the server ends it ┤
//!                Waiting ◀───────────────── any failure ─────────┘
//! ```
//! A list is streamed (`sendInitialEvents`): the watch itself begins with what there is, and a bookmark says where
//! that ends, so that neither side ever holds a page. A server that refuses this, or knows it so little that it never
//! sends the bookmark, is asked for pages.
//!
//! A backoff of its own for each watch: one that fails delays no other. While it lists or connects it holds work in
//! the ledger; while it waits for a retry it keeps a deadline; a watch that stands is neither.

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
use crate::wire::{self, Lines};
use decode::{Batches, READ_AHEAD};
use listing::Listed;
pub(super) use reading::{List, Reading};
pub(super) use sink::{Batch, Sink};

/// The first delay after a failure, doubled up to [`RETRY_MAX`]: client-go's numbers for reflectors.
const RETRY_MIN: Duration = Duration::from_millis(800);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(30);

/// A watch that stood this long was healthy: its next failure starts from [`RETRY_MIN`] again.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// A watch that the server ends sooner is taken for a failure, lest we connect in a tight loop.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// How long the server is asked to keep a watch: between one and two times this, so that not all end together.
const WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// How much later than asked a watch may end before we take the connection for dead.
const WATCH_GRACE: Duration = Duration::from_secs(30);

/// It knows nothing of the type of its objects, which [`Sink`] does, so that it is compiled once and not for each kind.
pub(super) struct Reflector {
    sink: Arc<dyn Sink>,
    client: Client,
    env: Env,
    namespace: Option<String>,
    requests: kube::core::Request,
    station: Station,
    deadline: Deadline,
    /// Held from the beginning, so that a watch that was declared but not yet started is pending work.
    first: Option<Work>,
    failures: u32,
    synced: bool,
    /// Which of the source's reflectors this is.
    scope: usize,
    /// Whether lists are streamed; false for ever once the server has shown that it cannot.
    streams: bool,
}

/// Where the reflector stands.
enum State {
    /// Nothing is known of the server's state, or it was lost: list everything.
    Listing(Work),
    /// Everything up to this version is in the cache; a watch from there is to be opened.
    Connecting(String, Work),
    /// The watch stands.
    Watching(Box<Watching>),
    /// The last attempt failed; try again at this time, which is the deadline in the ledger.
    Waiting(Instant, Then),
}

struct Watching {
    /// Up to its last event or bookmark.
    reading: Reading,
    lines: Lines,
    since: Instant,
    /// When the connection is taken for dead, whatever it says.
    end: Pin<Box<Sleep>>,
}

enum Then {
    List,
    Connect(String),
}

/// Why an attempt ended.
pub(super) enum Failure {
    /// The version is too old: list again.
    Gone,
    /// The server does not stream lists: list in pages.
    Unstreamed(&'static str),
    Error(kube::Error),
    /// A function that is called for each object panicked.
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
    ) -> Self {
        let name = match &namespace {
            Some(namespace) => format!("watch of {} ({namespace})", sink.source()),
            None => format!("watch of {}", sink.source()),
        };
        let station = env.ledger().station(name.as_str());
        let deadline = env.ledger().deadline(format!("{name}: retry"));
        let url = sink.url_path(namespace.as_deref());
        let first = Some(station.enter());
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
            synced: false,
            scope,
            streams,
        }
    }

    pub(super) async fn run(mut self) {
        let first = self.first.take().unwrap_or_else(|| self.station.enter());
        let mut state = State::Listing(first);
        loop {
            // A transform, an index or a subscriber of the user's may panic: the cache must not stand still unnoticed.
            let step = AssertUnwindSafe(self.step(state)).catch_unwind().await;
            state = step
                .unwrap_or_else(|panic| self.failed("read", Failure::Panic(panic_text(&*panic)), Then::List));
        }
    }

    async fn step(&mut self, state: State) -> State {
        match state {
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

    /// Opens a watch: from a version, or with everything there is as its beginning.
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
        // A compressed watch is delayed until a block is full.
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
            // A watch that always has one more event leaves room for those who work on the last.
            tokio::task::consume_budget().await;
        }
    }

    /// Applies a line and what else is there already.
    async fn apply_ready(&self, line: Bytes, watching: &mut Watching) -> Result<(), Failure> {
        // To ask for the next line says that the one before has been dealt with, which is not so yet.
        let _work = self.station.enter();
        let mut batches = Batches::of(&self.sink, watching.lines.ready(line, READ_AHEAD));
        while let Some(batch) = batches.next().await {
            let applied = batch.apply(&mut watching.reading);
            self.sink.observe(self.scope, watching.reading.version());
            applied?;
        }
        Ok(())
    }

    /// The server ended the watch without an error: its time was over.
    fn ended(&mut self, watching: Watching) -> State {
        self.forget_failures_if_healthy(watching.since);
        // The next attempt is entered before the body, which may hold work of its own, is dropped.
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
            // A version that has just become too old costs a list, no wait; a server that keeps saying so is failing.
            Failure::Gone if self.failures == 0 => {
                tracing::info!(source = %self.sink.source(), "the watch's version is too old: listing again");
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

    /// Sets this watch's own backoff; the deadline is in the ledger before the failed attempt's work is let go.
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
