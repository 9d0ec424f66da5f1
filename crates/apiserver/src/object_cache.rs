//! A cache of recently written objects, so that the next write of an object need not parse it again.
//!
//! Controllers write the same few objects again and again. The cache is bounded, and nothing depends on it:
//! an object that is not cached is parsed from its bytes.
//!
//! A writer needs the stored object for comparison and a copy to change. The copy is a clone, which shares all that
//! the writer does not change.

use std::sync::Arc;

use evenkeel_schema::json::Value;

use crate::bounded_cache::BoundedCache;

/// The total JSON size of one generation; two are kept. A parsed object takes about five times its JSON size, so this is
/// about five megabytes of memory.
const GENERATION_BYTES: usize = 512 * 1024;
/// The JSON size of the largest cached object: that of both generations.
const OBJECT_BYTES_MAX: usize = 2 * GENERATION_BYTES;

/// Recently written objects by key.
#[derive(Debug, Default)]
pub(crate) struct ObjectCache(BoundedCache<Arc<str>, CachedObject, GENERATION_BYTES>);

/// The newest known revision of an object.
struct CachedObject {
    revision: u64,
    object: Arc<Value>,
}

impl ObjectCache {
    /// Returns an object at this revision, if it is cached.
    pub(crate) fn get(&self, key: &str, revision: u64) -> Option<Arc<Value>> {
        self.0.read(key, |cached| (cached.revision == revision).then(|| cached.object.clone())).flatten()
    }

    /// Caches an object whose JSON size is `bytes`.
    pub(crate) fn keep(&self, key: &str, revision: u64, object: Arc<Value>, bytes: usize) {
        if bytes > OBJECT_BYTES_MAX {
            return;
        }
        self.0.insert(key.into(), CachedObject { revision, object }, bytes);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_schema::json::json;

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
