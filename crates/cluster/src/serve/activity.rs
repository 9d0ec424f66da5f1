//! What the client of one connection does, counted where it happens and read by the connection's [`Watchdog`].
//!
//! Nothing here reads a clock or sets a timer: every counter only grows or goes up and down, and a timer of the
//! connection compares what it sees now with what it saw before.
//!
//! [`Watchdog`]: super::watchdog::Watchdog

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// How many HTTP/2 requests a client may abandon, beyond those whose answers it takes, between two looks of the
/// connection's patience, which are seconds apart. A client that closes all its watches abandons 100, as many as a
/// connection has streams; Go's server gives up a connection after four times as many.
const ABANDONED_MAX: u32 = 400;

/// What the client of a connection does. Cloning shares the counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// The heads of requests that arrived.
    heads: AtomicU64,
    /// The requests that are being answered, and the long answers that are being sent.
    open: AtomicU64,
    /// The reads of the socket that brought bytes. The task of the connection writes it.
    reads: AtomicU64,
    /// The value of `reads` when the last head arrived or the last open request ended: bytes since then belong to a
    /// head that is not complete.
    reads_used: AtomicU64,
    /// Whether the socket takes no more bytes because the client does not read. The task of the connection writes it.
    blocked: AtomicBool,
    /// How many times a client that was slow to read took a fair amount. The task of the connection writes it.
    drained: AtomicU64,
    /// Pieces of HTTP/2 answers that were handed over and did not leave yet.
    unsent: Mutex<Unsent>,
    /// Requests that were reset before their answer was taken, less those whose answers were.
    abandoned: AtomicU32,
}

#[derive(Debug, Default)]
struct Unsent {
    next: u64,
    /// By the order in which they were handed over.
    pieces: BTreeSet<u64>,
}

/// What [`Activity`] counts, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) heads: u64,
    pub(crate) is_open: bool,
    /// Whether bytes arrived that belong to no complete head.
    pub(crate) in_head: bool,
    pub(crate) blocked: bool,
    pub(crate) drained: u64,
    /// The piece of an answer that has been waiting longest for the client to make room for it.
    pub(crate) oldest_unsent: Option<u64>,
}

/// A request that is being answered: while this is kept, the connection is not idle.
pub(crate) struct Open(Activity);

/// A piece of an HTTP/2 answer that has not left yet.
pub(crate) struct Unread {
    activity: Activity,
    piece: u64,
}

/// A request whose answer is not taken yet. Dropped before [`Answering::finish`], its client has abandoned it.
pub(crate) struct Answering(Option<Activity>);

impl Activity {
    /// Notes that the head of a request arrived. One task reads the heads of a connection, so that none is lost.
    pub(crate) fn note_head(&self) {
        bump(&self.0.heads);
        self.note_used();
    }

    /// Notes that the socket was read and had bytes.
    pub(crate) fn note_read(&self) {
        bump(&self.0.reads);
    }

    /// Notes that the socket takes no more bytes.
    pub(crate) fn note_blocked(&self) {
        self.0.blocked.store(true, Ordering::Relaxed);
    }

    /// Notes that the client has taken a fair amount, or everything.
    pub(crate) fn note_drained(&self) {
        if self.0.blocked.load(Ordering::Relaxed) {
            self.0.blocked.store(false, Ordering::Relaxed);
            bump(&self.0.drained);
        }
    }

    /// Notes that a request is being answered, or that a long answer is being sent.
    pub(crate) fn open(&self) -> Open {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    /// Notes that a request was begun, so that one that is abandoned is counted.
    pub(crate) fn answering(&self) -> Answering {
        Answering(Some(self.clone()))
    }

    /// Notes that a piece of an answer was handed over to HTTP/2.
    pub(crate) fn handed_over(&self) -> Unread {
        let mut unsent = self.0.unsent.lock();
        let piece = unsent.next;
        unsent.next += 1;
        unsent.pieces.insert(piece);
        Unread { activity: self.clone(), piece }
    }

    /// Whether no request is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.open.load(Ordering::Relaxed) == 0
    }

    /// Whether the client abandons far more requests than it lets finish.
    pub(crate) fn is_abusive(&self) -> bool {
        self.0.abandoned.load(Ordering::Relaxed) > ABANDONED_MAX
    }

    /// Forgets the requests that were abandoned until now: a flood is made of those of a few seconds.
    pub(crate) fn forgive(&self) {
        self.0.abandoned.store(0, Ordering::Relaxed);
    }

    pub(crate) fn seen(&self) -> Seen {
        let counts = &*self.0;
        Seen {
            heads: counts.heads.load(Ordering::Relaxed),
            is_open: !self.is_idle(),
            in_head: counts.reads.load(Ordering::Relaxed) != counts.reads_used.load(Ordering::Relaxed),
            blocked: counts.blocked.load(Ordering::Relaxed),
            drained: counts.drained.load(Ordering::Relaxed),
            oldest_unsent: counts.unsent.lock().pieces.first().copied(),
        }
    }

    fn note_used(&self) {
        self.0.reads_used.store(self.0.reads.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Adds one to a counter that one task writes: cheaper than an addition that others could meet.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl Answering {
    /// Notes that the client has taken the answer.
    pub(crate) fn finish(mut self) {
        if let Some(activity) = self.0.take() {
            let less = |count: u32| count.checked_sub(1);
            // Nothing to pay back is the usual case.
            let _ = activity.0.abandoned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(activity) = self.0.take() {
            activity.0.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.note_used();
        self.0.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.activity.0.unsent.lock().pieces.remove(&self.piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_body_are_no_head() {
        let activity = Activity::default();
        activity.note_read();
        assert!(activity.seen().in_head);
        activity.note_head();
        assert!(!activity.seen().in_head);
        let open = activity.open();
        activity.note_read();
        drop(open);
        assert!(!activity.seen().in_head);
    }

    #[test]
    fn the_oldest_piece_that_has_not_left_is_known() {
        let activity = Activity::default();
        let (first, second) = (activity.handed_over(), activity.handed_over());
        assert_eq!(activity.seen().oldest_unsent, Some(0));
        drop(first);
        assert_eq!(activity.seen().oldest_unsent, Some(1));
        drop(second);
        assert_eq!(activity.seen().oldest_unsent, None);
    }

    #[test]
    fn who_abandons_more_than_it_lets_finish_is_abusive() {
        let activity = Activity::default();
        for _ in 0..2 * ABANDONED_MAX {
            drop(activity.answering());
            activity.answering().finish();
        }
        assert!(!activity.is_abusive());
        (0..=ABANDONED_MAX).for_each(|_| drop(activity.answering()));
        assert!(activity.is_abusive());
        activity.forgive();
        assert!(!activity.is_abusive());
    }
}
