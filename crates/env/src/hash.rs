//! Hash maps whose hasher is fixed, for lookups only.
//!
//! Their order is still arbitrary, so that `clippy::iter_over_hash_type` stands; but it is the same in every process.
//! The hasher is a fast one: keys are the names of objects, of which each change looks up several. Like any hash whose
//! seed is known it can be made to collide on purpose; whoever may create so many objects has costlier ways.

/// The hasher of these maps.
pub type Hashes = foldhash::fast::FixedState;

/// A hash map that hashes the same in every process.
#[expect(clippy::disallowed_types, reason = "this is the door")]
pub type HashMap<K, V> = std::collections::HashMap<K, V, Hashes>;

/// A hash set that hashes the same in every process.
#[expect(clippy::disallowed_types, reason = "this is the door")]
pub type HashSet<K> = std::collections::HashSet<K, Hashes>;
