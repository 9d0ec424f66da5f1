//! Detects actions that repeat endlessly while no time passes.

use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Inner, Ledger};
use crate::HashMap;

/// How often one action may repeat at one moment of paused time before it counts as endless. Work that makes progress
/// repeats a few times, not a thousand.
pub(super) const MOST_TURNS: u32 = 1000;

/// Counts how often actions repeat at one moment of paused time, so that a wait for rest fails early and names the action.
///
/// Actions are counted only while a task waits for rest. On a real cluster this costs one atomic load.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// use std::time::Duration;
/// use evenkeel_env::Ledger;
///
/// let ledger = Ledger::new();
/// let turns = ledger.turns("reconciles");
/// let work = ledger.station("queue").enter();
/// tokio::spawn(async move {
///     loop {
///         turns.count(&"default/a");
///         tokio::task::yield_now().await;
///     }
/// });
/// let error = ledger.settled(Duration::from_secs(60)).await.unwrap_err();
/// assert!(error.to_string().contains("reconciles of default/a go on and on without time passing"));
/// # drop(work);
/// # });
/// ```
#[derive(Debug)]
pub struct Turns<K> {
    ledger: Arc<Inner>,
    what: Arc<str>,
    seen: Mutex<Seen<K>>,
}

/// The counts of one moment of one wait.
#[derive(Debug)]
struct Seen<K> {
    wait: u64,
    at: Instant,
    counts: HashMap<K, u32>,
}

impl Ledger {
    /// Counts how often the action `what` (a plural noun, such as "reconciles") repeats for each of many keys.
    pub fn turns<K>(&self, what: impl Into<Arc<str>>) -> Turns<K> {
        let seen = Seen { wait: 0, at: Instant::now(), counts: HashMap::default() };
        Turns { ledger: self.inner.clone(), what: what.into(), seen: Mutex::new(seen) }
    }
}

impl<K: Clone + Display + Eq + Hash> Turns<K> {
    /// Counts one more action on this key.
    pub fn count(&self, with: &K) {
        let wait = self.ledger.wait.load(Ordering::Relaxed);
        if wait == 0 {
            return;
        }
        let (now, mut seen) = (Instant::now(), self.seen.lock());
        if (seen.wait, seen.at) != (wait, now) {
            *seen = Seen { wait, at: now, counts: HashMap::default() };
        }
        let count = seen.counts.entry(with.clone()).or_insert(0);
        *count += 1;
        if *count == MOST_TURNS {
            *self.ledger.turning.lock() = Some(format!("{} of {with}", self.what));
            self.ledger.changed.notify_waiters();
        }
    }
}
