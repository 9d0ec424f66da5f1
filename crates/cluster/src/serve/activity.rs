//! Counters of what the client of one connection does. The connection's [`Watchdog`] reads them.
//!
//! Nothing here reads a clock or sets a timer. The watchdog's timer compares the counters with those of its last check.
//!
//! [`Watchdog`]: super::watchdog::Watchdog

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// How many HTTP/2 requests a client may abandon, in excess of those whose responses it reads, between two checks of
/// the watchdog, which are seconds apart. A client that closes all its watches abandons 100, the number of streams of
/// a connection; Go's server closes a connection after four times as many.
const ABANDONED_MAX: u32 = 400;

/// Counters of what the client of a connection does. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// How many request heads arrived.
    heads: AtomicU64,
    /// How many requests are being answered or have a long response that is being sent.
    open: AtomicU64,
    /// How many reads of the socket returned bytes. Only the connection's task writes it.
    reads: AtomicU64,
    /// The value of `reads` when the last head arrived or the last open request ended. Bytes that arrived since then
    /// belong to an incomplete head.
    reads_used: AtomicU64,
    /// Whether the socket accepts no more bytes because the client does not read. Only the connection's task writes it.
    blocked: AtomicBool,
    /// How many times a blocked client has read enough to count as reading. Only the connection's task writes it.
    drained: AtomicU64,
    /// Pieces of HTTP/2 responses that were handed to hyper and not sent yet.
    unsent: Mutex<Unsent>,
    /// How many requests were reset before their response was read, minus those whose response was read.
    abandoned: AtomicU32,
}

#[derive(Debug, Default)]
struct Unsent {
    next: u64,
    /// The numbers of the pieces, in the order in which they were handed over.
    pieces: BTreeSet<u64>,
}

/// The counters of an [`Activity`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) heads: u64,
    pub(crate) is_open: bool,
    /// Whether bytes of an incomplete head arrived.
    pub(crate) in_head: bool,
    pub(crate) blocked: bool,
    pub(crate) drained: u64,
    /// The piece of a response that has been waiting longest to be sent.
    pub(crate) oldest_unsent: Option<u64>,
}

/// A request that is being answered. The connection is not idle until this is dropped.
pub(crate) struct Open(Activity);

/// A piece of an HTTP/2 response that has not been sent yet.
pub(crate) struct Unread {
    activity: Activity,
    piece: u64,
}

/// A request whose response has not been read yet. Dropping it without [`Answering::finish`] counts it as abandoned.
pub(crate) struct Answering(Option<Activity>);

impl Activity {
    /// Counts a request head. Only the connection's task calls this, so no count is lost.
    pub(crate) fn note_head(&self) {
        bump(&self.0.heads);
        self.note_used();
    }

    /// Counts a read of the socket that returned bytes.
    pub(crate) fn note_read(&self) {
        bump(&self.0.reads);
    }

    /// Notes that the socket accepts no more bytes.
    pub(crate) fn note_blocked(&self) {
        self.0.blocked.store(true, Ordering::Relaxed);
    }

    /// Notes that the client has read enough to count as reading, or everything.
    pub(crate) fn note_drained(&self) {
        if self.0.blocked.load(Ordering::Relaxed) {
            self.0.blocked.store(false, Ordering::Relaxed);
            bump(&self.0.drained);
        }
    }

    /// Counts a request as being answered, or a long response as being sent, until the result is dropped.
    pub(crate) fn open(&self) -> Open {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }

    /// Counts a request as abandoned if the result is dropped before its response was read.
    pub(crate) fn answering(&self) -> Answering {
        Answering(Some(self.clone()))
    }

    /// Notes that a piece of a response was handed to hyper for sending over HTTP/2.
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

    /// Whether the client abandons far more requests than it reads the responses of.
    pub(crate) fn is_abusive(&self) -> bool {
        self.0.abandoned.load(Ordering::Relaxed) > ABANDONED_MAX
    }

    /// Resets the count of abandoned requests. Only those within a few seconds make a flood.
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

/// Adds one to a counter that a single task writes. Cheaper than an atomic addition.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

impl Answering {
    /// Notes that the client has read the response.
    pub(crate) fn finish(mut self) {
        if let Some(activity) = self.0.take() {
            let less = |count: u32| count.checked_sub(1);
            // The count is usually zero, and then stays so.
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
