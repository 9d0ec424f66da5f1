//! Held watches: their events are kept back, as by a slow connection or an API server that lags behind.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_env::{Station, Work};
use futures::task::AtomicWaker;
use http::Method;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;

use super::backend::ResponseBody;
use super::fault::Matcher;

/// The open watches of this cluster's clients that can be held. Clones share one register.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldWatches {
    shared: Arc<Mutex<Register>>,
}

#[derive(Debug, Default)]
struct Register {
    next: u64,
    open: BTreeMap<u64, Arc<OpenWatch>>,
    /// Which watches are held. A rule does not hold watches that begin with a list later than the rule.
    rules: Vec<Matcher>,
}

/// One open watch.
#[derive(Debug)]
struct OpenWatch {
    by: Arc<str>,
    path: String,
    reader: AtomicWaker,
    state: Mutex<LineState>,
}

#[derive(Debug, Default)]
struct LineState {
    held: bool,
    /// Whether kept-back events have not reached the reader yet.
    has_kept: bool,
    /// Held from the release until the reader has taken all kept-back events.
    work: Option<Work>,
}

/// How a watch begins.
pub(super) enum Beginning {
    /// After a given revision.
    Resumed,
    /// With a list of the newest state.
    Listed,
    /// With these frames, which list an older state. Everything after them is held.
    Stale(VecDeque<Bytes>),
}

impl HeldWatches {
    /// Holds the open watches that match, and watches that resume while the rule is active. Returns how many are open.
    pub(crate) fn hold(&self, matcher: Matcher) -> usize {
        let mut register = self.shared.lock();
        let held = register.open.values().filter(|line| line.matches(&matcher));
        let held = held.inspect(|line| line.state.lock().held = true).count();
        register.rules.push(matcher);
        held
    }

    /// Delivers the events of all held watches.
    pub(crate) fn release(&self, station: &Station) {
        let mut register = self.shared.lock();
        register.rules.clear();
        for line in register.open.values() {
            let mut state = line.state.lock();
            if std::mem::take(&mut state.held) && state.has_kept {
                state.work = Some(station.enter_with(format!("{} catches up with {}", line.by, line.path)));
            }
            drop(state);
            line.reader.wake();
        }
    }

    /// Registers a watch until its body is dropped.
    pub(super) fn enter(&self, by: Arc<str>, path: String, body: ResponseBody, begin: Beginning) -> HeldBody {
        let line = Arc::new(OpenWatch {
            by,
            path,
            reader: AtomicWaker::new(),
            state: Mutex::new(LineState::default()),
        });
        let mut register = self.shared.lock();
        let (first, held) = match begin {
            Beginning::Resumed => (VecDeque::new(), register.rules.iter().any(|rule| line.matches(rule))),
            Beginning::Listed => (VecDeque::new(), false),
            Beginning::Stale(frames) => (frames, true),
        };
        line.state.lock().held = held;
        let id = register.next;
        register.next += 1;
        register.open.insert(id, line.clone());
        HeldBody { id, line, first, kept: VecDeque::new(), ended: false, body, watches: self.clone() }
    }
}

impl OpenWatch {
    fn matches(&self, matcher: &Matcher) -> bool {
        matcher.matches(&self.by, &Method::GET, &self.path)
    }
}

/// The body of a watch that can be held.
pub(super) struct HeldBody {
    id: u64,
    line: Arc<OpenWatch>,
    /// The frames that the reader gets first, even if the watch is held.
    first: VecDeque<Bytes>,
    /// The frames that were kept back.
    kept: VecDeque<Frame<Bytes>>,
    /// Whether the server ended the watch while it was held.
    ended: bool,
    body: ResponseBody,
    watches: HeldWatches,
}

impl HeldBody {
    /// Takes what the server has sent, so that it does not count as pending work, and keeps it back.
    fn keep(&mut self, cx: &mut Context<'_>) -> Result<(), tower::BoxError> {
        while !self.ended {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(frame)) => self.kept.push_back(frame?),
                Poll::Ready(None) => self.ended = true,
            }
        }
        self.line.state.lock().has_kept = self.ended || !self.kept.is_empty();
        Ok(())
    }
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = tower::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.line.reader.register(cx.waker());
        if let Some(bytes) = self.first.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let held = self.line.state.lock().held;
        if held {
            return match self.keep(cx) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Some(Err(error))),
            };
        }
        if let Some(frame) = self.kept.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let next = Pin::new(&mut self.body).poll_frame(cx);
        // The reader asks for more, so it has handled everything that was kept back.
        self.line.state.lock().work = None;
        next
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.kept.is_empty() && (self.ended || self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.watches.shared.lock().open.remove(&self.id);
    }
}
