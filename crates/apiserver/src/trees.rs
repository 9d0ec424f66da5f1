//! The trees of objects that were written lately, so that the next write of one need not parse it again.
//!
//! Controllers write the same few objects over and over. What is kept is bounded, and nothing depends on it: an
//! object that is not here is parsed from its bytes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

/// How many bytes of JSON the kept trees stand for, at most. A tree takes about twenty times as much memory, so
/// that this is five megabytes.
const BYTES_MAX: usize = 256 * 1024;

/// The trees of recent writes, by key.
#[derive(Default)]
pub(crate) struct Trees(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_key: BTreeMap<Arc<str>, Tree>,
    /// Keys in the order in which they were kept, with the revision: what is out of date in it is passed over.
    order: VecDeque<(Arc<str>, u64)>,
    /// The bytes of JSON that the trees stand for.
    bytes: usize,
}

struct Tree {
    revision: u64,
    object: Arc<Value>,
    bytes: usize,
}

impl Trees {
    /// The tree of an object at this revision, where it is kept.
    pub(crate) fn get(&self, key: &str, revision: u64) -> Option<Arc<Value>> {
        let kept = self.0.lock();
        kept.by_key.get(key).filter(|tree| tree.revision == revision).map(|tree| tree.object.clone())
    }

    /// Keeps the tree of an object, which is `bytes` long as JSON.
    pub(crate) fn keep(&self, key: &str, revision: u64, object: Arc<Value>, bytes: usize) {
        if bytes > BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock();
        let key: Arc<str> = key.into();
        kept.bytes += bytes;
        kept.order.push_back((key.clone(), revision));
        if let Some(before) = kept.by_key.insert(key, Tree { revision, object, bytes }) {
            kept.bytes -= before.bytes;
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_is_that_of_its_revision() {
        let trees = Trees::default();
        trees.keep("/a", 1, Arc::new(json!(1)), 10);
        trees.keep("/a", 2, Arc::new(json!(2)), 10);
        assert_eq!(trees.get("/a", 1), None);
        assert_eq!(trees.get("/a", 2).as_deref(), Some(&json!(2)));
    }

    #[test]
    fn the_oldest_go_when_it_is_full() {
        let trees = Trees::default();
        for number in 0..10_u64 {
            trees.keep(&format!("/{number}"), number, Arc::new(json!(number)), BYTES_MAX / 4);
            trees.keep("/often", number, Arc::new(json!(number)), 1);
        }
        assert!(trees.get("/0", 0).is_none());
        assert!(trees.get("/9", 9).is_some());
        assert!(trees.0.lock().bytes <= BYTES_MAX);
        assert!(trees.0.lock().order.len() < 12, "what is out of date goes too");
        trees.keep("/huge", 11, Arc::new(json!(0)), BYTES_MAX + 1);
        assert!(trees.get("/huge", 11).is_none());
    }
}
