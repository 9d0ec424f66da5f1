//! Response bodies: slices of stored bytes, or a watch that is encoded on demand.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures::Stream;
use http_body::{Frame, SizeHint};

/// The approximate size of the pieces of a body that is encoded while it is read: four TLS records.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// The largest text that is inserted into stored bytes: a resourceVersion field with the digits of a `u64` and a comma.
pub(crate) const SPLICED_TEXT_MAX: usize = br#""resourceVersion":"18446744073709551615","#.len();

/// The body of a response.
///
/// Reading a body never fails: a watch that cannot continue says so in its last event, or ends.
#[derive(Default)]
pub struct Body(Content);

enum Content {
    /// The bytes still to be written.
    One(Bytes),
    /// An object with its resource version inserted.
    Spliced(Spliced),
    /// The slices still to be written, and their total length.
    Whole(VecDeque<Bytes>, u64),
    /// Pieces that are encoded while the body is read, and the number of bytes left, if known.
    Lazy(Box<dyn Iterator<Item = Bytes> + Send>, Option<u64>),
    /// A watch: nothing is encoded before the reader asks for it.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

/// A part of a body that is written at once.
#[derive(Debug)]
pub enum Piece {
    /// Plain bytes.
    Bytes(Bytes),
    /// Bytes with a short text inserted.
    Spliced(Spliced),
}

/// Stored bytes with a short text inserted, without a copy of the bytes.
#[derive(Debug)]
pub struct Spliced {
    bytes: Bytes,
    /// The offset at which the text is inserted.
    at: usize,
    text: [u8; SPLICED_TEXT_MAX],
    text_len: u8,
    /// The number of bytes already written.
    done: usize,
}

impl Default for Content {
    fn default() -> Self {
        Self::One(Bytes::new())
    }
}

impl Body {
    /// Creates an empty body.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates a body from slices.
    pub fn slices(slices: impl IntoIterator<Item = Bytes>) -> Self {
        let slices: VecDeque<Bytes> = slices.into_iter().filter(|it| !it.is_empty()).collect();
        let len = slices.iter().map(|it| it.len() as u64).sum();
        Self(Content::Whole(slices, len))
    }

    /// Creates a body whose pieces are made on demand. `len` is their total length, if known.
    pub(crate) fn lazy(len: Option<u64>, pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self(Content::Lazy(Box::new(pieces), len))
    }

    /// Creates the body of a watch from a stream, which is polled on demand.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Content::Stream(Box::pin(stream)))
    }

    /// Whether this is a watch, whose pieces arrive as events happen and whose end is not known.
    pub fn is_watch(&self) -> bool {
        matches!(self.0, Content::Stream(_))
    }

    /// Polls for the next part. Unlike a frame of [`http_body::Body`], which is contiguous bytes, it is never
    /// a copy.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        match &mut self.0 {
            Content::One(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then_some(Piece::Bytes(bytes)))
            }
            Content::Spliced(_) => match std::mem::take(&mut self.0) {
                Content::Spliced(spliced) => Poll::Ready(Some(Piece::Spliced(spliced))),
                _ => Poll::Ready(None),
            },
            Content::Whole(slices, left) => {
                let next = slices.pop_front();
                *left -= next.as_ref().map_or(0, |it| it.len() as u64);
                Poll::Ready(next.map(Piece::Bytes))
            }
            Content::Lazy(pieces, left) => {
                let next = pieces.next();
                if let (Some(left), Some(piece)) = (left, &next) {
                    *left = left.saturating_sub(piece.len() as u64);
                }
                Poll::Ready(next.map(Piece::Bytes))
            }
            Content::Stream(stream) => stream.as_mut().poll_next(cx).map(|next| next.map(Piece::Bytes)),
        }
    }

    /// The number of bytes left, if known.
    pub(crate) fn whole_len(&self) -> Option<usize> {
        match &self.0 {
            Content::One(bytes) => Some(bytes.len()),
            Content::Spliced(spliced) => Some(spliced.remaining()),
            Content::Whole(_, len) => usize::try_from(*len).ok(),
            Content::Lazy(_, len) => len.and_then(|len| usize::try_from(len).ok()),
            Content::Stream(_) => None,
        }
    }

    /// Whether the first slice of the body starts with these bytes; always `false` for a body that is made
    /// while it is read.
    pub(crate) fn starts_with(&self, beginning: &[u8]) -> bool {
        match &self.0 {
            Content::One(bytes) => bytes.starts_with(beginning),
            Content::Whole(slices, _) => slices.front().is_some_and(|it| it.starts_with(beginning)),
            Content::Spliced(_) | Content::Lazy(..) | Content::Stream(_) => false,
        }
    }

    /// Returns the bytes and keeps them as the body. Returns `None` for a watch, which it leaves unchanged.
    pub(crate) fn gathered(&mut self) -> Option<Bytes> {
        if self.is_watch() {
            return None;
        }
        let bytes = std::mem::take(self).whole()?;
        *self = bytes.clone().into();
        Some(bytes)
    }

    /// Returns the bytes; `None` for a watch.
    pub fn whole(self) -> Option<Bytes> {
        match self.0 {
            Content::One(bytes) => Some(bytes),
            Content::Spliced(spliced) => Some(spliced.chunks().concat().into()),
            Content::Whole(slices, _) => Some(slices.into_iter().flatten().collect()),
            Content::Lazy(pieces, _) => Some(pieces.flatten().collect()),
            Content::Stream(_) => None,
        }
    }

    /// Returns the parts of the body in order; `None` for a watch.
    pub(crate) fn into_pieces(self) -> Option<Box<dyn Iterator<Item = Bytes> + Send>> {
        match self.0 {
            Content::Lazy(pieces, _) => Some(pieces),
            Content::Whole(slices, _) => Some(Box::new(slices.into_iter())),
            other => Self(other).whole().map(|bytes| Box::new(std::iter::once(bytes)) as Box<_>),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self(Content::One(bytes.into()))
    }
}

impl From<Spliced> for Body {
    fn from(spliced: Spliced) -> Self {
        Self(Content::Spliced(spliced))
    }
}

impl Piece {
    /// Copies the piece into contiguous bytes.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Spliced(spliced) => spliced.chunks().concat().into(),
        }
    }
}

impl Spliced {
    /// Creates stored bytes with room for a text at the offset `at`.
    pub(crate) fn new(bytes: Bytes, at: usize) -> Self {
        Self { bytes, at, text: [0; SPLICED_TEXT_MAX], text_len: 0, done: 0 }
    }

    /// Appends to the inserted text.
    pub(crate) fn put(&mut self, text: &[u8]) {
        let end = usize::from(self.text_len) + text.len();
        self.text[usize::from(self.text_len)..end].copy_from_slice(text);
        self.text_len = end as u8;
    }

    /// The slices still to be written, in order. Some may be empty.
    fn chunks(&self) -> [&[u8]; 3] {
        let (before, after) = self.bytes.split_at(self.at);
        let mut skip = self.done;
        [before, &self.text[..usize::from(self.text_len)], after].map(|chunk| {
            let skipped = skip.min(chunk.len());
            skip -= skipped;
            &chunk[skipped..]
        })
    }
}

impl Buf for Spliced {
    fn remaining(&self) -> usize {
        self.bytes.len() + usize::from(self.text_len) - self.done
    }

    fn chunk(&self) -> &[u8] {
        self.chunks().into_iter().find(|chunk| !chunk.is_empty()).unwrap_or_default()
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        let chunks = self.chunks().into_iter().filter(|chunk| !chunk.is_empty());
        out.iter_mut().zip(chunks).map(|(slot, chunk)| *slot = IoSlice::new(chunk)).count()
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "cannot advance beyond the end of the body");
        self.done += count;
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.remaining(),
            Self::Spliced(spliced) => spliced.remaining(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.chunk(),
            Self::Spliced(spliced) => spliced.chunk(),
        }
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.chunks_vectored(out),
            Self::Spliced(spliced) => spliced.chunks_vectored(out),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Bytes(bytes) => bytes.advance(count),
            Self::Spliced(spliced) => spliced.advance(count),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Content::One(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Content::Spliced(spliced) => write!(f, "Body({} bytes)", spliced.remaining()),
            Content::Whole(_, len) | Content::Lazy(_, Some(len)) => write!(f, "Body({len} bytes)"),
            Content::Lazy(_, None) => f.write_str("Body(lazy)"),
            Content::Stream(_) => f.write_str("Body(stream)"),
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
        self.poll_piece(cx).map(|next| next.map(|piece| Ok(Frame::data(piece.into_bytes()))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::One(bytes) => bytes.is_empty(),
            Content::Spliced(_) => false,
            Content::Whole(slices, _) => slices.is_empty(),
            Content::Lazy(_, left) => *left == Some(0),
            Content::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::One(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Spliced(spliced) => SizeHint::with_exact(spliced.remaining() as u64),
            Content::Whole(_, len) | Content::Lazy(_, Some(len)) => SizeHint::with_exact(*len),
            Content::Lazy(_, None) | Content::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced() -> Spliced {
        let mut spliced = Spliced::new("before after".into(), 7);
        spliced.put(b"and ");
        spliced.put(b"not ");
        spliced
    }

    fn together(slices: &[IoSlice<'_>]) -> Vec<u8> {
        slices.iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    #[test]
    fn a_text_is_read_where_it_was_put_however_much_is_taken_at_once() {
        let text = b"before and not after";
        for step in 1..=text.len() {
            let (mut piece, mut read) = (Piece::Spliced(spliced()), Vec::new());
            while piece.has_remaining() {
                assert_eq!(piece.remaining(), text.len() - read.len());
                let mut slices = [IoSlice::new(&[]); 4];
                let count = piece.chunks_vectored(&mut slices);
                assert_eq!(together(&slices[..count]), text[read.len()..]);
                assert_eq!(&*slices[0], piece.chunk());
                let taken = step.min(piece.chunk().len());
                read.extend_from_slice(&piece.chunk()[..taken]);
                piece.advance(taken);
            }
            assert_eq!(read, text);
        }
        assert_eq!(Piece::Spliced(spliced()).into_bytes(), &text[..]);
    }

    #[test]
    fn fewer_slices_than_there_are_chunks_are_filled() {
        let mut slices = [IoSlice::new(&[]); 2];
        let spliced = spliced();
        assert_eq!(spliced.chunks_vectored(&mut slices), 2);
        assert_eq!(together(&slices), b"before and not ");
    }
}
