//! A cache of recently written objects, so that the next write of an object need not parse it again.
//!
//! Controllers write the same few objects again and again. The cache is bounded, and nothing depends on it:
//! an object that is not cached is parsed from its bytes.
//!
//! A writer needs the stored object for comparison and a copy to change. Cloning one tree and dropping
//! another is most of the cost of writing a large object. Therefore the cache also keeps the tree of the
//! previous revision, which differs little from the newest one; a copy is made by [updating](renew) it.

use std::sync::Arc;

use serde_json::Value;

use crate::bounded_cache::BoundedCache;

/// The total JSON size of one generation; two are kept. A parsed object takes about twenty times its JSON
/// size, so this is about five megabytes of memory.
const GENERATION_BYTES: usize = 128 * 1024;
/// The JSON size of the largest cached object: that of both generations.
const OBJECT_BYTES_MAX: usize = 2 * GENERATION_BYTES;

/// Recently written objects by key.
#[derive(Debug, Default)]
pub(crate) struct ObjectCache(BoundedCache<Arc<str>, CachedObject, GENERATION_BYTES>);

/// The newest known revision of an object, and the previous one.
struct CachedObject {
    revision: u64,
    object: Arc<Value>,
    /// The tree of the previous revision, from which the next copy is made.
    before: Option<Arc<Value>>,
}

impl ObjectCache {
    /// Returns an object at this revision, if it is cached.
    pub(crate) fn get(&self, key: &str, revision: u64) -> Option<Arc<Value>> {
        self.0.read(key, |cached| (cached.revision == revision).then(|| cached.object.clone())).flatten()
    }

    /// Returns a copy of an object at this revision, if it is cached.
    pub(crate) fn copy(&self, key: &str, revision: u64) -> Option<Value> {
        let take = |cached: &mut CachedObject| {
            (cached.revision == revision).then(|| (cached.object.clone(), cached.before.take()))
        };
        let (object, before) = self.0.read(key, take).flatten()?;
        // `into_inner` fails if a reader still holds the previous tree.
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
        if bytes > OBJECT_BYTES_MAX {
            return;
        }
        self.0.replace(key.into(), |before| {
            // Two trees of a large object would not fit.
            let before = before.map(|cached| cached.object).filter(|_| 2 * bytes <= OBJECT_BYTES_MAX);
            let weight = if before.is_some() { 2 * bytes } else { bytes };
            (CachedObject { revision, object, before }, weight)
        });
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
    fn what_is_kept_is_bounded() {
        let cache = ObjectCache::default();
        for number in 0..100 {
            cache.keep(&format!("/{number}"), number, Arc::new(json!(number)), OBJECT_BYTES_MAX / 8);
            cache.keep("/often", number, Arc::new(json!(number)), 1);
            assert!(cache.get("/often", number).is_some());
        }
        assert!(cache.get("/0", 0).is_none());
        assert!(cache.get("/99", 99).is_some());
        for number in 0..10 {
            cache.keep("/large", number, Arc::new(json!(number)), OBJECT_BYTES_MAX * 3 / 4);
            assert!(cache.get("/large", number).is_some(), "a large object is kept alone");
        }
        cache.keep("/huge", 11, Arc::new(json!(0)), OBJECT_BYTES_MAX + 1);
        assert!(cache.get("/huge", 11).is_none());
    }
}
