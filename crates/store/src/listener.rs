//! The side of a watcher that writers see.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use evenkeel_env::{Station, Work};
use futures::task::AtomicWaker;
use parking_lot::Mutex;

/// Told of changes by writers, who hold the state's lock for writing; asked by the watcher, who holds it for reading.
/// So both see `pending` and the log in agreement.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Changes up to here do not concern it. It may lie in the future.
    start: u64,
    /// Whether there is a change that the watcher has not been given, or has not yet asked past.
    pending: AtomicBool,
    /// Held while `pending`.
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

    /// A change was made. Gives whom to wake for it: nobody, if the watcher has not even dealt with an earlier one.
    pub(crate) fn notify(&self, revision: u64) -> Option<Waker> {
        if revision <= self.start || self.pending.swap(true, Ordering::AcqRel) {
            return None;
        }
        *self.work.lock() = Some(self.station.enter());
        self.waker.take()
    }

    /// The watcher has dealt with everything and will wait. The work must be let go outside of the state's lock.
    pub(crate) fn rest(&self, waker: &Waker) -> Option<Work> {
        self.waker.register(waker);
        self.pending.store(false, Ordering::Release);
        self.work.lock().take()
    }

    /// The watch is over.
    pub(crate) fn end(&self) -> Option<Work> {
        self.pending.store(true, Ordering::Release);
        self.work.lock().take()
    }

    /// Wakes the watcher because the store is closed.
    pub(crate) fn wake(&self) -> Option<Waker> {
        self.waker.take()
    }
}
