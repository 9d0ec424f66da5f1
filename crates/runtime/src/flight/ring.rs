//! The ring buffer of one worker: its most recent reconciles, within a number of bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::notes::Notes;
use crate::Request;
use crate::cause::{Cause, Causes};

/// The part of a ring that is reserved for failed and slow reconciles: one in this many bytes.
const NOTABLE_PART: usize = 4;

/// A reconcile counts as slow if it takes this many times as long as usual for its worker, and at least [`SLOW_MIN`].
const SLOW_FACTOR: u32 = 8;

/// The shortest duration that counts as slow by comparison with other reconciles.
const SLOW_MIN: Duration = Duration::from_millis(10);

/// The duration from which a reconcile always counts as slow.
const SLOW_ALWAYS: Duration = Duration::from_secs(1);

/// By how much a full buffer grows: by one in this many of its entries.
const GROWTH_PART: usize = 4;

/// A finished reconcile, as its worker hands it to the ring.
#[derive(Debug, Clone)]
pub(crate) struct Flown {
    pub(crate) key: Request,
    pub(crate) causes: Causes,
    pub(crate) ready_at: Instant,
    pub(crate) start: Instant,
    pub(crate) took: Duration,
    /// The number of the reconcile within its controller.
    pub(crate) number: u64,
    pub(crate) attempt: u32,
    pub(crate) behind: bool,
    pub(crate) trace: Option<[u8; 16]>,
    pub(crate) notes: Notes,
    pub(crate) ended: Ended,
    /// The delay after which the key comes back without another cause.
    pub(crate) again: Option<Duration>,
}

/// How a reconcile ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    Done,
    Requeued,
    Failed(Box<str>),
    FailedForGood(Box<str>),
}

impl Flown {
    /// The bytes on the heap. Keys and causes share their text with caches, which may drop it first, so the text counts
    /// in full here.
    fn heap(&self) -> usize {
        let error = match &self.ended {
            Ended::Done | Ended::Requeued => 0,
            Ended::Failed(text) | Ended::FailedForGood(text) => text.len(),
        };
        let causes: usize = self.causes.kept().iter().map(bytes_of_cause).sum();
        bytes_of_key(&self.key) + causes + self.notes.heap() + error
    }

    fn is_failure(&self) -> bool {
        matches!(self.ended, Ended::Failed(_) | Ended::FailedForGood(_))
    }
}

/// The size of the reference counts of an `Arc`.
const ARC_BYTES: usize = 16;

fn bytes_of_key(key: &Request) -> usize {
    key.name.len() + key.namespace().map_or(0, |namespace| namespace.len() + ARC_BYTES) + ARC_BYTES
}

fn bytes_of_cause(cause: &Cause) -> usize {
    // Several causes are stored in a list on the heap. The first one is counted twice, which errs on the safe side.
    size_of::<Cause>()
        + match cause {
            Cause::Object { object, .. } => bytes_of_key(object),
            Cause::External(name) => name.len() + ARC_BYTES,
            Cause::Retry | Cause::Requeue | Cause::Timer => 0,
        }
}

/// The last reconciles of one worker.
pub(crate) struct Ring {
    pub(super) controller: Arc<str>,
    pub(super) kind: String,
    /// The prefix of the reconciles' ids.
    pub(super) ids: String,
    /// Locked by this worker and by readers of the record, never by another worker.
    kept: Mutex<Kept>,
}

struct Kept {
    recent: Buffer,
    /// Failed and slow reconciles that have left `recent`.
    notable: Buffer,
    /// The moving average of how long reconciles take.
    usual: Duration,
    /// How many reconciles were recorded.
    pushed: u64,
    dropped: u64,
}

/// What a ring holds.
pub(super) struct Holding {
    pub(super) bytes: usize,
    pub(super) dropped: u64,
}

impl Ring {
    pub(super) fn new(controller: Arc<str>, kind: &str, ids: &str) -> Self {
        let kept = Kept {
            recent: Buffer::default(),
            notable: Buffer::default(),
            usual: Duration::ZERO,
            pushed: 0,
            dropped: 0,
        };
        Self { controller, kind: kind.to_owned(), ids: ids.to_owned(), kept: Mutex::new(kept) }
    }

    /// Records a reconcile.
    pub(crate) fn push(&self, flown: Flown) {
        let mut kept = self.kept.lock();
        let kept = &mut *kept;
        kept.pushed += 1;
        let heap = flown.heap();
        while !kept.recent.fits(heap) {
            match kept.recent.pop() {
                Some(old) => kept.retire(old),
                // The ring's share is too small for this reconcile.
                None => {
                    kept.dropped += 1;
                    return;
                }
            }
        }
        kept.usual = (kept.usual * 15 + flown.took) / 16;
        kept.recent.push(flown, heap);
    }

    /// Sets how many bytes the ring may use, and drops entries that no longer fit.
    pub(super) fn limit(&self, bytes: usize) {
        let mut kept = self.kept.lock();
        let notable = bytes / NOTABLE_PART;
        kept.notable.limit = notable;
        kept.recent.limit = bytes - notable;
        let kept = &mut *kept;
        for buffer in [&mut kept.recent, &mut kept.notable] {
            while buffer.bytes() > buffer.limit && buffer.pop().is_some() {
                kept.dropped += 1;
                buffer.entries.shrink_to(buffer.entries.len());
            }
        }
    }

    /// Returns the kept reconciles after the first `seen` ones, and the state of the ring. Moves `seen` on.
    pub(super) fn after(&self, seen: &mut u64) -> (Vec<Flown>, Holding) {
        let kept = self.kept.lock();
        let holding = Holding { bytes: kept.recent.bytes() + kept.notable.bytes(), dropped: kept.dropped };
        let new = usize::try_from(kept.pushed.saturating_sub(*seen)).unwrap_or(usize::MAX);
        let recent = kept.recent.entries.iter().skip(kept.recent.entries.len().saturating_sub(new));
        // Readers that follow the record have already seen the older, notable entries.
        let notable = kept.notable.entries.iter().filter(|_| *seen == 0);
        let flown = notable.chain(recent).map(|(flown, _)| flown.clone()).collect();
        *seen = kept.pushed;
        (flown, holding)
    }
}

impl Kept {
    /// Moves an old reconcile to the reserved part if it failed or was slow.
    fn retire(&mut self, old: (Flown, usize)) {
        let (flown, heap) = old;
        let slow = flown.took >= SLOW_ALWAYS
            || (flown.took >= SLOW_MIN && flown.took >= self.usual.saturating_mul(SLOW_FACTOR));
        if !slow && !flown.is_failure() {
            self.dropped += 1;
            return;
        }
        while !self.notable.fits(heap) {
            self.dropped += 1;
            if self.notable.pop().is_none() {
                return;
            }
        }
        self.notable.push(flown, heap);
    }
}

/// Entries with their bytes on the heap, oldest first.
#[derive(Default)]
struct Buffer {
    entries: VecDeque<(Flown, usize)>,
    /// The bytes on the heap of all entries.
    heap: usize,
    limit: usize,
}

impl Buffer {
    /// The bytes that the buffer uses, including unused capacity.
    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Flown, usize)>() + self.heap
    }

    fn growth(&self) -> usize {
        (self.entries.len() / GROWTH_PART).max(4)
    }

    /// Whether another entry with this many bytes on the heap fits into the limit.
    fn fits(&self, heap: usize) -> bool {
        let full = self.entries.len() == self.entries.capacity();
        let more = if full { self.growth() * size_of::<(Flown, usize)>() } else { 0 };
        self.bytes() + more + heap <= self.limit
    }

    fn push(&mut self, flown: Flown, heap: usize) {
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(self.growth());
        }
        self.heap += heap;
        self.entries.push_back((flown, heap));
    }

    fn pop(&mut self) -> Option<(Flown, usize)> {
        let (flown, heap) = self.entries.pop_front()?;
        self.heap -= heap;
        Some((flown, heap))
    }
}
