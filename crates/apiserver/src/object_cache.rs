//! A cache of recently written objects, so that the next write of an object need not parse it again.
//!
//! Controllers write the same few objects again and again. The cache is bounded, and nothing depends on it:
//! an object that is not cached is parsed from its bytes.
//!
//! A writer needs the stored object for comparison and a copy to change. Cloning one tree and dropping
//! another is most of the cost of writing a large object. Therefore the cache also keeps the tree of the
//! previous revision, which differs little from the newest one; a copy is made by [updating](renew) it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

/// The total JSON size of the cached objects. A parsed object takes about twenty times its JSON size, so this
/// is about five megabytes of memory.
const BYTES_MAX: usize = 256 * 1024;

/// Recently written objects by key.
#[derive(Default)]
pub(crate) struct ObjectCache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_key: BTreeMap<Arc<str>, Tree>,
    /// The keys with their revisions, in the order of insertion. Entries with an outdated revision are
    /// skipped.
    order: VecDeque<(Arc<str>, u64)>,
    /// The total JSON size of the cached objects.
    bytes: usize,
}

struct Tree {
    revision: u64,
    object: Arc<Value>,
    /// The tree of an earlier revision, from which the next copy is made.
    before: Option<Arc<Value>>,
    /// The JSON size of both trees.
    bytes: usize,
}

impl ObjectCache {
    /// Returns an object at this revision, if it is cached.
    pub(crate) fn get(&self, key: &str, revision: u64) -> Option<Arc<Value>> {
        let kept = self.0.lock();
        kept.by_key.get(key).filter(|tree| tree.revision == revision).map(|tree| tree.object.clone())
    }

    /// Returns a copy of an object at this revision, if it is cached.
    pub(crate) fn copy(&self, key: &str, revision: u64) -> Option<Value> {
        let (object, before) = {
            let mut kept = self.0.lock();
            let tree = kept.by_key.get_mut(key).filter(|tree| tree.revision == revision)?;
            (tree.object.clone(), tree.before.take())
        };
        // `into_inner` fails if a reader still holds the old tree.
        match before.and_then(Arc::into_inner) {
            Some(mut copy) => {
                renew(&mut copy, &object);
                Some(copy)
            }
            None => Some((*object).clone()),
        }
    }

    /// Caches an object whose JSON size is `bytes`.
    pub(crate) fn keep(&self, key: &str, revision: u64, object: Arc<Value>, bytes: usize) {
        if bytes > BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock();
        let key: Arc<str> = key.into();
        let before = kept.by_key.remove(&key);
        kept.bytes -= before.as_ref().map_or(0, |tree| tree.bytes);
        // Two trees of a large object would not fit.
        let before = before.map(|tree| tree.object).filter(|_| 2 * bytes <= BYTES_MAX);
        let bytes = if before.is_some() { 2 * bytes } else { bytes };
        kept.bytes += bytes;
        kept.order.push_back((key.clone(), revision));
        kept.by_key.insert(key, Tree { revision, object, before, bytes });
        kept.shrink();
    }
}

impl Kept {
    fn shrink(&mut self) {
        let is_stale = |kept: &Self| match kept.order.front() {
            Some((key, revision)) => kept.by_key.get(key).is_none_or(|tree| tree.revision != *revision),
            None => false,
        };
        while self.bytes > BYTES_MAX || is_stale(self) {
            let Some((key, revision)) = self.order.pop_front() else { return };
            if self.by_key.get(&key).is_some_and(|tree| tree.revision == revision)
                && let Some(tree) = self.by_key.remove(&key)
            {
                self.bytes -= tree.bytes;
            }
        }
    }
}

/// Changes `tree` to equal `to`, reusing the parts that are already equal.
fn renew(tree: &mut Value, to: &Value) {
    match (tree, to) {
        (Value::Object(tree), Value::Object(to)) => {
            let mut pairs = tree.iter_mut().zip(to);
            // Nearly always both have the same keys, and one pass suffices.
            let same = pairs.all(|((key, tree), (to_key, to))| {
                let same = key == to_key;
                if same {
                    renew(tree, to);
                }
                same
            });
            if same && tree.len() == to.len() {
                return;
            }
            tree.retain(|key, _| to.contains_key(key));
            for (key, to) in to {
                match tree.get_mut(key) {
                    Some(tree) => renew(tree, to),
                    None => drop(tree.insert(key.clone(), to.clone())),
                }
            }
        }
        (Value::Array(tree), Value::Array(to)) => {
            tree.truncate(to.len());
            tree.iter_mut().zip(to).for_each(|(tree, to)| renew(tree, to));
            tree.extend_from_slice(&to[tree.len()..]);
        }
        (Value::String(tree), Value::String(to)) if tree == to => {}
        (tree, to) => *tree = to.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_is_that_of_its_revision() {
        let cache = ObjectCache::default();
        cache.keep("/a", 1, Arc::new(json!(1)), 10);
        cache.keep("/a", 2, Arc::new(json!(2)), 10);
        assert_eq!(cache.get("/a", 1), None);
        assert_eq!(cache.get("/a", 2).as_deref(), Some(&json!(2)));
    }

    #[test]
    fn a_copy_is_of_its_revision_and_ones_own() {
        let cache = ObjectCache::default();
        cache.keep("/a", 1, Arc::new(json!({"a": [1], "b": "x"})), 10);
        let read = cache.get("/a", 1).unwrap();
        cache.keep("/a", 2, Arc::new(json!({"a": [1, 2], "c": "x"})), 10);
        for read in [Some(read), None] {
            assert_eq!(cache.copy("/a", 1), None);
            assert_eq!(cache.copy("/a", 2), Some(json!({"a": [1, 2], "c": "x"})));
            cache.keep("/a", 2, Arc::new(json!({"a": [1, 2], "c": "x"})), 10);
            assert!(read.is_none_or(|read| *read == json!({"a": [1], "b": "x"})), "who reads is left alone");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            "[ab]?".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[abcd]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_renewed_is_equal(mut tree in any_value(), to in any_value()) {
            renew(&mut tree, &to);
            prop_assert_eq!(tree, to);
        }
    }

    #[test]
    fn the_oldest_go_when_it_is_full() {
        let cache = ObjectCache::default();
        for number in 0..10_u64 {
            cache.keep(&format!("/{number}"), number, Arc::new(json!(number)), BYTES_MAX / 4);
            cache.keep("/often", number, Arc::new(json!(number)), 1);
        }
        assert!(cache.get("/0", 0).is_none());
        assert!(cache.get("/9", 9).is_some());
        assert!(cache.0.lock().bytes <= BYTES_MAX);
        assert!(cache.0.lock().order.len() < 12, "what is out of date goes too");
        for number in 20..22 {
            cache.keep("/large", number, Arc::new(json!(number)), BYTES_MAX * 3 / 4);
            assert!(
                cache.get("/large", number).is_some(),
                "one of a large object is kept where two do not fit"
            );
        }
        cache.keep("/huge", 11, Arc::new(json!(0)), BYTES_MAX + 1);
        assert!(cache.get("/huge", 11).is_none());
    }
}
