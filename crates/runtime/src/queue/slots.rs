//! Keys with what is known of each: found by one hash, then by number.
//!
//! A key that was handed out is asked for again soon: when its work ends, and when the events of what that work wrote
//! come back. So the last ones handed out are found without the table, which with very many keys lies in memory that
//! no cache holds.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use evenkeel_env::Hashes;

use super::QueueKey;
use super::table::{Mark, Table};

/// Room that is kept though no key is left, so that a queue that empties now and then does not allocate anew.
const SLOTS_KEPT: usize = 1024;

/// How many keys are found without the table, as a power of two: those of 64 workers, mostly, in four lines of memory.
const NEAR: usize = 64;

/// The number of a key, for as long as it is known: one more than its place, so that it and none take four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(NonZeroU32);

impl Slot {
    pub(super) fn at(place: usize) -> Self {
        let number = u32::try_from(place).ok().and_then(|place| NonZeroU32::MIN.checked_add(place));
        Self(number.expect("four thousand million keys do not fit memory"))
    }

    fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Debug)]
pub(super) struct Slots<T, E> {
    by_key: Table,
    hashes: Hashes,
    /// None is free.
    slots: Vec<Option<Held<T, E>>>,
    free: Vec<Slot>,
    /// Keys that were handed out not long ago, each at the place that its mark says; a later one displaces it.
    near: [Option<Slot>; NEAR],
    /// The one that was handed out last, which a single worker asks for next: it is found without its hash.
    last: Option<Slot>,
    /// How many keys there were at once before none was left, the last time.
    burst: usize,
}

#[derive(Debug)]
struct Held<T, E> {
    key: T,
    mark: Mark,
    entry: E,
}

impl<T, E> Default for Slots<T, E> {
    fn default() -> Self {
        Self {
            by_key: Table::default(),
            hashes: Hashes::default(),
            slots: Vec::new(),
            free: Vec::new(),
            near: [None; NEAR],
            last: None,
            burst: 0,
        }
    }
}

impl<T: QueueKey, E: Default> Slots<T, E> {
    /// The slot of a key, which it has from now on.
    #[inline]
    pub(super) fn enter(&mut self, key: T) -> Slot {
        let mark = self.mark(&key);
        if let Some(slot) = self.find_marked(mark, &key) {
            return slot;
        }
        let held = Some(Held { key, mark, entry: E::default() });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot.place()] = held;
                slot
            }
            None => {
                self.slots.push(held);
                Slot::at(self.slots.len() - 1)
            }
        };
        self.by_key.insert(mark, slot);
        slot
    }

    #[inline]
    pub(super) fn find(&self, key: &T) -> Option<Slot> {
        let last = self.last.filter(|slot| held(&self.slots, *slot).key == *key);
        last.or_else(|| self.find_marked(self.mark(key), key))
    }

    fn mark(&self, key: &T) -> Mark {
        Mark::of(self.hashes.hash_one(key))
    }

    #[inline]
    fn find_marked(&self, mark: Mark, key: &T) -> Option<Slot> {
        let is = |slot: &Slot| {
            let held = held(&self.slots, *slot);
            held.mark == mark && held.key == *key
        };
        self.near[mark.low(NEAR)].filter(is).or_else(|| self.by_key.find(mark, |slot| is(&slot)))
    }

    /// Lets a key be found without the table, until another takes its place.
    #[inline]
    pub(super) fn keep_near(&mut self, slot: Slot) {
        self.near[held(&self.slots, slot).mark.low(NEAR)] = Some(slot);
        self.last = Some(slot);
    }

    #[inline]
    pub(super) fn key(&self, slot: Slot) -> &T {
        &held(&self.slots, slot).key
    }

    #[inline]
    pub(super) fn get(&self, slot: Slot) -> &E {
        &held(&self.slots, slot).entry
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut E {
        &mut self.slots[slot.place()].as_mut().expect(TAKEN).entry
    }

    /// Forgets those of the keys that `may_go` and that are known, and says of each what was known of it.
    pub(super) fn remove_all(
        &mut self,
        slots: impl Iterator<Item = Slot> + Clone,
        may_go: impl Fn(&E) -> bool,
        mut gone: impl FnMut(E),
    ) {
        let goes = |held: &Held<T, E>| may_go(&held.entry);
        // Where each will be looked for is read first: these reads wait for memory together, the removals would one
        // after the other.
        for slot in slots.clone() {
            if let Some(Some(held)) = self.slots.get(slot.place())
                && goes(held)
            {
                self.by_key.touch(held.mark);
            }
        }
        for slot in slots {
            let place = self.slots.get_mut(slot.place());
            if let Some(held) = place.and_then(|place| place.take_if(|held| goes(held))) {
                self.by_key.remove(held.mark, slot);
                self.near[held.mark.low(NEAR)].take_if(|near| *near == slot);
                self.last.take_if(|last| *last == slot);
                self.free.push(slot);
                gone(held.entry);
            }
        }
        if self.by_key.len() == 0 {
            self.emptied();
        }
    }

    /// A burst is over: its memory goes too, unless the burst before was of its size, so that the next may well be.
    fn emptied(&mut self) {
        let burst = self.slots.len();
        let before = std::mem::replace(&mut self.burst, burst);
        if self.slots.capacity() > SLOTS_KEPT.max(2 * burst.min(before)) {
            *self = Self { burst, ..Self::default() };
        }
        self.slots.clear();
        self.free.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.slots.capacity()
    }
}

const TAKEN: &str = "a slot is used only between `enter` and `remove` of its key";

fn held<T, E>(slots: &[Option<Held<T, E>>], slot: Slot) -> &Held<T, E> {
    slots[slot.place()].as_ref().expect(TAKEN)
}
