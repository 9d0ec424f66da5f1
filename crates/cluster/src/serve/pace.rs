//! Watches on their way to a socket: each event at once while they are few, what a millisecond brings together when
//! they are many.
//!
//! An event is cheap to make and dear to send: a TLS record and a system call here, and the same again where it is
//! read. A watcher of a busy collection gets the same bytes in fewer pieces; that of a quiet one waits for nothing.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel_apiserver::Body;
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// How long a busy stream gathers: the least that the timer can tell.
const PAUSE: Duration = Duration::from_millis(1);
/// A stream is busy when it has something to say again within this time.
const BUSY: Duration = Duration::from_millis(2);
/// How much is sent in one piece, about: what four TLS records hold.
const PIECE_BYTES: usize = 64 * 1024;

/// The body of an answer, paced where it is a stream.
pub(crate) struct Paced {
    body: Body,
    /// What paces it; none for a body that is there as a whole.
    pace: Option<Pace>,
}

#[derive(Default)]
struct Pace {
    sent: Option<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl Paced {
    pub(crate) fn new(body: Body) -> Self {
        let pace = body.size_hint().exact().is_none().then(Pace::default);
        Self { body, pace }
    }
}

impl Pace {
    /// Takes what the body has, as one piece.
    fn gather(&mut self, body: &mut Body, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let (mut first, mut more) = (None::<Bytes>, BytesMut::new());
        while !self.ended && first.as_ref().map_or(0, Bytes::len).max(more.len()) < PIECE_BYTES {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => self.ended = true,
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
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

    /// After a piece was taken: whether the next one waits.
    fn sent(&mut self) {
        let now = Instant::now();
        let before = self.sent.replace(now);
        if before.is_some_and(|before| now - before < BUSY) {
            self.pause = Some(Box::pin(tokio::time::sleep_until(now + PAUSE)));
        }
    }
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Self { body, pace } = &mut *self;
        let Some(pace) = pace else { return Pin::new(body).poll_frame(cx) };
        if let Some(pause) = &mut pace.pause {
            ready!(pause.as_mut().poll(cx));
            pace.pause = None;
        }
        let piece = ready!(pace.gather(body, cx));
        pace.sent();
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
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

    fn stream() -> (UnboundedSender<Bytes>, Paced) {
        let (sender, events) = unbounded();
        (sender, Paced::new(Body::stream(events)))
    }

    async fn next(body: &mut Paced) -> Option<Bytes> {
        body.frame().await.map(|frame| frame.unwrap().into_data().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_waits_for_nothing() {
        let (events, mut body) = stream();
        let start = Instant::now();
        for _ in 0..5 {
            events.unbounded_send("a\n".into()).unwrap();
            assert_eq!(next(&mut body).await.unwrap(), "a\n");
            tokio::time::advance(BUSY).await;
        }
        assert_eq!(start.elapsed(), 5 * BUSY);
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
        assert!(start.elapsed() <= PAUSE + Duration::from_millis(1));
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
        let mut body = Paced::new(Body::slices(["a".into(), "b".into()]));
        assert_eq!(body.size_hint().exact(), Some(2));
        assert_eq!(next(&mut body).await.unwrap(), "a");
        assert_eq!(next(&mut body).await.unwrap(), "b");
        assert!(body.is_end_stream());
        assert_eq!(next(&mut body).await, None);
    }
}
