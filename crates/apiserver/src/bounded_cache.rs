//! A cache with a bounded total weight.
//!
//! Entries are in two generations. New entries go into the young generation. When that is full, it becomes
//! the old one, and the previous old one is dropped. An entry that is read moves to the young generation, so
//! that used entries stay. Eviction costs nothing per entry and needs no list of uses.
//!
//! `lru` and `quick_cache` were compared with this type. `lru` counts entries instead of bytes, and keeps a
//! linked list that every read writes to. `quick_cache` weighs entries, but brings sharding and a hasher of
//! its own, and its evictions depend on counters that two runs with the same seed would have to share. Forty
//! lines are enough here.
//!
//! The encoded watch events (`encoded_events`) are not kept in this cache. They have a fixed number of slots,
//! each with a lock that is held while an event is encoded, so that a thousand watches encode it once.

use std::borrow::Borrow;
use std::hash::Hash;

use evenkeel_env::HashMap;
use parking_lot::Mutex;

/// A cache whose entries weigh at most twice `GENERATION_WEIGHT` in total, plus one entry.
pub(crate) struct BoundedCache<K, V, const GENERATION_WEIGHT: usize>(Mutex<Generations<K, V>>);

struct Generations<K, V> {
    young: HashMap<K, Entry<V>>,
    /// The total weight of the young entries.
    young_weight: usize,
    old: HashMap<K, Entry<V>>,
}

struct Entry<V> {
    value: V,
    weight: usize,
}

impl<K, V, const GENERATION_WEIGHT: usize> Default for BoundedCache<K, V, GENERATION_WEIGHT> {
    fn default() -> Self {
        Self(Mutex::new(Generations { young: HashMap::default(), young_weight: 0, old: HashMap::default() }))
    }
}

impl<K, V, const GENERATION_WEIGHT: usize> std::fmt::Debug for BoundedCache<K, V, GENERATION_WEIGHT> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let generations = self.0.lock();
        let entries = generations.young.len() + generations.old.len();
        f.debug_struct("BoundedCache").field("entries", &entries).finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, V, const GENERATION_WEIGHT: usize> BoundedCache<K, V, GENERATION_WEIGHT> {
    /// Returns a copy of an entry's value.
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        self.read(key, |value| value.clone())
    }

    /// Reads or changes an entry in place; its weight stays the same.
    pub(crate) fn read<Q: Eq + Hash + ?Sized, T>(&self, key: &Q, read: impl FnOnce(&mut V) -> T) -> Option<T>
    where
        K: Borrow<Q>,
    {
        let mut generations = self.0.lock();
        if let Some((key, entry)) = generations.old.remove_entry(key) {
            generations.insert(key, entry, GENERATION_WEIGHT);
        }
        // The insertion may have turned this generation into the old one.
        let Generations { young, old, .. } = &mut *generations;
        let entry = young.get_mut(key).or_else(|| old.get_mut(key))?;
        Some(read(&mut entry.value))
    }

    /// Inserts or replaces a value with this weight.
    pub(crate) fn insert(&self, key: K, value: V, weight: usize) {
        self.replace(key, |_| (value, weight));
    }

    /// Replaces an entry by the value and weight that `make` returns for the present value.
    pub(crate) fn replace(&self, key: K, make: impl FnOnce(Option<V>) -> (V, usize)) {
        let mut generations = self.0.lock();
        let (value, weight) = make(generations.remove(&key));
        generations.insert(key, Entry { value, weight }, GENERATION_WEIGHT);
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    fn remove(&mut self, key: &K) -> Option<V> {
        match self.young.remove(key) {
            Some(entry) => {
                self.young_weight -= entry.weight;
                Some(entry.value)
            }
            None => self.old.remove(key).map(|entry| entry.value),
        }
    }

    /// Adds an entry whose key is in neither generation.
    fn insert(&mut self, key: K, entry: Entry<V>, generation_weight: usize) {
        self.young_weight += entry.weight;
        self.young.insert(key, entry);
        if self.young_weight > generation_weight {
            self.old = std::mem::take(&mut self.young);
            self.young_weight = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let cache: BoundedCache<u32, u32, 10> = BoundedCache::default();
        cache.insert(0, 0, 1);
        for number in 1..100 {
            cache.insert(number, number, 1);
            assert_eq!(cache.get(&0), Some(0), "after {number}");
        }
        assert_eq!(cache.get(&99), Some(99));
        assert_eq!(cache.get(&1), None);
        let generations = cache.0.lock();
        assert!(generations.young.len() + generations.old.len() <= 22);
    }

    #[test]
    fn a_value_is_replaced_with_its_weight() {
        let cache: BoundedCache<&str, u32, 10> = BoundedCache::default();
        for number in 0..100 {
            cache.replace("a", |before| (before.unwrap_or(number) + 1, 6));
        }
        assert_eq!(cache.get("a"), Some(100));
        assert_eq!(cache.0.lock().young_weight, 6);
        cache.read("a", |value| *value = 7);
        assert_eq!(cache.get("a"), Some(7));
    }
}
