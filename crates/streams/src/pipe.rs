//! A connection within the process, whose bytes on their way are work in the ledger.
//!
//! The work begins when bytes are written, and ends when all of them are read. A reader hands on what it has read in the same
//! step, so that the next part enters its work before anything else happens. That a writer has
//! closed its end is not work, even before the reader notices: many protocols mark the end of a message themselves, and
//! their readers then read no further.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use evenkeel_env::{Station, Work};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use crate::limits::PIPE_BYTES;

/// One end of a connection within the process, or of a pipe, which is a connection that is used in one direction.
///
/// Dropping it ends the connection: the other end reads what was written, and then the end.
#[derive(Debug)]
pub struct Pipe {
    inner: DuplexStream,
    incoming: Transit,
    outgoing: Transit,
}

/// The bytes on their way in one direction.
#[derive(Clone, Debug)]
struct Transit {
    station: Option<Station>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Held while bytes are on their way.
    work: Option<Work>,
    /// How many bytes are on their way.
    unread: usize,
    /// Whether the reader is gone.
    is_dropped: bool,
}

/// Creates a connection. Its bytes are work of the station, if there is one.
pub fn duplex(station: Option<&Station>) -> (Pipe, Pipe) {
    connected(Transit::new(station), Transit::new(station))
}

/// Creates a pipe: an end to write to, and an end to read from.
pub(crate) fn pipe(station: Option<&Station>) -> (Pipe, Pipe) {
    connected(Transit::new(station), Transit::new(None))
}

fn connected(there: Transit, back: Transit) -> (Pipe, Pipe) {
    let (one, other) = tokio::io::duplex(PIPE_BYTES);
    let first = Pipe { inner: one, incoming: back.clone(), outgoing: there.clone() };
    (first, Pipe { inner: other, incoming: there, outgoing: back })
}

impl Transit {
    fn new(station: Option<&Station>) -> Self {
        Self { station: station.cloned(), state: Arc::default() }
    }

    fn written(&self, count: usize) {
        let Some(station) = &self.station else { return };
        let mut state = self.state.lock();
        if count == 0 || state.is_dropped {
            return;
        }
        state.unread += count;
        if state.work.is_none() {
            state.work = Some(station.enter());
        }
    }

    fn read(&self, count: usize) {
        let mut state = self.state.lock();
        state.unread = state.unread.saturating_sub(count);
        if state.unread == 0 {
            state.work = None;
        }
    }

    fn drop_reader(&self) {
        *self.state.lock() = State { work: None, unread: 0, is_dropped: true };
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.incoming.drop_reader();
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.incoming.read(buffer.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            self.outgoing.written(written);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_env::Ledger;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bytes_are_work_until_they_are_read() {
        let ledger = Ledger::new();
        let (mut here, mut there) = duplex(Some(&ledger.station("streams")));
        assert!(ledger.is_empty(), "an open connection is at rest");
        here.write_all(b"abc").await.unwrap();
        let mut two = [0; 2];
        there.read_exact(&mut two).await.unwrap();
        assert_eq!(ledger.len(), 1, "one byte is not read yet");
        assert_eq!(there.read(&mut two).await.unwrap(), 1);
        assert!(ledger.is_empty());
        there.write_all(b"d").await.unwrap();
        assert_eq!(ledger.len(), 1);
        drop(there);
        assert_eq!(here.read(&mut two).await.unwrap(), 1);
        assert_eq!(here.read(&mut two).await.unwrap(), 0);
        assert!(ledger.is_empty());
    }

    #[tokio::test]
    async fn what_nobody_will_read_is_no_work() {
        let ledger = Ledger::new();
        let (mut here, there) = pipe(Some(&ledger.station("streams")));
        here.write_all(b"ab").await.unwrap();
        drop(there);
        assert!(ledger.is_empty());
        assert!(here.write_all(b"c").await.is_err());
        drop(here);
        assert!(ledger.is_empty());
    }
}
