//! The record of what happened in a cluster: every request with its response, the reconciles of operators, and the
//! faults that the test injected. `writes()`, the timeline of a failed test and the comparison of two runs use it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_request_info::ResourcePath;
use evenkeel_runtime::{Observed, Stage};
use http::Method;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::describe::{name_in, review_summary, verb};
use super::fault::is_write;
use crate::serve::Served;

/// The namespace of a handle unless it names another one.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";
/// How many moments are kept. A test has some hundreds; with bodies of 2 KiB, this bounds the record to 32 MiB.
const MOST_KEPT: usize = 16 * 1024;
/// How many moments an observer may be behind before it misses some: what happens in a busy cluster in 0.1 s.
const MOST_UNSEEN: usize = 2048;
/// How many moments a follower reads before others may record again: less than 0.1 ms of work.
const READ_AT_ONCE: usize = 32;
/// How many lines of the timeline a failed test shows: a screen.
const TIMELINE_LINES: usize = 40;
/// The name of the test in the timeline, as the one that injects faults.
const TEST: &str = "test";

/// One entry of the record: a request, a reconcile or a fault.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Moment {
    /// A request and its outcome.
    Request(Exchange),
    /// A call of the API server to a webhook. The path is the whole URL, and the body is the review.
    Webhook(Exchange),
    /// A reconcile of an operator began or ended. Those of the built-in controllers are not recorded.
    Reconcile(Reconcile),
    /// The test disturbed the cluster: it crashed an operator, cut a watch or let time pass.
    Disturbance {
        /// The time since the cluster's start.
        at: Duration,
        /// What the test did.
        what: String,
    },
}

/// A reconcile that began or ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reconcile {
    /// The time since the cluster's start.
    pub at: Duration,
    /// The name of the controller.
    pub by: Arc<str>,
    /// The key of the object.
    pub object: String,
    /// The causes of the reconcile.
    pub causes: String,
    /// Whether the reconcile began, or how it ended.
    pub stage: Stage,
}

/// A request and its outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    /// The time since the cluster's start.
    pub at: Duration,
    /// The client: the name of an operator, or `client` for the test itself.
    pub by: Arc<str>,
    /// Kubernetes' verb for the request: `create`, `patch`, `delete` and so on, or `apply` for a server-side apply.
    pub verb: &'static str,
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The body of the request.
    pub body: Bytes,
    /// The outcome of the request.
    pub outcome: Outcome,
    /// How long the response took, or zero without a response.
    pub took: Duration,
    /// Whether the request was forbidden because the client lacks a permission.
    pub is_forbidden: bool,
}

impl Exchange {
    /// The resource that the request addresses, or `None` if its path is not one of a resource.
    pub fn target(&self) -> Option<ResourcePath<'_>> {
        ResourcePath::parse(&self.path)
    }

    /// The request's verb and object, such as `apply deployments/web`.
    pub fn summary(&self) -> String {
        let Some(target) = self.target() else { return format!("{} {}", self.method, self.path) };
        let named =
            (self.method == Method::POST && target.name.is_empty()).then(|| name_in(&self.body)).flatten();
        let name = named.map(|name| format!("/{name}")).unwrap_or_default();
        let place = match &*target.namespace {
            "" | DEFAULT_NAMESPACE => String::new(),
            namespace => format!(" in {namespace}"),
        };
        format!("{} {target}{name}{place}", self.verb)
    }

    /// Whether the timeline shows the request: writes and failures, but neither upkeep (leases, Events) nor reads of
    /// objects that do not exist.
    fn matters(&self) -> bool {
        let upkeep = self.target().is_some_and(|target| matches!(&*target.resource, "leases" | "events"));
        match &self.outcome {
            Outcome::Answered { status: 404, fault: None, .. } if !is_write(&self.method) || upkeep => false,
            Outcome::Answered { status, fault: None, .. } if *status < 400 => {
                is_write(&self.method) && !upkeep
            }
            Outcome::Answered { .. } | Outcome::Lost { .. } => true,
            Outcome::Pending => is_write(&self.method) && !upkeep,
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The request is still being served, or its client has crashed.
    Pending,
    /// The response has arrived.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The revision that the request created, if it changed something.
        wrote: Option<u64>,
        /// The injected fault, if there was one.
        fault: Option<String>,
    },
    /// The response never arrived.
    Lost {
        /// The revision that the request created, if it changed something.
        wrote: Option<u64>,
        /// The injected fault.
        fault: String,
    },
}

impl Outcome {
    /// The revision that the request created, if it changed something.
    pub fn wrote(&self) -> Option<u64> {
        match self {
            Self::Pending => None,
            Self::Answered { wrote, .. } | Self::Lost { wrote, .. } => *wrote,
        }
    }
}

/// A request that changed an object.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Write {
    /// The client: the name of an operator, or `client` for the test itself.
    pub by: Arc<str>,
    /// The HTTP method.
    pub method: Method,
    /// The path, without its query.
    pub path: String,
    /// The revision that the write created.
    pub revision: u64,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} (revision {})", self.by, self.method, self.path, self.revision)
    }
}

/// A position in the record, made by `Cluster::mark`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

#[derive(Debug)]
pub(crate) struct Recorder {
    start: Instant,
    kept: Mutex<Kept>,
    observers: broadcast::Sender<Moment>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the first moment that is kept; older ones were dropped.
    first: u64,
    moments: VecDeque<Moment>,
    /// The numbers of the moments that ended last, in that order: followers of the record read along it. As many as there
    /// are moments, which makes 128 KiB.
    ended: VecDeque<u64>,
    /// How many moments have ended since the start.
    ended_count: u64,
    /// The number of the moment where `writes()` begins.
    mark: u64,
    /// The number of the moment where the timeline begins.
    beginning: u64,
}

impl Kept {
    /// Adds a moment, and returns its number.
    fn push(&mut self, moment: Moment) -> u64 {
        if self.moments.len() == MOST_KEPT {
            self.moments.pop_front();
            self.first += 1;
        }
        self.moments.push_back(moment);
        self.first + self.moments.len() as u64 - 1
    }

    /// Lets followers see the moment.
    fn end(&mut self, number: u64) {
        if self.ended.len() == MOST_KEPT {
            self.ended.pop_front();
        }
        self.ended.push_back(number);
        self.ended_count += 1;
    }

    /// The position of the oldest moment that can be followed.
    fn oldest_ended(&self) -> u64 {
        self.ended_count - self.ended.len() as u64
    }

    /// The moment with this number, if it is kept.
    fn moment(&self, number: u64) -> Option<&Moment> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.moments.get(at)
    }
}

/// A position among the moments that have ended, for a reader that follows the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed(u64);

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), kept: Mutex::default(), observers: broadcast::Sender::new(MOST_UNSEEN) }
    }

    /// Records a request and returns its number.
    pub(crate) fn asked(&self, asked: OutgoingRequest<'_>) -> u64 {
        self.push(Moment::Request(self.exchange(asked)))
    }

    /// Records a call to a webhook and returns its number.
    pub(crate) fn called(&self, asked: OutgoingRequest<'_>) -> u64 {
        self.push(Moment::Webhook(self.exchange(asked)))
    }

    fn exchange(&self, asked: OutgoingRequest<'_>) -> Exchange {
        let OutgoingRequest { by, verb, method, path, body } = asked;
        Exchange {
            at: self.start.elapsed(),
            by: by.clone(),
            verb,
            method: method.clone(),
            path: path.to_owned(),
            body: body.clone(),
            outcome: Outcome::Pending,
            took: Duration::ZERO,
            is_forbidden: false,
        }
    }

    pub(crate) fn answered(&self, number: u64, outcome: Outcome) {
        let mut kept = self.kept.lock();
        let at = number.checked_sub(kept.first).and_then(|at| usize::try_from(at).ok());
        let Some(moment) = at.and_then(|at| kept.moments.get_mut(at)) else { return };
        if let Moment::Request(exchange) | Moment::Webhook(exchange) = moment {
            exchange.outcome = outcome;
            exchange.took = self.start.elapsed().saturating_sub(exchange.at);
            self.tell(|| moment.clone());
            kept.end(number);
        }
    }

    /// Records a request of a client outside of this process, which has been answered. Its body is not kept.
    pub(crate) fn served(&self, served: Served) {
        let Served { begun, by, content_type, method, path, status, wrote } = served;
        let content_type = content_type.as_ref().map(http::HeaderValue::as_bytes);
        let verb = verb(&method, &path, content_type);
        let exchange = Exchange {
            at: begun.saturating_duration_since(self.start),
            by,
            verb,
            method,
            path,
            body: Bytes::new(),
            outcome: Outcome::Answered { status, wrote, fault: None },
            took: begun.elapsed(),
            is_forbidden: false,
        };
        self.ended(Moment::Request(exchange));
    }

    /// Records a moment that has ended.
    fn ended(&self, moment: Moment) {
        let mut kept = self.kept.lock();
        self.tell(|| moment.clone());
        let number = kept.push(moment);
        kept.end(number);
    }

    /// Records that a request was forbidden because its client lacks a permission.
    pub(crate) fn forbade(&self, number: u64) {
        let mut kept = self.kept.lock();
        let at = number.checked_sub(kept.first).and_then(|at| usize::try_from(at).ok());
        if let Some(Moment::Request(exchange)) = at.and_then(|at| kept.moments.get_mut(at)) {
            exchange.is_forbidden = true;
        }
    }

    /// Records that a reconcile has begun or ended.
    pub(crate) fn reconciled(&self, seen: &Observed<'_>) {
        let moment = Moment::Reconcile(Reconcile {
            at: self.start.elapsed(),
            by: seen.controller.into(),
            object: seen.object.to_string(),
            causes: seen.causes.to_string(),
            stage: seen.stage.clone(),
        });
        self.tell(|| moment.clone());
        self.push(moment);
    }

    /// Records what the test did to the cluster.
    pub(crate) fn disturbed(&self, what: impl Into<String>) {
        self.ended(Moment::Disturbance { at: self.start.elapsed(), what: what.into() });
    }

    fn push(&self, moment: Moment) -> u64 {
        self.kept.lock().push(moment)
    }

    fn tell(&self, moment: impl FnOnce() -> Moment) {
        if self.observers.receiver_count() > 0 {
            // This fails only if the last observer has just been dropped.
            let _ = self.observers.send(moment());
        }
    }

    /// When the record begins.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// The position of a reader that wants what ends from now on.
    pub(crate) fn now(&self) -> Followed {
        Followed(self.kept.lock().ended_count)
    }

    /// The position of a reader that wants everything that is kept.
    pub(crate) fn oldest(&self) -> Followed {
        Followed(self.kept.lock().oldest_ended())
    }

    /// Calls `each` with the requests, calls of webhooks and disturbances that have ended since `position`, in that order,
    /// and moves `position` on. Returns how many of them were dropped before they could be read. Moments from before the
    /// beginning of the timeline are left out.
    pub(crate) fn ended_since(&self, position: &mut Followed, mut each: impl FnMut(&Moment)) -> u64 {
        let mut missed = 0;
        loop {
            // Requests wait for this lock, so that it is given back between the parts.
            let kept = self.kept.lock();
            let oldest = kept.oldest_ended();
            missed += oldest.saturating_sub(position.0);
            let begin = usize::try_from(position.0.saturating_sub(oldest)).unwrap_or(usize::MAX);
            let begin = begin.min(kept.ended.len());
            let end = kept.ended.len().min(begin + READ_AT_ONCE);
            for &number in kept.ended.range(begin..end).filter(|number| **number >= kept.beginning) {
                match kept.moment(number) {
                    Some(moment) => each(moment),
                    None => missed += 1,
                }
            }
            *position = Followed(oldest + end as u64);
            if end == kept.ended.len() {
                return missed;
            }
        }
    }

    pub(crate) fn observe(&self) -> broadcast::Receiver<Moment> {
        self.observers.subscribe()
    }

    /// Begins the timeline here. Earlier moments belong to the start of the cluster.
    pub(crate) fn begin(&self) {
        let mut kept = self.kept.lock();
        kept.beginning = kept.first + kept.moments.len() as u64;
    }

    pub(crate) fn mark(&self) -> Mark {
        let mut kept = self.kept.lock();
        kept.mark = kept.first + kept.moments.len() as u64;
        Mark(kept.mark)
    }

    pub(crate) fn exchanges(&self, since: Option<Mark>) -> Vec<Exchange> {
        let kept = self.kept.lock();
        let since = since.map_or(0, |mark| mark.0);
        let skip = usize::try_from(since.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        let request = |moment: &Moment| match moment {
            Moment::Request(exchange) => Some(exchange.clone()),
            Moment::Webhook(_) | Moment::Reconcile(_) | Moment::Disturbance { .. } => None,
        };
        kept.moments.iter().skip(skip).filter_map(request).collect()
    }

    /// Returns every moment that is kept since the timeline began.
    pub(crate) fn moments(&self) -> Vec<Moment> {
        let kept = self.kept.lock();
        let before = usize::try_from(kept.beginning.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        kept.moments.iter().skip(before).cloned().collect()
    }

    /// How many moments have been recorded since the start.
    pub(crate) fn count(&self) -> u64 {
        let kept = self.kept.lock();
        kept.first + kept.moments.len() as u64
    }

    pub(crate) fn last_mark(&self) -> Mark {
        Mark(self.kept.lock().mark)
    }

    pub(crate) fn writes(&self, since: Mark) -> Vec<Write> {
        let exchanges = self.exchanges(Some(since));
        let write = |exchange: Exchange| {
            let revision = exchange.outcome.wrote()?;
            let path = exchange.path.split('?').next().unwrap_or_default().to_owned();
            Some(Write { by: exchange.by, method: exchange.method, path, revision })
        };
        exchanges.into_iter().filter_map(write).collect()
    }

    /// The last moments that matter, one line each, newest last.
    pub(crate) fn timeline(&self) -> String {
        let kept = self.kept.lock();
        let before = usize::try_from(kept.beginning.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        let told: Vec<&Moment> = kept.moments.iter().skip(before).filter(|moment| moment.matters()).collect();
        let skip = told.len().saturating_sub(TIMELINE_LINES);
        let mut out = String::new();
        if skip > 0 || kept.first > kept.beginning {
            out.push_str("  … and more before\n");
        }
        told.iter().skip(skip).for_each(|moment| out.push_str(&format!("  {moment}\n")));
        out
    }
}

/// A request that is about to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingRequest<'a> {
    pub(crate) by: &'a Arc<str>,
    pub(crate) verb: &'static str,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) body: &'a Bytes,
}

impl Moment {
    /// Whether a timeline shows the moment. It shows writes, failures, starts of reconciles, and disturbances.
    pub fn matters(&self) -> bool {
        match self {
            Self::Request(exchange) => exchange.matters(),
            // Whether a thread was held depends on the machine. It is a warning at the end of a test.
            Self::Reconcile(reconcile) => {
                !matches!(reconcile.stage, Stage::Ended { error: None, .. } | Stage::Blocked { .. })
            }
            Self::Webhook(_) | Self::Disturbance { .. } => true,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(exchange) => exchange.fmt(f),
            Self::Webhook(call) => {
                let what = review_summary(&call.body).unwrap_or_default();
                line(f, call.at, &call.by, &format!("calls {}{what} → {}", call.path, call.outcome))
            }
            Self::Reconcile(reconcile) => reconcile.fmt(f),
            Self::Disturbance { at, what } => line(f, *at, TEST, what),
        }
    }
}

impl fmt::Display for Reconcile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, by, object, causes, stage } = self;
        let text = match stage {
            Stage::Ended { error: Some(error), .. } => format!("failed for {object}: {error}"),
            Stage::Ended { .. } => format!("done with {object}"),
            Stage::Blocked { held } => {
                format!("held its thread for {held:.1?} of real time while it reconciled {object}")
            }
            _ => format!("woken for {object}: {causes}"),
        };
        line(f, *at, by, &text)
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, self.at, &self.by, &format!("{} → {}", self.summary(), self.outcome))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("no answer yet"),
            Self::Answered { status, wrote, fault } => {
                write!(f, "{status}")?;
                wrote.iter().try_for_each(|revision| write!(f, ", revision {revision}"))?;
                fault.iter().try_for_each(|fault| write!(f, " ({fault})"))
            }
            Self::Lost { wrote, fault } => {
                write!(f, "{fault}")?;
                wrote.iter().try_for_each(|revision| write!(f, ", but revision {revision} was written"))
            }
        }
    }
}

fn line(f: &mut fmt::Formatter<'_>, at: Duration, by: &str, text: &str) -> fmt::Result {
    f.write_str(&evenkeel_record::line(at, by, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A follower sees what has ended, once, in the order in which it ended, and learns how much it has missed.
    #[tokio::test(start_paused = true)]
    async fn a_follower_sees_each_moment_once_when_it_has_ended() {
        let recorder = Recorder::new();
        recorder.disturbed("before the timeline");
        recorder.begin();
        let (by, body): (Arc<str>, _) = ("op".into(), Bytes::new());
        let ask = |path: &str| {
            recorder.asked(OutgoingRequest { by: &by, verb: "get", method: &Method::GET, path, body: &body })
        };
        let read = |position: &mut Followed| {
            let mut seen = Vec::new();
            let missed = recorder.ended_since(position, |moment| match moment {
                Moment::Request(exchange) => seen.push(exchange.path.clone()),
                Moment::Disturbance { what, .. } => seen.push(what.clone()),
                other => panic!("{other:?}"),
            });
            (seen.join(" "), missed)
        };
        let answer = |number| {
            recorder.answered(number, Outcome::Answered { status: 200, wrote: None, fault: None });
        };
        let (mut whole, mut later) = (recorder.oldest(), recorder.now());
        let (first, second) = (ask("/a"), ask("/b"));
        assert_eq!(read(&mut whole), (String::new(), 0), "none has ended");
        answer(second);
        recorder.disturbed("cut");
        answer(first);
        assert_eq!(read(&mut whole), ("/b cut /a".to_owned(), 0));
        assert_eq!(read(&mut whole), (String::new(), 0));
        assert_eq!(read(&mut later), ("/b cut /a".to_owned(), 0));
        for at in 0..MOST_KEPT + READ_AT_ONCE + 1 {
            recorder.disturbed(at.to_string());
        }
        let (seen, missed) = read(&mut whole);
        assert_eq!((seen.split(' ').count(), missed), (MOST_KEPT, READ_AT_ONCE as u64 + 1));
        assert_eq!(read(&mut recorder.oldest()).1, 0, "a reader that begins now has missed nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn writes_are_counted_from_the_mark() {
        let recorder = Recorder::new();
        let by: Arc<str> = "op".into();
        let ask = |path: &str, wrote| {
            let asked =
                OutgoingRequest { by: &by, verb: "patch", method: &Method::PATCH, path, body: &Bytes::new() };
            let number = recorder.asked(asked);
            recorder.answered(number, Outcome::Answered { status: 200, wrote, fault: None });
        };
        ask("/api/v1/nodes/a?x=1", Some(2));
        let mark = recorder.mark();
        assert!(recorder.writes(mark).is_empty());
        ask("/api/v1/nodes/b?x=1", None);
        ask("/api/v1/nodes/c?x=1", Some(3));
        let paths: Vec<_> = recorder.writes(mark).into_iter().map(|write| write.path).collect();
        assert_eq!(paths, ["/api/v1/nodes/c"]);
        assert!(recorder.timeline().contains("patch nodes/c → 200, revision 3"), "{}", recorder.timeline());
    }
}
