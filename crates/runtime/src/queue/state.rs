//! The queue's state and its rules, without time, waiting or locks.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_env::{HashMap, Station, Work};
use tokio::time::Instant;

use super::{Item, QueueKey};
use crate::cause::{Cause, Causes};

/// How many ready keys of one namespace stand before those of another that came later.
///
/// Below it the order is plain first in, first out; above it namespaces take turns in rounds of this size, so that
/// one with a million keys delays a key of another by at most a round for each namespace.
pub const ROUND_SIZE: usize = 64;

/// Where a ready key stands: higher priority, earlier round, earlier arrival first.
type Place = (Reverse<i32>, u64, u64);

#[derive(Debug)]
pub(super) struct State<T> {
    /// Every key that is queued, in flight, or has failures to remember.
    entries: HashMap<T, Entry>,
    ready: BTreeMap<Place, T>,
    /// Delayed keys by their time, then arrival.
    delayed: BTreeMap<(Instant, u64), T>,
    /// How many keys of each group are ready; a group with none has no entry.
    groups: HashMap<Arc<str>, usize>,
    /// The round of the key that was handed out last; it never falls.
    round: u64,
    arrivals: u64,
    in_flight: usize,
    shut_down: bool,
    /// Every add, and those of them that were rate-limited; for metrics.
    adds: u64,
    retries: u64,
}

#[derive(Debug, Default)]
struct Entry {
    stand: Stand,
    failures: u32,
    /// The highest priority since the key was last handed out.
    priority: i32,
    causes: Causes,
}

/// Where a key stands.
#[derive(Debug, Default)]
enum Stand {
    /// Only its failures are remembered.
    #[default]
    Absent,
    Delayed {
        at: Instant,
        arrival: u64,
    },
    Ready {
        place: Place,
        since: Instant,
        work: Work,
    },
    InFlight {
        /// Held until `done`.
        work: Work,
        again: Option<Again>,
    },
}

/// A key that was added while in flight: when it may be handed out.
#[derive(Clone, Copy, Debug)]
struct Again {
    /// None means at once.
    at: Option<Instant>,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            ready: BTreeMap::new(),
            delayed: BTreeMap::new(),
            groups: HashMap::default(),
            round: 0,
            arrivals: 0,
            in_flight: 0,
            shut_down: false,
            adds: 0,
            retries: 0,
        }
    }
}

impl<T: QueueKey> State<T> {
    /// Adds a key for now or for `at`; says whether it became ready.
    pub(super) fn add(
        &mut self,
        key: T,
        priority: i32,
        at: Option<Instant>,
        cause: Option<Cause>,
        now: Instant,
        station: &Station,
    ) -> bool {
        self.adds += 1;
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some(cause) = cause {
            entry.causes.push(cause);
        }
        let queued = match &entry.stand {
            Stand::Absent | Stand::InFlight { again: None, .. } => false,
            Stand::Delayed { .. } | Stand::Ready { .. } | Stand::InFlight { .. } => true,
        };
        entry.priority = if queued { entry.priority.max(priority) } else { priority };
        let raised = entry.priority;
        match &mut entry.stand {
            Stand::InFlight { again, .. } => {
                *again = Some(Again { at: again.map_or(at, |before| earlier(before.at, at)) });
                false
            }
            Stand::Ready { place, .. } => {
                if place.0.0 < raised {
                    let old = *place;
                    place.0 = Reverse(raised);
                    let new = *place;
                    self.ready.remove(&old);
                    self.ready.insert(new, key);
                }
                false
            }
            Stand::Delayed { at: before, arrival } => {
                let before = *before;
                if at.is_some_and(|at| at >= before) {
                    return false;
                }
                self.delayed.remove(&(before, *arrival));
                self.enqueue(key, at, now, station)
            }
            Stand::Absent => self.enqueue(key, at, now, station),
        }
    }

    /// Puts a key that is nowhere into its place; says whether it is ready.
    fn enqueue(&mut self, key: T, at: Option<Instant>, now: Instant, station: &Station) -> bool {
        self.arrivals += 1;
        let arrival = self.arrivals;
        match at {
            Some(at) if at > now => {
                self.entries.entry(key.clone()).or_default().stand = Stand::Delayed { at, arrival };
                self.delayed.insert((at, arrival), key);
                false
            }
            _ => {
                let round = self.round + self.enter_group(&key) / ROUND_SIZE as u64;
                let entry = self.entries.entry(key.clone()).or_default();
                let place = (Reverse(entry.priority), round, arrival);
                entry.stand = Stand::Ready { place, since: now, work: station.enter() };
                self.ready.insert(place, key);
                true
            }
        }
    }

    /// Counts a key into its group; says how many of it were ready before.
    fn enter_group(&mut self, key: &T) -> u64 {
        let Some(group) = key.group() else { return 0 };
        let count = self.groups.entry(group.clone()).or_default();
        *count += 1;
        (*count - 1) as u64
    }

    fn leave_group(&mut self, key: &T) {
        let Some(group) = key.group() else { return };
        if let Some(count) = self.groups.get_mut(group) {
            *count -= 1;
            if *count == 0 {
                self.groups.remove(group);
            }
        }
    }

    /// Makes the delayed keys ready whose time has come.
    pub(super) fn promote_due(&mut self, now: Instant, station: &Station) {
        while let Some(first) = self.delayed.first_entry() {
            if first.key().0 > now {
                return;
            }
            let key = first.remove();
            self.enqueue(key, None, now, station);
        }
    }

    /// Hands out the next ready key.
    pub(super) fn pop(&mut self) -> Option<Item<T>> {
        let (place, key) = self.ready.pop_first()?;
        self.round = self.round.max(place.1);
        self.leave_group(&key);
        self.in_flight += 1;
        let entry = self.entries.get_mut(&key)?;
        let Stand::Ready { since, work, .. } = std::mem::take(&mut entry.stand) else {
            unreachable!("a key in `ready` stands as ready: `enqueue` and `pop` change both together");
        };
        entry.stand = Stand::InFlight { work, again: None };
        let causes = std::mem::take(&mut entry.causes);
        let (priority, requeues) = (entry.priority, entry.failures);
        Some(Item { key, priority, causes, ready_at: since, requeues })
    }

    /// Ends the work on a key; says whether it is ready again. The work is given back, to be let go when the ledger
    /// knows the key's new place: a ready key by its own work, a delayed one by the queue's deadline.
    pub(super) fn done(&mut self, key: &T, now: Instant, station: &Station) -> (bool, Option<Work>) {
        let Some(entry) = self.entries.get_mut(key) else { return (false, None) };
        let (work, again) = match std::mem::take(&mut entry.stand) {
            Stand::InFlight { work, again } => (work, again.filter(|_| !self.shut_down)),
            other => {
                entry.stand = other;
                return (false, None);
            }
        };
        self.in_flight -= 1;
        let ready = match again {
            Some(again) => self.enqueue(key.clone(), again.at, now, station),
            None => {
                self.drop_if_empty(key);
                false
            }
        };
        (ready, Some(work))
    }

    /// One more failure in a row; says how many there are now.
    pub(super) fn count_failure(&mut self, key: &T) -> u32 {
        self.retries += 1;
        let entry = self.entries.entry(key.clone()).or_default();
        entry.failures = entry.failures.saturating_add(1);
        entry.failures
    }

    pub(super) fn forget(&mut self, key: &T) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.failures = 0;
            self.drop_if_empty(key);
        }
    }

    /// A key that is nowhere and never failed takes no memory.
    fn drop_if_empty(&mut self, key: &T) {
        let empty = |entry: &Entry| matches!(entry.stand, Stand::Absent) && entry.failures == 0;
        if self.entries.get(key).is_some_and(empty) {
            self.entries.remove(key);
        }
    }

    pub(super) fn failures(&self, key: &T) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    pub(super) fn adds(&self) -> u64 {
        self.adds
    }

    pub(super) fn retries(&self) -> u64 {
        self.retries
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.keys().next().map(|(at, _)| *at)
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn delayed_len(&self) -> usize {
        self.delayed.len()
    }

    pub(super) fn in_flight_len(&self) -> usize {
        self.in_flight
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.in_flight == 0
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// Drops delayed keys, and ready ones too if asked.
    pub(super) fn shut_down(&mut self, drop_ready: bool) {
        self.shut_down = true;
        let delayed = std::mem::take(&mut self.delayed);
        delayed.into_values().for_each(|key| {
            self.entries.remove(&key);
        });
        if drop_ready {
            let ready = std::mem::take(&mut self.ready);
            ready.into_values().for_each(|key| {
                self.leave_group(&key);
                self.entries.remove(&key);
            });
        }
    }
}

/// The earlier of two times, where none means now.
fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        _ => None,
    }
}
