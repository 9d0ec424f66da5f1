//! The keys of a queue with an entry for each: found by hash once, then by slot number.
//!
//! A key that was handed out is looked up again soon: when its work ends, and when the events of its own writes arrive.
//! So the keys that were handed out last are found without the hash table, which for very many keys does not fit into
//! the processor's caches.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use evenkeel_env::Hashes;

use super::QueueKey;
use super::table::{Mark, Table};

/// The capacity that an empty queue keeps, so that a queue that empties now and then does not allocate again.
const SLOTS_KEPT: usize = 1024;

/// How many keys are found without the table; a power of two. Mostly those of 64 workers, in four cache lines.
const NEAR: usize = 64;

/// The number of a key while the queue knows it: its index plus one, so that an `Option<Slot>` takes four bytes.
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
    /// The entries by slot; `None` is a free slot.
    slots: Vec<Option<Held<T, E>>>,
    free: Vec<Slot>,
    /// Keys that were handed out recently, each at the index that its mark gives; a later key replaces an earlier one.
    near: [Option<Slot>; NEAR],
    /// The key that was handed out last, which a single worker looks up next: found without computing its hash.
    last: Option<Slot>,
    /// The highest number of keys before the queue was last empty.
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
    /// The slot of a key; a new key gets one.
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

    /// Lets a key be found without the table, until another key replaces it there.
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

    /// Removes those of the given keys for which `may_go` returns true, and passes the entry of each on.
    pub(super) fn remove_all(
        &mut self,
        slots: impl Iterator<Item = Slot> + Clone,
        may_go: impl Fn(&E) -> bool,
        mut gone: impl FnMut(E),
    ) {
        let goes = |held: &Held<T, E>| may_go(&held.entry);
        // The table cells of all keys are read first: these reads wait for memory in parallel, while the removals would
        // wait one after another.
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

    /// Frees the memory of a burst of keys, unless the burst before was as large: then the next one may be too.
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
