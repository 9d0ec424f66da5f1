//! Keys with what is known of each: found by one hash, then by number.

use evenkeel_env::HashMap;

use super::QueueKey;

/// Slots that are kept though no key is left, so that a queue that empties now and then does not allocate anew.
const SLOTS_KEPT: usize = 1024;

/// The number of a key, for as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

#[derive(Debug)]
pub(super) struct Slots<T, E> {
    /// Looked up only; nothing goes through it.
    by_key: HashMap<T, Slot>,
    /// None is free.
    slots: Vec<Option<(T, E)>>,
    free: Vec<Slot>,
}

impl<T, E> Default for Slots<T, E> {
    fn default() -> Self {
        Self { by_key: HashMap::default(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: QueueKey, E: Default> Slots<T, E> {
    /// The slot of a key, which it has from now on.
    pub(super) fn enter(&mut self, key: T) -> Slot {
        let (slots, free) = (&mut self.slots, &mut self.free);
        *self.by_key.entry(key).or_insert_with_key(|key| {
            let entry = Some((key.clone(), E::default()));
            match free.pop() {
                Some(slot) => {
                    slots[slot.0 as usize] = entry;
                    slot
                }
                None => {
                    let slot =
                        u32::try_from(slots.len()).expect("four thousand million keys do not fit memory");
                    slots.push(entry);
                    Slot(slot)
                }
            }
        })
    }

    pub(super) fn find(&self, key: &T) -> Option<Slot> {
        self.by_key.get(key).copied()
    }

    pub(super) fn key(&self, slot: Slot) -> &T {
        &self.slots[slot.0 as usize].as_ref().expect(TAKEN).0
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut E {
        &mut self.slots[slot.0 as usize].as_mut().expect(TAKEN).1
    }

    /// Forgets a key; its slot is free then.
    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some((key, _)) = self.slots[slot.0 as usize].take() {
            self.by_key.remove(&key);
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
