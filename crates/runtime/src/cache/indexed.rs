//! An index of a cache, updated with every change of an object.

use std::collections::BTreeSet;
use std::collections::btree_set;

use std::sync::Arc;

use evenkeel_env::HashMap;

use super::entries::Entry;
use crate::Request;

/// Returns the index values of an object. The object has the type of its cache.
type Values = Box<dyn Fn(&Entry) -> Vec<String> + Send + Sync>;

/// From a value to the keys of the objects that have it.
pub(super) struct Indexed {
    name: Arc<str>,
    values: Values,
    /// A value without keys has no entry. The map is only used for lookups, never iterated, so that the order of hashes
    /// never shows.
    keys: HashMap<String, Keys>,
}

/// The keys of one value.
#[derive(Debug)]
enum Keys {
    /// Most values of most indexes have one object, for which a tree would waste memory.
    One(Request),
    Many(BTreeSet<Request>),
}

impl Indexed {
    pub(super) fn new(name: Arc<str>, values: Values) -> Self {
        Self { name, values, keys: HashMap::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The number of values that have objects.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys of one value, in order.
    pub(super) fn keys(&self, value: &str) -> impl Iterator<Item = &Request> {
        let keys = self.keys.get(value);
        keys.into_iter().flat_map(|keys| match keys {
            Keys::One(key) => OneOrMany::One(std::iter::once(key)),
            Keys::Many(keys) => OneOrMany::Many(keys.iter()),
        })
    }

    /// Counts the keys that have one value.
    pub(super) fn count(&self, value: &str) -> usize {
        match self.keys.get(value) {
            None => 0,
            Some(Keys::One(_)) => 1,
            Some(Keys::Many(keys)) => keys.len(),
        }
    }

    /// Updates the index for one object that changed from `old` to `new`.
    pub(super) fn update(&mut self, key: &Request, old: Option<&Entry>, new: Option<&Entry>) {
        let before = old.map(|old| (self.values)(old)).unwrap_or_default();
        let after = new.map(|new| (self.values)(new)).unwrap_or_default();
        if before == after {
            return;
        }
        for value in before.iter().filter(|value| !after.contains(value)) {
            self.remove(value, key);
        }
        for value in after.into_iter().filter(|value| !before.contains(value)) {
            self.insert(value, key);
        }
    }

    fn insert(&mut self, value: String, key: &Request) {
        use std::collections::hash_map::Entry;
        match self.keys.entry(value) {
            Entry::Vacant(vacant) => drop(vacant.insert(Keys::One(key.clone()))),
            Entry::Occupied(mut occupied) => match occupied.get_mut() {
                Keys::One(other) if other == key => {}
                Keys::One(other) => {
                    let both = BTreeSet::from([other.clone(), key.clone()]);
                    occupied.insert(Keys::Many(both));
                }
                Keys::Many(keys) => drop(keys.insert(key.clone())),
            },
        }
    }

    fn remove(&mut self, value: &str, key: &Request) {
        let empty = match self.keys.get_mut(value) {
            None => false,
            Some(Keys::One(other)) => other == key,
            Some(Keys::Many(keys)) => {
                keys.remove(key);
                keys.is_empty()
            }
        };
        if empty {
            self.keys.remove(value);
        }
    }
}

enum OneOrMany<'a> {
    One(std::iter::Once<&'a Request>),
    Many(btree_set::Iter<'a, Request>),
}

impl<'a> Iterator for OneOrMany<'a> {
    type Item = &'a Request;

    fn next(&mut self) -> Option<&'a Request> {
        match self {
            Self::One(one) => one.next(),
            Self::Many(many) => many.next(),
        }
    }
}
