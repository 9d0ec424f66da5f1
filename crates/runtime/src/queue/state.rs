//! The state of the queue and its rules, without clocks, waiting or locks.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_env::Purpose;
use tokio::time::Instant;

use super::account::Dues;

use super::groups::{Group, Groups};
use super::lines::{Lines, Linked, Links, Rank};
use super::slots::{Slot, Slots};
use super::turns::Turns;
use super::{Item, QueueKey};
use crate::cause::{Cause, Causes};

/// How many ready keys of one namespace and priority are handed out before a later key of another namespace.
///
/// Up to this number the order is plain first in, first out; above it, namespaces take turns in rounds of this size. A
/// namespace with a million keys delays a key of another namespace by at most one round for each namespace, and is not
/// starved by a namespace whose few keys are added again and again.
pub const ROUND_SIZE: usize = 64;

/// How many keys without state are kept at most, in case they are added again soon.
///
/// The events of a reconcile's own writes add its key again, mostly right after its work. The number is that of a good
/// many workers, and large enough that removing so many keys together waits for memory in parallel (measured with a
/// million keys: two fifths less time for taking a key and adding it again, a quarter less for taking a key that is not
/// added again).
pub(super) const LINGERING_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct State<T> {
    /// Every key that is queued, in flight, or has failed.
    entries: Slots<T, Entry>,
    ready: Lines,
    /// Delayed keys, by their time and then by their arrival.
    delayed: BTreeMap<(Instant, u64), Slot>,
    /// The times and arrival numbers of delayed keys, for each purpose of the delay.
    delayed_for: [BTreeSet<(Instant, u64)>; 3],
    /// The numbers of ready keys of each group.
    groups: Groups,
    turns: Turns,
    /// The number of delayed keys so far, which orders keys of equal time.
    arrivals: u64,
    in_flight: usize,
    /// Keys that had no state left when their work ended. Some may have been added again since. Empty when the queue is
    /// empty.
    lingering: Vec<Slot>,
    end: End,
    /// How many times a key became ready, and how many adds were delayed; for metrics.
    adds: u64,
    retries: u64,
}

/// How far a queue is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// Nothing is added any more; ready keys are still handed out.
    Draining,
    /// Nothing is added or handed out any more.
    Closed,
}

#[derive(Debug, Default)]
struct Entry {
    stand: Stand,
    failures: u32,
    /// The highest priority since the key was last handed out.
    priority: i32,
    /// The group of the key, from when it was first ready; `None` for keys without a group.
    group: Option<Group>,
    causes: Causes,
}

impl Entry {
    /// Whether the key has no state left.
    fn is_empty(&self) -> bool {
        matches!(self.stand, Stand::Absent) && self.failures == 0
    }
}

/// Where a key is.
#[derive(Debug, Default)]
enum Stand {
    /// Not queued; only its failures are known.
    #[default]
    Absent,
    Delayed {
        later: Later,
        arrival: u64,
    },
    Ready {
        /// The round, which with the priority of the entry is the line of the key.
        round: u64,
        links: Links,
        since: Instant,
    },
    InFlight {
        again: Option<Again>,
    },
}

/// When a key that was added while it was in flight may be handed out again.
#[derive(Clone, Copy, Debug)]
struct Again {
    /// `None` for at once.
    later: Option<Later>,
}

/// When a delayed key will be ready, and for what purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Later {
    pub(super) at: Instant,
    pub(super) purpose: Purpose,
}

impl Later {
    /// Returns the earlier time with the stronger purpose.
    fn merge(self, other: Self) -> Self {
        Self { at: self.at.min(other.at), purpose: self.purpose.max(other.purpose) }
    }
}

impl<T: QueueKey> Linked for Slots<T, Entry> {
    fn links(&mut self, slot: Slot) -> &mut Links {
        match &mut self.get_mut(slot).stand {
            Stand::Ready { links, .. } => links,
            _ => unreachable!("a key in a line stands as ready: both change together"),
        }
    }
}

impl<T: QueueKey> Default for State<T> {
    fn default() -> Self {
        Self {
            entries: Slots::default(),
            ready: Lines::default(),
            delayed: BTreeMap::new(),
            delayed_for: Default::default(),
            groups: Groups::default(),
            turns: Turns::default(),
            arrivals: 0,
            in_flight: 0,
            lingering: Vec::new(),
            end: End::Open,
            adds: 0,
            retries: 0,
        }
    }
}

impl<T: QueueKey> State<T> {
    /// Adds a key, to be ready now or later. Returns whether it became ready.
    #[inline]
    pub(super) fn add(
        &mut self,
        key: T,
        priority: i32,
        later: Option<Later>,
        cause: Option<Cause>,
        now: Instant,
    ) -> bool {
        self.retries += u64::from(later.is_some());
        let slot = self.entries.enter(key);
        let entry = self.entries.get_mut(slot);
        if let Some(cause) = cause {
            entry.causes.push(cause);
        }
        let queued = match &entry.stand {
            Stand::Absent | Stand::InFlight { again: None } => false,
            Stand::Delayed { .. } | Stand::Ready { .. } | Stand::InFlight { .. } => true,
        };
        let before = entry.priority;
        let raised = if queued { before.max(priority) } else { priority };
        entry.priority = raised;
        match &mut entry.stand {
            Stand::InFlight { again } => {
                *again = Some(Again { later: again.map_or(later, |before| earlier(before.later, later)) });
                false
            }
            Stand::Ready { round, since, .. } => {
                if before < raised {
                    let (round, since) = (*round, *since);
                    self.ready.remove(Rank::new(before, round), slot, &mut self.entries);
                    self.leave_line(slot, before);
                    self.enter_line(slot, since);
                }
                false
            }
            Stand::Delayed { later: before, arrival } => {
                let (before, arrival) = (*before, *arrival);
                let merged = earlier(Some(before), later);
                if merged == Some(before) {
                    return false;
                }
                self.forget_delay(before, arrival);
                self.enqueue(slot, merged, now)
            }
            Stand::Absent => self.enqueue(slot, later, now),
        }
    }

    /// Queues a key that is not queued yet. Returns whether it is ready.
    fn enqueue(&mut self, slot: Slot, later: Option<Later>, now: Instant) -> bool {
        match later {
            Some(later) if later.at > now => {
                self.arrivals += 1;
                let arrival = self.arrivals;
                self.entries.get_mut(slot).stand = Stand::Delayed { later, arrival };
                self.delayed.insert((later.at, arrival), slot);
                self.delayed_for[later.purpose as usize].insert((later.at, arrival));
                false
            }
            _ => {
                self.adds += 1;
                self.enter_line(slot, now);
                true
            }
        }
    }

    fn forget_delay(&mut self, later: Later, arrival: u64) {
        self.delayed.remove(&(later.at, arrival));
        self.delayed_for[later.purpose as usize].remove(&(later.at, arrival));
    }

    /// Appends a key to the line of its priority and round.
    #[inline]
    fn enter_line(&mut self, slot: Slot, since: Instant) {
        let priority = self.entries.get(slot).priority;
        let before = self.group(slot).map(|group| self.groups.enter_ready(group, priority));
        let round = self.turns.enter(priority, before);
        self.entries.get_mut(slot).stand = Stand::Ready { round, links: Links::default(), since };
        self.ready.push(Rank::new(priority, round), slot, &mut self.entries);
    }

    /// Counts a key that left its line.
    #[inline]
    fn leave_line(&mut self, slot: Slot, priority: i32) {
        let group = self.entries.get(slot).group;
        let left = group.map(|group| self.groups.leave_ready(group, priority));
        self.turns.leave(priority, left);
    }

    /// The group of a key, which joins the group when it is first ready.
    fn group(&mut self, slot: Slot) -> Option<Group> {
        if let Some(group) = self.entries.get(slot).group {
            return Some(group);
        }
        let group = self.groups.join(self.entries.key(slot).group()?);
        self.entries.get_mut(slot).group = Some(group);
        Some(group)
    }

    /// Makes delayed keys ready whose time has come.
    pub(super) fn promote_due(&mut self, now: Instant) {
        while let Some((&(at, arrival), &slot)) = self.delayed.first_key_value() {
            if at > now {
                return;
            }
            let Stand::Delayed { later, .. } = self.entries.get(slot).stand else {
                unreachable!("a key among the delayed stands as delayed: both change together");
            };
            self.forget_delay(later, arrival);
            self.enqueue(slot, None, now);
        }
    }

    /// Hands out the next ready key.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Item<T>> {
        let (rank, slot) = self.ready.pop(&mut self.entries)?;
        self.in_flight += 1;
        self.entries.keep_near(slot);
        let key = self.entries.key(slot).clone();
        let entry = self.entries.get_mut(slot);
        let stand = std::mem::replace(&mut entry.stand, Stand::InFlight { again: None });
        let Stand::Ready { since, .. } = stand else {
            unreachable!("a key in a line stands as ready: both change together");
        };
        let causes = std::mem::take(&mut entry.causes);
        let (priority, requeues) = (entry.priority, entry.failures);
        self.turns.give(priority, rank.round());
        self.leave_line(slot, priority);
        Some(Item { key, priority, causes, ready_at: since, requeues })
    }

    /// Ends the work on a key. Returns whether it is ready again.
    pub(super) fn done(&mut self, key: &T) -> bool {
        self.entries.find(key).is_some_and(|slot| self.end_work(slot))
    }

    /// Ends the work on a key and forgets its failures. Returns whether it is ready again.
    pub(super) fn succeeded(&mut self, key: &T) -> bool {
        let Some(slot) = self.entries.find(key) else { return false };
        self.entries.get_mut(slot).failures = 0;
        self.end_work(slot)
    }

    fn end_work(&mut self, slot: Slot) -> bool {
        let entry = self.entries.get_mut(slot);
        let Stand::InFlight { again } = entry.stand else { return false };
        entry.stand = Stand::Absent;
        self.in_flight -= 1;
        match again.filter(|_| self.end == End::Open) {
            Some(again) => self.enqueue(slot, again.later, Instant::now()),
            None => {
                self.let_go(slot);
                false
            }
        }
    }

    /// Puts back a key that was handed out but not worked on, with its causes and its priority. Returns whether it is
    /// ready.
    pub(super) fn put_back(&mut self, item: Item<T>) -> bool {
        if self.end != End::Open {
            // The queue is shut down: its workers have been told that there are no more keys.
            return self.done(&item.key);
        }
        let Some(slot) = self.entries.find(&item.key) else { return false };
        let entry = self.entries.get_mut(slot);
        let Stand::InFlight { again } = entry.stand else { return false };
        entry.priority = if again.is_some() { entry.priority.max(item.priority) } else { item.priority };
        let mut causes = item.causes;
        causes.merge(std::mem::take(&mut entry.causes));
        entry.causes = causes;
        entry.stand = Stand::Absent;
        self.in_flight -= 1;
        // The latency of the key counts from when it first was ready.
        self.enter_line(slot, item.ready_at);
        true
    }

    /// Counts one more failure in a row. Returns how many there are now.
    pub(super) fn count_failure(&mut self, key: &T) -> u32 {
        let slot = self.entries.enter(key.clone());
        let entry = self.entries.get_mut(slot);
        entry.failures = entry.failures.saturating_add(1);
        entry.failures
    }

    pub(super) fn forget(&mut self, key: &T) {
        if let Some(slot) = self.entries.find(key) {
            self.entries.get_mut(slot).failures = 0;
            self.let_go(slot);
        }
    }

    /// Drops a key that has no state left: soon, and at the latest when the queue is empty.
    fn let_go(&mut self, slot: Slot) {
        if self.entries.get(slot).is_empty() {
            self.lingering.push(slot);
        }
        if self.lingering.len() >= LINGERING_MAX || self.is_idle() {
            self.forget_lingering();
        }
    }

    fn forget_lingering(&mut self) {
        let mut lingering = std::mem::take(&mut self.lingering);
        self.remove(&lingering, Entry::is_empty);
        lingering.clear();
        self.lingering = lingering;
    }

    fn remove(&mut self, slots: &[Slot], may_go: impl Fn(&Entry) -> bool) {
        let groups = &mut self.groups;
        self.entries.remove_all(slots.iter().copied(), may_go, |entry| {
            if let Some(group) = entry.group {
                groups.leave(group);
            }
        });
    }

    pub(super) fn failures(&self, key: &T) -> u32 {
        self.entries.find(key).map_or(0, |slot| self.entries.get(slot).failures)
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

    /// Returns the time of the earliest delayed key for each purpose.
    pub(super) fn dues(&self) -> Dues {
        if self.delayed.is_empty() {
            return Dues::default();
        }
        [0, 1, 2].map(|purpose: usize| self.delayed_for[purpose].first().map(|(at, _)| *at))
    }

    pub(super) fn has_ready(&self) -> bool {
        self.ready.len() > 0
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

    /// The number of keys that are ready or in flight.
    pub(super) fn pending_len(&self) -> usize {
        self.ready.len() + self.in_flight
    }

    /// The number of keys in memory.
    #[cfg(test)]
    pub(super) fn known_len(&self) -> usize {
        self.entries.len()
    }

    /// The number of keys for which memory is allocated.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.entries.room()
    }

    /// The number of groups in memory.
    #[cfg(test)]
    pub(super) fn groups_len(&self) -> usize {
        self.groups.len()
    }

    /// The number of priorities in memory.
    #[cfg(test)]
    pub(super) fn priorities_len(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending_len() == 0
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.end != End::Open
    }

    /// Shuts the queue down: drops delayed keys, and ready keys too unless it drains.
    pub(super) fn shut_down(&mut self, end: End) {
        self.end = end;
        let mut dropped: Vec<Slot> = std::mem::take(&mut self.delayed).into_values().collect();
        self.delayed_for = Default::default();
        if end == End::Closed {
            while let Some((_, slot)) = self.ready.pop(&mut self.entries) {
                self.leave_line(slot, self.entries.get(slot).priority);
                dropped.push(slot);
            }
        }
        self.remove(&dropped, |_| true);
        self.forget_lingering();
    }
}

/// Returns the earlier of two times with the stronger of their purposes. `None` means now.
fn earlier(a: Option<Later>, b: Option<Later>) -> Option<Later> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.merge(b)),
        _ => None,
    }
}
