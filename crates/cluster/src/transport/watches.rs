//! The register of open watches, so that tests can close them.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use evenkeel_env::{Station, Work};
use futures::task::AtomicWaker;
use http::Method;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

use super::backend::ResponseBody;
use super::fault::Matcher;

/// The open watches of this cluster's clients. Cloning shares the register.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    shared: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_id: BTreeMap<u64, Arc<OpenWatch>>,
}

/// One open watch.
#[derive(Debug)]
struct OpenWatch {
    by: Arc<str>,
    path: String,
    cut: AtomicBool,
    reader: AtomicWaker,
    /// Held from the cut until the reader has dropped the body, because the reader's reaction is pending until then.
    work: Mutex<Option<Work>>,
}

impl Watches {
    /// Ends the open watches that match, as if their connections broke. Returns how many there were.
    pub(crate) fn cut(&self, matcher: &Matcher, station: &Station) -> usize {
        let open = self.shared.lock();
        let matching = open.by_id.values().filter(|line| matcher.matches(&line.by, &Method::GET, &line.path));
        let cut = |line: &Arc<OpenWatch>| {
            *line.work.lock() = Some(station.enter_with(format!("{} cut off from {}", line.by, line.path)));
            line.cut.store(true, Ordering::SeqCst);
            line.reader.wake();
        };
        matching.inspect(|line| cut(line)).count()
    }

    /// Registers a watch until its body is dropped.
    pub(crate) fn enter(&self, by: Arc<str>, path: String, body: ResponseBody) -> CutBody {
        let line = Arc::new(OpenWatch {
            by,
            path,
            cut: AtomicBool::new(false),
            reader: AtomicWaker::new(),
            work: Mutex::new(None),
        });
        let mut open = self.shared.lock();
        let id = open.next;
        open.next += 1;
        open.by_id.insert(id, line.clone());
        CutBody { id, line, body, watches: self.clone() }
    }
}

/// The body of a watch. It ends when the watch is cut.
pub(crate) struct CutBody {
    id: u64,
    line: Arc<OpenWatch>,
    body: ResponseBody,
    watches: Watches,
}

impl http_body::Body for CutBody {
    type Data = Bytes;
    type Error = tower::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.line.reader.register(cx.waker());
        if self.line.cut.load(Ordering::SeqCst) {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Drop for CutBody {
    fn drop(&mut self) {
        self.watches.shared.lock().by_id.remove(&self.id);
    }
}
