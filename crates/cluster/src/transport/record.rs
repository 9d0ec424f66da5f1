//! What happened: every request with its answer, the reconciles of operators, and what the test disturbed. For
//! `writes()`, for the timeline of a failed test, and to compare two runs.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_runtime::{Observed, Stage};
use http::Method;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::fault::is_write;
use super::target::{Target, name_in};

/// The namespace of a handle unless it names another one.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";
/// How many moments are kept. A test makes some hundreds; at 2 KiB a body this bounds a long one to 32 MiB.
const MOST_KEPT: usize = 16 * 1024;
/// How many moments an observer may be behind before it misses some: what a busy cluster makes in a tenth of a second.
const MOST_UNSEEN: usize = 2048;
/// How many lines of the timeline a failed test shows: a screen.
const TIMELINE_LINES: usize = 40;
/// Who disturbs the cluster, in the timeline.
const TEST: &str = "test";

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Moment {
    /// A request, and what became of it.
    Request(Exchange),
    /// A reconcile of an operator's controller began or ended. Those of the built-in controllers are not kept.
    Reconcile(Reconcile),
    /// The test disturbed the cluster: a crash, a watch that was cut, a leap in time.
    Disturbance {
        /// Since the cluster's start.
        at: Duration,
        /// What was done.
        what: String,
    },
}

/// A reconcile that began or ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reconcile {
    /// Since the cluster's start.
    pub at: Duration,
    /// The controller.
    pub by: Arc<str>,
    /// The key.
    pub object: String,
    /// Why.
    pub causes: String,
    /// Whether it begins, or how it ended.
    pub stage: Stage,
}

/// One request and what became of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    /// Since the cluster's start.
    pub at: Duration,
    /// Who asked: an operator by its name, `client` for the test itself.
    pub by: Arc<str>,
    /// Kubernetes' word for what was asked: `create`, `apply`, `delete` and so on.
    pub verb: &'static str,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The body as sent.
    pub body: Bytes,
    /// What became of it.
    pub outcome: Outcome,
}

impl Exchange {
    /// What it is about, where it is about objects.
    pub fn target(&self) -> Option<Target<'_>> {
        Target::parse(&self.path)
    }

    /// Its verb and object, as a person would say it: `apply deployments/web`.
    pub fn summary(&self) -> String {
        let Some(target) = self.target() else { return format!("{} {}", self.method, self.path) };
        let named =
            (self.method == Method::POST && target.name.is_none()).then(|| name_in(&self.body)).flatten();
        let name = named.map(|name| format!("/{name}")).unwrap_or_default();
        let place = target.namespace.filter(|namespace| *namespace != DEFAULT_NAMESPACE);
        let place = place.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
        format!("{} {target}{name}{place}", self.verb)
    }

    /// Whether a person who looks for what went wrong wants to see it: writes, and what was not answered well. What
    /// keeps the cluster up, and events, tell nothing; nor does a look for what is not there.
    fn matters(&self) -> bool {
        let upkeep = self.target().is_some_and(|target| matches!(target.plural, "leases" | "events"));
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

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is still being served, or its client has died.
    Pending,
    /// It was answered.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The store's revision after it, where it wrote something.
        wrote: Option<u64>,
        /// The fault that struck it.
        fault: Option<String>,
    },
    /// Its answer never arrived.
    Lost {
        /// The store's revision after it, where it wrote something.
        wrote: Option<u64>,
        /// What went wrong.
        fault: String,
    },
}

impl Outcome {
    /// The revision that it made, where it made one.
    pub fn wrote(&self) -> Option<u64> {
        match self {
            Self::Pending => None,
            Self::Answered { wrote, .. } | Self::Lost { wrote, .. } => *wrote,
        }
    }
}

/// A request that changed something.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Write {
    /// Who wrote.
    pub by: Arc<str>,
    /// The method.
    pub method: Method,
    /// The path, without its query.
    pub path: String,
    /// The revision that it made.
    pub revision: u64,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} (revision {})", self.by, self.method, self.path, self.revision)
    }
}

/// A moment in the record: see `Cluster::mark`.
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
    /// How many were dropped from the front: the number of the first one kept.
    first: u64,
    moments: VecDeque<Moment>,
    /// Where `writes()` begins.
    mark: u64,
    /// Where the timeline begins.
    beginning: u64,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), kept: Mutex::default(), observers: broadcast::Sender::new(MOST_UNSEEN) }
    }

    /// Notes a request and gives its number.
    pub(crate) fn asked(&self, exchange: Asked<'_>) -> u64 {
        let Asked { by, verb, method, path, body } = exchange;
        self.push(Moment::Request(Exchange {
            at: self.start.elapsed(),
            by: by.clone(),
            verb,
            method: method.clone(),
            path: path.to_owned(),
            body: body.clone(),
            outcome: Outcome::Pending,
        }))
    }

    pub(crate) fn answered(&self, number: u64, outcome: Outcome) {
        let mut kept = self.kept.lock();
        let at = number.checked_sub(kept.first).and_then(|at| usize::try_from(at).ok());
        if let Some(Moment::Request(exchange)) = at.and_then(|at| kept.moments.get_mut(at)) {
            exchange.outcome = outcome;
            self.tell(|| Moment::Request(exchange.clone()));
        }
    }

    /// Notes that a reconcile begins or has ended.
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

    /// Notes what the test did to the cluster.
    pub(crate) fn disturbed(&self, what: impl Into<String>) {
        let moment = Moment::Disturbance { at: self.start.elapsed(), what: what.into() };
        self.tell(|| moment.clone());
        self.push(moment);
    }

    fn push(&self, moment: Moment) -> u64 {
        let mut kept = self.kept.lock();
        if kept.moments.len() == MOST_KEPT {
            kept.moments.pop_front();
            kept.first += 1;
        }
        kept.moments.push_back(moment);
        kept.first + kept.moments.len() as u64 - 1
    }

    fn tell(&self, moment: impl FnOnce() -> Moment) {
        if self.observers.receiver_count() > 0 {
            // It fails only when the last observer has just gone.
            let _ = self.observers.send(moment());
        }
    }

    pub(crate) fn observe(&self) -> broadcast::Receiver<Moment> {
        self.observers.subscribe()
    }

    /// What was before is the cluster's own start, and no part of the timeline.
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
            Moment::Reconcile(_) | Moment::Disturbance { .. } => None,
        };
        kept.moments.iter().skip(skip).filter_map(request).collect()
    }

    /// How much there was.
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

    /// The last lines of what happened, newest last.
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

/// A request as it leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) by: &'a Arc<str>,
    pub(crate) verb: &'static str,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) body: &'a Bytes,
}

impl Moment {
    fn matters(&self) -> bool {
        match self {
            Self::Request(exchange) => exchange.matters(),
            Self::Reconcile(reconcile) => !matches!(reconcile.stage, Stage::Ended { error: None, .. }),
            Self::Disturbance { .. } => true,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(exchange) => exchange.fmt(f),
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
    write!(f, "{:>9.3}s  {by:<24} {text}", at.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_are_counted_from_the_mark() {
        let recorder = Recorder::new();
        let by: Arc<str> = "op".into();
        let ask = |path: &str, wrote| {
            let asked = Asked { by: &by, verb: "patch", method: &Method::PATCH, path, body: &Bytes::new() };
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
