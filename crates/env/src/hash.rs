//! Hash maps whose hasher is fixed, for lookups only.
//!
//! Their order is still arbitrary, so that `clippy::iter_over_hash_type` stands; but it is the same in every process.

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

/// A hash map that hashes the same in every process.
#[expect(clippy::disallowed_types, reason = "this is the door")]
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// A hash set that hashes the same in every process.
#[expect(clippy::disallowed_types, reason = "this is the door")]
pub type HashSet<K> = std::collections::HashSet<K, BuildHasherDefault<DefaultHasher>>;
