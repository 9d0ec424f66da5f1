//! The part of a watcher that writers notify.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use evenkeel_env::{Station, Work};
use futures::task::AtomicWaker;
use parking_lot::Mutex;

/// Writers notify a listener while they hold the state's lock for writing; the watcher reads it while it holds the lock for
/// reading. So `pending` always agrees with the log.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The watch begins after this revision, which may be in the future.
    start: u64,
    /// Whether there is a change that the watcher has not read, or has read without asking for the next one.
    pending: AtomicBool,
    /// The work in the ledger; `Some` while `pending` is set.
    work: Mutex<Option<Work>>,
    station: Station,
    waker: AtomicWaker,
}

impl Listener {
    pub(crate) fn new(start: u64, station: Station) -> Self {
        Self {
            start,
            pending: AtomicBool::new(false),
            work: Mutex::new(None),
            station,
            waker: AtomicWaker::new(),
        }
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Notifies the listener of a change. Returns the waker to call; `None` if an earlier change is still pending.
    pub(crate) fn notify(&self, revision: u64) -> Option<Waker> {
        if revision <= self.start || self.pending.swap(true, Ordering::AcqRel) {
            return None;
        }
        *self.work.lock() = Some(self.station.enter());
        self.waker.take()
    }

    /// Marks everything as handled, because the watcher will wait. The returned work must be dropped after the state's lock.
    pub(crate) fn rest(&self, waker: &Waker) -> Option<Work> {
        self.waker.register(waker);
        self.pending.store(false, Ordering::Release);
        self.work.lock().take()
    }

    /// Ends the watch and returns its work.
    pub(crate) fn end(&self) -> Option<Work> {
        self.pending.store(true, Ordering::Release);
        self.work.lock().take()
    }

    /// Returns the waker, because the store is closed.
    pub(crate) fn wake(&self) -> Option<Waker> {
        self.waker.take()
    }
}
