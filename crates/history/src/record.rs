//! The recorder that all clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::history::{Answer, Call, Change, History, Key, Listing, Operation, Revision, Stream, Tick};

/// How often [`Recorder::wait_for`] looks at the clock: a fraction of what a synced write takes.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Takes down what clients do and see, from any thread. Cloning shares the record.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The last stamp that was given out.
    clock: AtomicU64,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    history: History,
    /// For each request that was lost, its place in the history and the server that it was sent to.
    lost: Vec<(usize, usize)>,
    /// When each server had died.
    deaths: Vec<Tick>,
}

impl Recorder {
    /// A record of requests about this many objects.
    pub fn new(keys: usize) -> Self {
        let recorder = Self::default();
        recorder.shared.record.lock().history.keys = keys;
        recorder
    }

    /// A stamp that is later than every one before it.
    pub fn tick(&self) -> Tick {
        self.shared.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits until a stamp from `until` on was given out.
    pub async fn wait_for(&self, until: Tick) {
        while self.shared.clock.load(Ordering::SeqCst) < until {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A request was answered, just now.
    pub fn answered(&self, key: Key, call: Call, called: Tick, answer: Answer) {
        let returned = self.tick();
        let operation = Operation { key, call, called, answer, returned };
        self.shared.record.lock().history.operations.push(operation);
    }

    /// A request to the server of this number got no answer: it may have been served until that server died.
    pub fn lost(&self, key: Key, call: Call, called: Tick, server: usize) {
        let mut record = self.shared.record.lock();
        let at = record.history.operations.len();
        record.lost.push((at, server));
        let operation = Operation { key, call, called, answer: Answer::Lost, returned: Tick::MAX };
        record.history.operations.push(operation);
    }

    /// The server whose number is the count of those before it is dead.
    pub fn died(&self) {
        let now = self.tick();
        self.shared.record.lock().deaths.push(now);
    }

    /// A list was read to its end.
    pub fn listed(&self, listing: Listing) {
        self.shared.record.lock().history.listings.push(listing);
    }

    /// A watch begins; gives the number by which its events are recorded.
    pub fn watching(&self, watcher: usize, from: Revision) -> usize {
        let streams = &mut self.shared.record.lock().history.streams;
        streams.push(Stream { watcher, from, changes: Vec::new(), reached: from });
        streams.len() - 1
    }

    /// A watch has shown that it came to this revision, by a bookmark or by an event of an object that is not recorded.
    pub fn reached(&self, stream: usize, revision: Revision) {
        if let Some(stream) = self.shared.record.lock().history.streams.get_mut(stream) {
            stream.reached = revision;
        }
    }

    /// A watch has shown a change.
    pub fn changed(&self, stream: usize, change: Change) {
        if let Some(stream) = self.shared.record.lock().history.streams.get_mut(stream) {
            stream.changes.push(change);
        }
    }

    /// An answer came that a correct server does not give.
    pub fn surprise(&self, what: String) {
        self.shared.record.lock().history.surprises.push(what);
    }

    /// The history, whose watchers were all to see `end`.
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
