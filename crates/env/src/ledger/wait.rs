//! A wait for rest that ends, even if the world never rests.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::{Inner, Unsettled};

/// How many moves may happen while no time passes, for each second of the limit. In paused time, an operator that writes
/// whenever it is woken would otherwise keep the wait from ever ending. [`Turns`](super::Turns) detect that much earlier.
pub(super) const MOST_MOVES_A_SECOND: u64 = 50_000;
/// The largest number of moves while no time passes, however long the limit: an unoptimized build takes minutes for it.
/// Ten thousand objects that are created at once cause about fifty moves each, half of this.
const MOST_MOVES: u64 = 1_000_000;

/// A wait for rest. It remembers the present moment of paused time, to detect one that does not end.
pub(super) struct Wait<'a> {
    inner: &'a Inner,
    id: u64,
    limit: Duration,
    at: Instant,
    /// The count of moves when this moment began.
    moves: u64,
    most: u64,
}

impl<'a> Wait<'a> {
    pub(super) fn begin(inner: &'a Inner, limit: Duration) -> Self {
        let most = MOST_MOVES.min(MOST_MOVES_A_SECOND * limit.as_secs().max(1));
        let id = inner.next_id() + 1;
        *inner.turning.lock() = None;
        inner.wait.store(id, Ordering::Relaxed);
        Self { inner, id, limit, at: Instant::now(), moves: inner.moves.load(Ordering::SeqCst), most }
    }

    /// Waits for a change of the ledger. Fails at `end`, or if something repeats endlessly.
    pub(super) async fn changed(&mut self, changed: Notified<'_>, end: Instant) -> Result<(), Unsettled> {
        let (now, moves) = (Instant::now(), self.inner.moves.load(Ordering::SeqCst));
        if now != self.at {
            (self.at, self.moves) = (now, moves);
        }
        let turning = self.inner.turning.lock().take();
        if turning.is_some() || moves - self.moves > self.most {
            return Err(self.failed(true, turning));
        }
        tokio::time::timeout_at(end, changed).await.map_err(|_| self.failed(false, None))
    }

    pub(super) fn failed(&self, endless: bool, turning: Option<String>) -> Unsettled {
        Unsettled { limit: self.limit, pending: self.inner.pending(), endless, turning, reasons: Vec::new() }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // Another task may have begun to wait in the meantime.
        let _ = self.inner.wait.compare_exchange(self.id, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
