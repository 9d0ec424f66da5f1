//! Batching of watch events: a quiet watch sends each event at once, a busy one sends the events of a few milliseconds
//! together.
//!
//! An event is cheap to encode and expensive to send: it takes a TLS record and a system call here, and the same again
//! at the client. A watch of a busy collection sends the same bytes in fewer pieces, and the more busy watches there
//! are, the larger the pieces become.

use std::convert::Infallible;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use evenkeel_apiserver::{Body, Piece};
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::activity::{Activity, Answering, Open, Unread};
use super::in_flight::Permit;

/// The shortest time that a busy watch collects events: the resolution of the timer.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest time that a busy watch collects events. A person does not notice such a delay.
const PAUSE_MAX: Duration = Duration::from_millis(8);
/// How much each busy watch adds to that time: about twice the cost of sending a piece, so that sending keeps no more
/// than half of a processor busy.
const PAUSE_EACH: Duration = Duration::from_micros(40);
/// A watch is busy if its next event arrives within this time after its pause.
const LULL: Duration = Duration::from_millis(1);
/// The approximate size of a piece: four TLS records.
const PIECE_BYTES: usize = 64 * 1024;

/// A response of up to this size counts as read when it is written. A longer one stays open until it is sent.
const QUICK_BYTES: u64 = 64 * 1024;

/// The number of busy watches of a server. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusyWatches(Arc<AtomicU32>);

impl BusyWatches {
    /// How long a busy watch collects events.
    fn pause(&self) -> Duration {
        (PAUSE_EACH * self.0.load(Ordering::Relaxed)).clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

/// The body of a response, batched if it is a watch.
pub(crate) struct BatchedBody {
    body: Body,
    /// Batches the events of a watch. `None` for other bodies. Boxed, because bodies are moved often.
    batcher: Option<Box<Batcher>>,
    /// Notes the progress of a response over HTTP/2.
    notes: Option<Notes>,
    /// Held until a response that takes a while is sent.
    _open: Option<(Open, Option<Arc<Permit>>)>,
}

/// The progress of a response over HTTP/2, where many responses share a socket and each can be reset.
struct Notes {
    /// Counts the pieces that are not sent yet.
    activity: Activity,
    /// `None` when the whole response was read.
    answering: Option<Answering>,
}

/// A piece of a body on its way to the socket.
pub(crate) struct Sending {
    piece: Piece,
    /// Dropped with the piece, when it was sent or never will be.
    _unread: Option<Unread>,
}

struct Batcher {
    busy_watches: BusyWatches,
    /// Whether this watch is counted in `busy_watches`.
    busy: bool,
    sent: Option<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl BatchedBody {
    /// Wraps the body of a response. `permit` is held until the response is sent. `answering` is set for HTTP/2.
    pub(crate) fn new(
        body: Body,
        busy_watches: &BusyWatches,
        activity: &Activity,
        answering: Option<Answering>,
        permit: Option<Arc<Permit>>,
    ) -> Self {
        let batcher = body.is_watch().then(|| Box::new(Batcher::new(busy_watches.clone())));
        let quick = body.size_hint().exact().is_some_and(|len| len <= QUICK_BYTES);
        let _open = (!quick).then(|| (activity.open(), permit));
        let notes =
            answering.map(|answering| Notes { activity: activity.clone(), answering: Some(answering) });
        let mut batched = Self { body, batcher, notes, _open };
        batched.note_end(false);
        batched
    }

    fn sending(&mut self, piece: Piece) -> Frame<Sending> {
        self.note_end(false);
        let _unread = self.notes.as_ref().map(|notes| notes.activity.handed_over());
        Frame::data(Sending { piece, _unread })
    }

    /// Notes the end of the response, if it has been reached.
    fn note_end(&mut self, ended: bool) {
        if let Some(notes) = &mut self.notes
            && (ended || self.body.is_end_stream())
            && let Some(answering) = notes.answering.take()
        {
            answering.finish();
        }
    }
}

impl Buf for Sending {
    fn remaining(&self) -> usize {
        self.piece.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.piece.chunk()
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        self.piece.chunks_vectored(out)
    }

    fn advance(&mut self, count: usize) {
        self.piece.advance(count);
    }
}

impl Drop for Batcher {
    fn drop(&mut self) {
        self.set_busy(false);
    }
}

impl Batcher {
    fn new(busy_watches: BusyWatches) -> Self {
        Self { busy_watches, busy: false, sent: None, pause: None, ended: false }
    }

    fn set_busy(&mut self, busy: bool) {
        match (self.busy, busy) {
            (false, true) => self.busy_watches.0.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.busy_watches.0.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.busy = busy;
    }

    /// Takes the events that the body has now, as one piece.
    fn gather(&mut self, body: &mut Body, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let (mut first, mut more) = (None::<Bytes>, BytesMut::new());
        while !self.ended && first.as_ref().map_or(0, Bytes::len).max(more.len()) < PIECE_BYTES {
            match body.poll_piece(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => self.ended = true,
                Poll::Ready(Some(piece)) => {
                    let data = piece.into_bytes();
                    match &first {
                        None => first = Some(data),
                        Some(first) => {
                            if more.is_empty() {
                                more.extend_from_slice(first);
                            }
                            more.extend_from_slice(&data);
                        }
                    }
                }
            }
        }
        match first {
            Some(_) if !more.is_empty() => Poll::Ready(Some(more.freeze())),
            Some(one) => Poll::Ready(Some(one)),
            None if self.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Notes that a piece was taken, and decides how long the next one waits.
    fn sent(&mut self) {
        let (now, pause) = (Instant::now(), self.busy_watches.pause());
        let before = self.sent.replace(now);
        self.set_busy(before.is_some_and(|before| now - before < pause + LULL));
        if !self.busy {
            return;
        }
        match &mut self.pause {
            Some(timer) => timer.as_mut().reset(now + pause),
            None => self.pause = Some(Box::pin(tokio::time::sleep_until(now + pause))),
        }
    }
}

impl http_body::Body for BatchedBody {
    type Data = Sending;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Sending>, Infallible>>> {
        let Self { body, batcher, .. } = &mut *self;
        let piece = match batcher {
            None => ready!(body.poll_piece(cx)),
            Some(batcher) => {
                if let Some(pause) = batcher.pause.as_mut().filter(|_| batcher.busy) {
                    ready!(pause.as_mut().poll(cx));
                }
                let piece = ready!(batcher.gather(body, cx));
                batcher.sent();
                piece.map(Piece::Bytes)
            }
        };
        match piece {
            Some(piece) => Poll::Ready(Some(Ok(self.sending(piece)))),
            None => {
                self.note_end(true);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::channel::mpsc::{UnboundedSender, unbounded};
    use http_body_util::BodyExt as _;

    use super::*;

    fn batched(body: Body, busy_watches: &BusyWatches) -> BatchedBody {
        BatchedBody::new(body, busy_watches, &Activity::default(), None, None)
    }

    fn stream() -> (UnboundedSender<Bytes>, BatchedBody) {
        let (sender, events) = unbounded();
        (sender, batched(Body::stream(events), &BusyWatches::default()))
    }

    async fn next(body: &mut BatchedBody) -> Option<Bytes> {
        body.frame().await.map(|frame| frame.unwrap().into_data().ok().unwrap().piece.into_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_waits_for_nothing() {
        let (events, mut body) = stream();
        let start = Instant::now();
        for _ in 0..5 {
            events.unbounded_send("a\n".into()).unwrap();
            assert_eq!(next(&mut body).await.unwrap(), "a\n");
            tokio::time::advance(PAUSE_MIN + LULL).await;
        }
        assert_eq!(start.elapsed(), 5 * (PAUSE_MIN + LULL));
        drop(events);
        assert_eq!(next(&mut body).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_stream_is_sent_in_pieces() {
        let (events, mut body) = stream();
        for event in ["a\n", "b\n"] {
            events.unbounded_send(event.into()).unwrap();
            assert_eq!(next(&mut body).await.unwrap(), event, "nothing is held back before it is busy");
        }
        for event in ["c\n", "d\n", "e\n"] {
            events.unbounded_send(event.into()).unwrap();
        }
        let start = Instant::now();
        assert_eq!(next(&mut body).await.unwrap(), "c\nd\ne\n");
        assert!(start.elapsed() <= PAUSE_MIN + Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_are_busy_the_longer_each_gathers() {
        let busy_watches = BusyWatches::default();
        let mut streams = Vec::new();
        for _ in 0..100 {
            let (events, body) = unbounded();
            let mut body = batched(Body::stream(body), &busy_watches);
            for event in ["a\n", "b\n"] {
                events.unbounded_send(event.into()).unwrap();
                next(&mut body).await;
            }
            streams.push((events, body));
        }
        assert_eq!(busy_watches.pause(), 100 * PAUSE_EACH);
        let (events, body) = &mut streams[0];
        tokio::time::advance(busy_watches.pause()).await;
        events.unbounded_send("c\n".into()).unwrap();
        next(body).await;
        assert_eq!(busy_watches.pause(), 100 * PAUSE_EACH, "it is still busy after a longer pause");
        drop(streams);
        assert_eq!(busy_watches.pause(), PAUSE_MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_there_at_once_is_one_piece_up_to_a_bound() {
        let (events, mut body) = stream();
        let event = Bytes::from(vec![b'x'; PIECE_BYTES / 2]);
        (0..5).for_each(|_| events.unbounded_send(event.clone()).unwrap());
        drop(events);
        let mut sizes = Vec::new();
        while let Some(piece) = next(&mut body).await {
            sizes.push(piece.len());
        }
        assert_eq!(sizes, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES / 2]);
    }

    #[tokio::test]
    async fn what_is_whole_stays_so() {
        let mut body = batched(Body::slices(["a".into(), "b".into()]), &BusyWatches::default());
        assert_eq!(body.size_hint().exact(), Some(2));
        assert_eq!(next(&mut body).await.unwrap(), "a");
        assert_eq!(next(&mut body).await.unwrap(), "b");
        assert!(body.is_end_stream());
        assert_eq!(next(&mut body).await, None);
    }
}
