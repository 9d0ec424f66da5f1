//! Waiting for rest, but not for ever.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::{Inner, Unsettled};

/// How much work may be entered for each second of the limit while no time passes. In paused time, what wakes itself
/// for ever (an operator that writes whenever it is woken) would otherwise be waited for without end. Where [`Turns`](super::Turns)
/// are counted, that is seen much earlier.
pub(super) const MOST_MOVES_A_SECOND: u64 = 50_000;
/// How much at most, however long the limit: an unoptimized build takes minutes for it. Ten thousand objects that
/// are made at once enter some fifty pieces each, half of this.
const MOST_MOVES: u64 = 1_000_000;

/// A wait for rest, and the moment of paused time that it is in, to see whether that ends. Real time passes always.
pub(super) struct Wait<'a> {
    inner: &'a Inner,
    id: u64,
    limit: Duration,
    at: Instant,
    /// The moves at the beginning of the moment.
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

    /// Waits for a change until `end`; fails there, or when what happens goes on and on.
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
        Unsettled { limit: self.limit, pending: self.inner.pending(), endless, turning }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // Somebody else may wait since.
        let _ = self.inner.wait.compare_exchange(self.id, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
