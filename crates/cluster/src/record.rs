//! What was asked and answered: for `writes()`, for the timeline of a failed test, and to compare two runs.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// How many exchanges are kept. A test makes some hundreds; at 2 KiB a body this bounds a long one to 32 MiB.
const MOST_KEPT: usize = 16 * 1024;
/// How many exchanges an observer may be behind before it misses some: what a busy cluster makes in a tenth of a second.
const MOST_UNSEEN: usize = 2048;
/// How many lines of the timeline a failed test shows.
const TIMELINE_LINES: usize = 60;

/// One request and what became of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    /// Since the cluster's start.
    pub at: Duration,
    /// Who asked: an operator by its name, `client` for the test itself.
    pub by: Arc<str>,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The body as sent.
    pub body: Bytes,
    /// What became of it.
    pub outcome: Outcome,
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

/// A moment in the record: see [`Cluster::mark`](crate::Cluster::mark).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

#[derive(Debug)]
pub(crate) struct Recorder {
    start: Instant,
    kept: Mutex<Kept>,
    observers: broadcast::Sender<Exchange>,
}

#[derive(Debug, Default)]
struct Kept {
    /// How many were dropped from the front: the number of the first one kept.
    first: u64,
    exchanges: VecDeque<Exchange>,
    /// Where `writes()` begins.
    mark: u64,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), kept: Mutex::default(), observers: broadcast::Sender::new(MOST_UNSEEN) }
    }

    /// Notes a request and gives its number.
    pub(crate) fn asked(&self, by: &Arc<str>, method: &Method, path: &str, body: &Bytes) -> u64 {
        let mut kept = self.kept.lock();
        if kept.exchanges.len() == MOST_KEPT {
            kept.exchanges.pop_front();
            kept.first += 1;
        }
        kept.exchanges.push_back(Exchange {
            at: self.start.elapsed(),
            by: by.clone(),
            method: method.clone(),
            path: path.to_owned(),
            body: body.clone(),
            outcome: Outcome::Pending,
        });
        kept.first + kept.exchanges.len() as u64 - 1
    }

    pub(crate) fn answered(&self, number: u64, outcome: Outcome) {
        let mut kept = self.kept.lock();
        let at = number.checked_sub(kept.first).and_then(|at| usize::try_from(at).ok());
        if let Some(exchange) = at.and_then(|at| kept.exchanges.get_mut(at)) {
            exchange.outcome = outcome;
            if self.observers.receiver_count() > 0 {
                // It fails only when the last observer has just gone.
                let _ = self.observers.send(exchange.clone());
            }
        }
    }

    pub(crate) fn observe(&self) -> broadcast::Receiver<Exchange> {
        self.observers.subscribe()
    }

    pub(crate) fn mark(&self) -> Mark {
        let mut kept = self.kept.lock();
        kept.mark = kept.first + kept.exchanges.len() as u64;
        Mark(kept.mark)
    }

    pub(crate) fn exchanges(&self, since: Option<Mark>) -> Vec<Exchange> {
        let kept = self.kept.lock();
        let since = since.map_or(0, |mark| mark.0);
        let skip = usize::try_from(since.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        kept.exchanges.iter().skip(skip).cloned().collect()
    }

    /// How many requests there were.
    pub(crate) fn count(&self) -> u64 {
        let kept = self.kept.lock();
        kept.first + kept.exchanges.len() as u64
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
        let skip = kept.exchanges.len().saturating_sub(TIMELINE_LINES);
        let left_out = kept.first + skip as u64;
        let mut out = String::new();
        if left_out > 0 {
            out.push_str(&format!("  … {left_out} earlier requests\n"));
        }
        kept.exchanges.iter().skip(skip).for_each(|exchange| out.push_str(&format!("  {exchange}\n")));
        out
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        write!(f, "{at:>9.3}s {:<24} {:<6} {} → ", self.by, self.method.as_str(), self.path)?;
        match &self.outcome {
            Outcome::Pending => f.write_str("no answer yet"),
            Outcome::Answered { status, wrote, fault } => {
                write!(f, "{status}")?;
                wrote.iter().try_for_each(|revision| write!(f, " revision {revision}"))?;
                fault.iter().try_for_each(|fault| write!(f, " ({fault})"))
            }
            Outcome::Lost { wrote, fault } => {
                write!(f, "{fault}")?;
                wrote.iter().try_for_each(|revision| write!(f, ", but revision {revision} was written"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_are_counted_from_the_mark() {
        let recorder = Recorder::new();
        let by: Arc<str> = "op".into();
        let ask = |path: &str, wrote| {
            let number = recorder.asked(&by, &Method::PATCH, path, &Bytes::new());
            recorder.answered(number, Outcome::Answered { status: 200, wrote, fault: None });
        };
        ask("/a?x=1", Some(2));
        let mark = recorder.mark();
        assert!(recorder.writes(mark).is_empty());
        ask("/b?x=1", None);
        ask("/c?x=1", Some(3));
        let paths: Vec<_> = recorder.writes(mark).into_iter().map(|write| write.path).collect();
        assert_eq!(paths, ["/c"]);
        assert!(recorder.timeline().contains("PATCH  /c?x=1 → 200 revision 3"), "{}", recorder.timeline());
    }
}
