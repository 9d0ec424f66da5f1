//! Keys with what is known of each: found by one hash, then by number.

use std::hash::BuildHasher;

use evenkeel_env::Hashes;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::QueueKey;

/// Slots that are kept though no key is left, so that a queue that empties now and then does not allocate anew.
const SLOTS_KEPT: usize = 1024;

/// The number of a key, for as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

#[derive(Debug)]
pub(super) struct Slots<T, E> {
    /// Looked up only; nothing goes through it.
    by_key: HashTable<Slot>,
    hashes: Hashes,
    /// None is free.
    slots: Vec<Option<Held<T, E>>>,
    free: Vec<Slot>,
}

#[derive(Debug)]
struct Held<T, E> {
    key: T,
    hash: u64,
    entry: E,
}

impl<T, E> Default for Slots<T, E> {
    fn default() -> Self {
        Self { by_key: HashTable::new(), hashes: Hashes::default(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: QueueKey, E: Default> Slots<T, E> {
    /// The slot of a key, which it has from now on.
    pub(super) fn enter(&mut self, key: T) -> Slot {
        let hash = self.hashes.hash_one(&key);
        let (slots, free) = (&mut self.slots, &mut self.free);
        let known =
            self.by_key.entry(hash, |slot| held(slots, *slot).key == key, |slot| held(slots, *slot).hash);
        match known {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                let slot = new_slot(slots, free, Held { key, hash, entry: E::default() });
                place.insert(slot);
                slot
            }
        }
    }

    pub(super) fn find(&self, key: &T) -> Option<Slot> {
        let hash = self.hashes.hash_one(key);
        self.by_key.find(hash, |slot| held(&self.slots, *slot).key == *key).copied()
    }

    pub(super) fn key(&self, slot: Slot) -> &T {
        &held(&self.slots, slot).key
    }

    pub(super) fn get(&self, slot: Slot) -> &E {
        &held(&self.slots, slot).entry
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut E {
        &mut self.slots[slot.0 as usize].as_mut().expect(TAKEN).entry
    }

    /// Forgets a key; its slot is free then.
    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some(held) = self.slots[slot.0 as usize].take() {
            if let Ok(known) = self.by_key.find_entry(held.hash, |other| *other == slot) {
                known.remove();
            }
            self.free.push(slot);
        }
        if self.by_key.is_empty() && self.slots.len() > SLOTS_KEPT {
            // A burst is over: its memory goes too.
            *self = Self::default();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

const TAKEN: &str = "a slot is used only between `enter` and `remove` of its key";

fn held<T, E>(slots: &[Option<Held<T, E>>], slot: Slot) -> &Held<T, E> {
    slots[slot.0 as usize].as_ref().expect(TAKEN)
}

fn new_slot<T, E>(slots: &mut Vec<Option<Held<T, E>>>, free: &mut Vec<Slot>, held: Held<T, E>) -> Slot {
    match free.pop() {
        Some(slot) => {
            slots[slot.0 as usize] = Some(held);
            slot
        }
        None => {
            let slot = u32::try_from(slots.len()).expect("four thousand million keys do not fit memory");
            slots.push(Some(held));
            Slot(slot)
        }
    }
}
