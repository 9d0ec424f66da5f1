//! The socket of one connection. It notes in the connection's [`Activity`] what the client sends and reads.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;

/// How much a blocked client must read to count as reading: one TLS record. Together with the timeout for unread
/// responses this sets the lowest rate at which a client may read, a few hundred bytes a second.
const FAIR_BYTES: usize = 16 * 1024;

/// A socket that counts its reads and writes.
pub(crate) struct Socket<S> {
    stream: S,
    activity: Activity,
    /// How many bytes were written since the socket was blocked. `None` while it is not blocked.
    written: Option<usize>,
}

impl<S> Socket<S> {
    pub(crate) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity, written: None }
    }

    fn note_written(&mut self, wrote: &Poll<io::Result<usize>>) {
        match (wrote, &mut self.written) {
            (Poll::Pending, None) => {
                self.written = Some(0);
                self.activity.note_blocked();
            }
            (Poll::Ready(Ok(bytes)), Some(written)) => {
                *written += bytes;
                if *written >= FAIR_BYTES {
                    self.note_drained();
                }
            }
            _ => {}
        }
    }

    fn note_drained(&mut self) {
        self.written = None;
        self.activity.note_drained();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.note_read();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note_written(&wrote);
        wrote
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note_written(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        match (&flushed, self.written) {
            (Poll::Pending, None) => {
                self.written = Some(0);
                self.activity.note_blocked();
            }
            (Poll::Ready(Ok(())), Some(_)) => self.note_drained(),
            _ => {}
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_blocks_until_it_takes_a_fair_amount() {
        let (ours, mut theirs) = tokio::io::duplex(4 * FAIR_BYTES);
        let activity = Activity::default();
        let mut socket = Socket::new(ours, activity.clone());
        socket.write_all(&vec![0; 4 * FAIR_BYTES]).await.unwrap();
        assert!(!activity.seen().blocked);
        let mut write = std::pin::pin!(socket.write_all(&[0; 2 * FAIR_BYTES]));
        assert!(futures::poll!(write.as_mut()).is_pending());
        assert!(activity.seen().blocked);
        theirs.read_exact(&mut vec![0; FAIR_BYTES / 2]).await.unwrap();
        assert!(futures::poll!(write.as_mut()).is_pending());
        assert!((activity.seen().blocked, activity.seen().drained) == (true, 0));
        theirs.read_exact(&mut vec![0; FAIR_BYTES / 2]).await.unwrap();
        assert!(futures::poll!(write.as_mut()).is_pending());
        assert_eq!(activity.seen().drained, 1);
        theirs.read_exact(&mut vec![0; FAIR_BYTES]).await.unwrap();
        assert!(futures::poll!(write.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn bytes_that_arrive_are_noted() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let activity = Activity::default();
        let mut socket = Socket::new(ours, activity.clone());
        theirs.write_all(b"GET /").await.unwrap();
        socket.read_exact(&mut [0; 5]).await.unwrap();
        assert!(activity.seen().in_head);
    }
}
