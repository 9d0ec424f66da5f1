//! Maps: one shared slice of pairs, sorted by name.

use std::sync::Arc;

use crate::{Text, Tree};

/// The members of a map, sorted by name.
///
/// ```
/// use evenkeel_tree::{Tree, tree};
///
/// let Tree::Map(map) = tree!({"b": 2, "a": 1}) else { unreachable!() };
/// assert_eq!(map.get("b"), Some(&Tree::Integer(2)));
/// assert_eq!(map.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b"]);
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Map(Arc<[(Text, Tree)]>);

impl Map {
    /// Makes a map of these members. If a name occurs twice, the last value counts.
    pub(crate) fn new(mut members: Vec<(Text, Tree)>) -> Self {
        if !members.is_sorted_by(|a, b| a.0 < b.0) {
            members.sort_by(|a, b| a.0.cmp(&b.0));
            // The sort is stable: the last of equal names is the last member.
            members.reverse();
            members.dedup_by(|earlier, later| earlier.0 == later.0);
            members.reverse();
        }
        Self(members.into())
    }

    /// The value of a member.
    pub fn get(&self, name: &str) -> Option<&Tree> {
        let at = self.find(name).ok()?;
        Some(&self.0[at].1)
    }

    /// The names and values, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Tree)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces a member; null removes it.
    pub(crate) fn insert(&mut self, name: &str, value: Tree) {
        match (self.find(name), value) {
            (Err(_), Tree::Null) => {}
            (Ok(at), Tree::Null) => {
                let kept = self.0.iter().enumerate().filter(|(index, _)| *index != at);
                self.0 = kept.map(|(_, member)| member.clone()).collect();
            }
            (Ok(at), value) => Arc::make_mut(&mut self.0)[at].1 = value,
            (Err(at), value) => {
                let mut members = self.0.to_vec();
                members.insert(at, (name.into(), value));
                self.0 = members.into();
            }
        }
    }

    /// Takes the value of a member out, so that it can be changed without copying parts that nothing else shares.
    pub(crate) fn take(&mut self, name: &str) -> Tree {
        match self.find(name) {
            Ok(at) => std::mem::take(&mut Arc::make_mut(&mut self.0)[at].1),
            Err(_) => Tree::Null,
        }
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        // Comparing by length first would be faster, but readers see the order of names.
        self.0.binary_search_by(|(member, _)| member.as_bytes().cmp(name.as_bytes()))
    }
}
