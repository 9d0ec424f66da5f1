//! The recorder that all clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::history::{Answer, Call, Change, History, Key, Listing, Operation, Revision, Stream, Tick};

/// How often [`Recorder::wait_for`] reads the clock: a fraction of the time that a synced write takes.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Records what clients do and see, on any thread. Clones record into the same history.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The last tick.
    clock: AtomicU64,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    history: History,
    /// For each request without an answer, its index in the history and the number of its server.
    lost: Vec<(usize, usize)>,
    /// The ticks after which each server was dead.
    deaths: Vec<Tick>,
}

impl Recorder {
    /// A recorder for requests about this many objects.
    pub fn new(keys: usize) -> Self {
        let recorder = Self::default();
        recorder.shared.record.lock().history.keys = keys;
        recorder
    }

    /// Returns the next tick.
    pub fn tick(&self) -> Tick {
        self.shared.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits until the clock has reached `until`.
    pub async fn wait_for(&self, until: Tick) {
        while self.shared.clock.load(Ordering::SeqCst) < until {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Records a request whose answer was just read.
    pub fn answered(&self, key: Key, call: Call, called: Tick, answer: Answer) {
        let returned = self.tick();
        let operation = Operation { key, call, called, answer, returned };
        self.shared.record.lock().history.operations.push(operation);
    }

    /// Records a request without an answer. Its server may have served it at any time until that server died.
    pub fn lost(&self, key: Key, call: Call, called: Tick, server: usize) {
        let mut record = self.shared.record.lock();
        let at = record.history.operations.len();
        record.lost.push((at, server));
        let operation = Operation { key, call, called, answer: Answer::Lost, returned: Tick::MAX };
        record.history.operations.push(operation);
    }

    /// Records that the running server is dead.
    pub fn died(&self) {
        let now = self.tick();
        self.shared.record.lock().deaths.push(now);
    }

    /// Records a list.
    pub fn listed(&self, listing: Listing) {
        self.shared.record.lock().history.listings.push(listing);
    }

    /// Records a new watch and returns its number.
    pub fn watching(&self, watcher: usize, from: Revision) -> usize {
        let streams = &mut self.shared.record.lock().history.streams;
        streams.push(Stream { watcher, from, changes: Vec::new(), reached: from });
        streams.len() - 1
    }

    /// Records the revision of a bookmark, or of an event of an object that is not recorded.
    pub fn reached(&self, stream: usize, revision: Revision) {
        if let Some(stream) = self.shared.record.lock().history.streams.get_mut(stream) {
            stream.reached = revision;
        }
    }

    /// Records a watch event.
    pub fn changed(&self, stream: usize, change: Change) {
        if let Some(stream) = self.shared.record.lock().history.streams.get_mut(stream) {
            stream.changes.push(change);
        }
    }

    /// Records an answer that a correct server never gives.
    pub fn surprise(&self, what: String) {
        self.shared.record.lock().history.surprises.push(what);
    }

    /// Returns the history. Every watcher must have seen the revision `end`.
    pub fn finish(self, end: Option<Revision>) -> History {
        let mut record = std::mem::take(&mut *self.shared.record.lock());
        for (at, server) in record.lost {
            let death = record.deaths.get(server).copied().unwrap_or(Tick::MAX);
            record.history.operations[at].returned = death;
        }
        record.history.end = end;
        record.history
    }
}
