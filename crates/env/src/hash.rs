//! Hash maps with a fast hasher, for lookups only.
//!
//! Nothing may iterate over them (`clippy::iter_over_hash_type`), because their order is arbitrary. The hasher is fast
//! because every change of an object looks up several names.
//!
//! Users choose these names, and someone who knows the seed of the hash can choose names that collide. So the seed is
//! random in each process. A map uses a fixed seed only if the last world made on its thread is a seeded one: such a
//! world runs on the thread that made it, and is the same in every run down to the order of its maps.

use std::cell::Cell;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::fast::{FoldHasher, SeedableRandomState};

use crate::random;

/// Builds the hashers of [`HashMap`] and [`HashSet`].
#[derive(Clone)]
pub struct Hashes(SeedableRandomState);

/// A hash map whose seed is random in each process, and fixed in a seeded world.
#[expect(clippy::disallowed_types, reason = "this crate is the one place that may use it")]
pub type HashMap<K, V> = std::collections::HashMap<K, V, Hashes>;

/// A hash set whose seed is random in each process, and fixed in a seeded world.
#[expect(clippy::disallowed_types, reason = "this crate is the one place that may use it")]
pub type HashSet<K> = std::collections::HashSet<K, Hashes>;

thread_local! {
    /// Whether the last world made on this thread is a seeded one.
    static IS_SEEDED: Cell<bool> = const { Cell::new(false) };
}

/// Remembers whether the world that was just made on this thread is seeded.
pub(crate) fn note_world(is_seeded: bool) {
    IS_SEEDED.set(is_seeded);
}

/// Returns the seeds of this process: the hasher's own, and the shared one.
fn process_seeds() -> &'static (u64, SharedSeed) {
    static SEEDS: OnceLock<(u64, SharedSeed)> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let mut bytes = [[0; 8]; 2];
        bytes.iter_mut().for_each(|bytes| random::ask(bytes));
        let [own, shared] = bytes.map(u64::from_le_bytes);
        (own, SharedSeed::from_u64(shared))
    })
}

impl Default for Hashes {
    fn default() -> Self {
        if IS_SEEDED.get() {
            return Self(SeedableRandomState::fixed());
        }
        let (own, shared) = process_seeds();
        Self(SeedableRandomState::with_seed(*own, shared))
    }
}

impl BuildHasher for Hashes {
    type Hasher = FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> FoldHasher<'static> {
        self.0.build_hasher()
    }
}

impl std::fmt::Debug for Hashes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The seed stays out of logs: someone who knows it can choose names that collide.
        f.write_str("Hashes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Env;

    /// Hashes a name as a new map on this thread does.
    fn hash() -> u64 {
        Hashes::default().hash_one("name")
    }

    #[test]
    fn a_seeded_world_hashes_the_same_in_every_process() {
        let _world = Env::seeded(7);
        assert_eq!(hash(), foldhash::fast::FixedState::default().hash_one("name"));
    }

    #[test]
    fn a_process_hashes_with_a_seed_of_its_own() {
        let fixed = foldhash::fast::FixedState::default().hash_one("name");
        assert_ne!(hash(), fixed);
        assert_eq!(hash(), std::thread::spawn(hash).join().unwrap());
        let _world = Env::seeded(7);
        assert_ne!(fixed, std::thread::spawn(hash).join().unwrap());
        let _world = Env::system();
        assert_ne!(hash(), fixed);
    }
}
