//! Response bodies: slices of stored bytes, or a watch that is pulled.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

/// The body of a response.
///
/// It never fails: a watch that cannot go on says so in its last event, or ends.
#[derive(Default)]
pub struct Body(Kind);

enum Kind {
    /// What is still to be written.
    One(Bytes),
    /// The slices still to be written, and how many bytes they are together.
    Whole(VecDeque<Bytes>, u64),
    /// Pulled: nothing is encoded before the reader asks for it.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Default for Kind {
    fn default() -> Self {
        Self::One(Bytes::new())
    }
}

impl Body {
    /// No bytes.
    pub fn empty() -> Self {
        Self::default()
    }

    /// These slices, one after the other.
    pub fn slices(slices: impl IntoIterator<Item = Bytes>) -> Self {
        let slices: VecDeque<Bytes> = slices.into_iter().filter(|it| !it.is_empty()).collect();
        let len = slices.iter().map(|it| it.len() as u64).sum();
        Self(Kind::Whole(slices, len))
    }

    /// What this stream gives, each item when it is asked for.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Kind::Stream(Box::pin(stream)))
    }

    /// How many bytes are left, where the body is not a stream.
    pub(crate) fn whole_len(&self) -> Option<usize> {
        match &self.0 {
            Kind::One(bytes) => Some(bytes.len()),
            Kind::Whole(_, len) => usize::try_from(*len).ok(),
            Kind::Stream(_) => None,
        }
    }

    /// The bytes, where the body is not a stream.
    pub fn whole(&self) -> Option<Bytes> {
        match &self.0 {
            Kind::One(bytes) => Some(bytes.clone()),
            Kind::Whole(slices, _) => Some(slices.iter().flat_map(|it| it.iter().copied()).collect()),
            Kind::Stream(_) => None,
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self(Kind::One(bytes.into()))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::One(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Kind::Whole(_, len) => write!(f, "Body({len} bytes)"),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::One(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Kind::Whole(slices, left) => {
                let next = slices.pop_front();
                *left -= next.as_ref().map_or(0, |it| it.len() as u64);
                Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
            }
            Kind::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::One(bytes) => bytes.is_empty(),
            Kind::Whole(slices, _) => slices.is_empty(),
            Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::One(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Whole(_, len) => SizeHint::with_exact(*len),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}
