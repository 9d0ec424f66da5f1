//! Maps from names to values, shared by their clones and sorted by name.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops;
use std::sync::Arc;

use super::Value;
use crate::Text;

/// The most members that are kept in one sorted vector. Adding a member moves those after it: at most 6 KiB, some tens of
/// nanoseconds. Larger maps, which a client may send, are B-trees, so that no map is built in quadratic time.
const SMALL_MAX: usize = 128;

/// The members of a map, by name. Changing a shared map copies it, but not the values in it.
///
/// ```
/// use evenkeel_tree::value::{Map, Value};
///
/// let mut map = Map::new();
/// map.insert("b".into(), 2.into());
/// map.insert("a".into(), 1.into());
/// assert_eq!(map.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
/// assert_eq!(map.remove("b"), Some(Value::from(2)));
/// ```
#[derive(Clone, Default)]
pub struct Map(Option<Arc<Members>>);

/// The members of a map that is not empty, or was not.
#[derive(Clone)]
enum Members {
    /// Sorted by name.
    Small(Vec<(Text, Value)>),
    /// More than [`SMALL_MAX`] members, at least once.
    Large(BTreeMap<Text, Value>),
}

impl Members {
    fn find(members: &[(Text, Value)], name: &str) -> Result<usize, usize> {
        members.binary_search_by(|(member, _)| member.as_bytes().cmp(name.as_bytes()))
    }
}

impl Map {
    /// An empty map, which allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a map of members in any order. If a name occurs twice, the last value counts.
    pub(super) fn of(mut members: Vec<(Text, Value)>) -> Self {
        if members.is_empty() {
            return Self::new();
        }
        if !members.is_sorted_by(|a, b| a.0 < b.0) {
            members.sort_by(|a, b| a.0.cmp(&b.0));
            // The sort is stable: the last of equal names is the last member.
            members.reverse();
            members.dedup_by(|earlier, later| earlier.0 == later.0);
            members.reverse();
        }
        Self(Some(Arc::new(match members.len() {
            ..=SMALL_MAX => Members::Small(members),
            _ => Members::Large(members.into_iter().collect()),
        })))
    }

    /// Whether the two maps are one.
    pub(super) fn is_shared_with(&self, other: &Map) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => self.is_empty() && other.is_empty(),
        }
    }

    fn members_mut(&mut self) -> &mut Members {
        Arc::make_mut(self.0.get_or_insert_with(|| Arc::new(Members::Small(Vec::new()))))
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        match self.0.as_deref() {
            None => 0,
            Some(Members::Small(members)) => members.len(),
            Some(Members::Large(members)) => members.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a member.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self.0.as_deref()? {
            Members::Small(members) => Some(&members[Members::find(members, name).ok()?].1),
            Members::Large(members) => members.get(name),
        }
    }

    /// The name and the value of a member.
    pub fn get_key_value(&self, name: &str) -> Option<(&Text, &Value)> {
        match self.0.as_deref()? {
            Members::Small(members) => {
                let (name, value) = &members[Members::find(members, name).ok()?];
                Some((name, value))
            }
            Members::Large(members) => members.get_key_value(name),
        }
    }

    /// The value of a member, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        if !self.contains_key(name) {
            return None;
        }
        match self.members_mut() {
            Members::Small(members) => {
                let at = Members::find(members, name).ok()?;
                Some(&mut members[at].1)
            }
            Members::Large(members) => members.get_mut(name),
        }
    }

    /// Whether there is a member of this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a member. Returns its previous value.
    pub fn insert(&mut self, name: Text, value: Value) -> Option<Value> {
        match self.entry(name) {
            Entry::Occupied(place) => Some(std::mem::replace(place, value)),
            Entry::Vacant(vacant) => {
                vacant.insert(value);
                None
            }
        }
    }

    /// Removes a member. Returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.remove_entry(name).map(|(_, value)| value)
    }

    /// Removes a member. Returns its name and value.
    pub fn remove_entry(&mut self, name: &str) -> Option<(Text, Value)> {
        if !self.contains_key(name) {
            return None;
        }
        match self.members_mut() {
            Members::Small(members) => {
                let at = Members::find(members, name).ok()?;
                Some(members.remove(at))
            }
            Members::Large(members) => members.remove_entry(name),
        }
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// Moves all members of another map here.
    pub fn append(&mut self, other: &mut Map) {
        self.extend(std::mem::take(other));
    }

    /// The place of a member, whether it is there or not.
    pub fn entry(&mut self, name: impl Into<Text>) -> Entry<'_> {
        let name = name.into();
        let members = self.members_mut();
        if let Members::Small(small) = members
            && small.len() >= SMALL_MAX
            && Members::find(small, &name).is_err()
        {
            *members = Members::Large(std::mem::take(small).into_iter().collect());
        }
        match members {
            Members::Small(members) => match Members::find(members, &name) {
                Ok(at) => Entry::Occupied(&mut members[at].1),
                Err(at) => Entry::Vacant(Vacant(Place::Small(members, at, name))),
            },
            Members::Large(members) => match members.entry(name) {
                btree_map::Entry::Occupied(entry) => Entry::Occupied(entry.into_mut()),
                btree_map::Entry::Vacant(entry) => Entry::Vacant(Vacant(Place::Large(entry))),
            },
        }
    }

    /// Keeps the members for which the function returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        if self.is_empty() {
            return;
        }
        match self.members_mut() {
            Members::Small(members) => members.retain_mut(|(name, value)| keep(name, value)),
            Members::Large(members) => members.retain(|name, value| keep(name, value)),
        }
    }

    /// The members, by name.
    pub fn iter(&self) -> Iter<'_> {
        match self.0.as_deref() {
            None => Iter::Small([].iter()),
            Some(Members::Small(members)) => Iter::Small(members.iter()),
            Some(Members::Large(members)) => Iter::Large(members.iter()),
        }
    }

    /// The members, by name, with values to be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_> {
        if self.is_empty() {
            return IterMut::Small([].iter_mut());
        }
        match self.members_mut() {
            Members::Small(members) => IterMut::Small(members.iter_mut()),
            Members::Large(members) => IterMut::Large(members.iter_mut()),
        }
    }

    /// The names, sorted.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> + ExactSizeIterator + Clone {
        self.iter().map(|(name, _)| name)
    }

    /// The values, by name.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The values, by name, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The values, by name.
    pub fn into_values(self) -> impl Iterator<Item = Value> {
        self.into_iter().map(|(_, value)| value)
    }

    /// The names, sorted.
    pub fn into_keys(self) -> impl Iterator<Item = Text> {
        self.into_iter().map(|(name, _)| name)
    }
}

/// The place of a member in a map.
pub enum Entry<'a> {
    /// The member is there: its value.
    Occupied(&'a mut Value),
    /// The member is missing.
    Vacant(Vacant<'a>),
}

/// The place of a missing member.
pub struct Vacant<'a>(Place<'a>);

enum Place<'a> {
    Small(&'a mut Vec<(Text, Value)>, usize, Text),
    Large(btree_map::VacantEntry<'a, Text, Value>),
}

impl<'a> Vacant<'a> {
    /// Adds the member.
    pub fn insert(self, value: Value) -> &'a mut Value {
        match self.0 {
            Place::Small(members, at, name) => {
                members.insert(at, (name, value));
                &mut members[at].1
            }
            Place::Large(entry) => entry.insert(value),
        }
    }
}

impl fmt::Debug for Vacant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vacant")
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Occupied(value) => f.debug_tuple("Occupied").field(value).finish(),
            Entry::Vacant(_) => f.write_str("Vacant"),
        }
    }
}

impl<'a> Entry<'a> {
    /// The value, which is added if it is missing.
    pub fn or_insert(self, value: Value) -> &'a mut Value {
        self.or_insert_with(|| value)
    }

    /// The value, which is made and added if it is missing.
    pub fn or_insert_with(self, value: impl FnOnce() -> Value) -> &'a mut Value {
        match self {
            Entry::Occupied(there) => there,
            Entry::Vacant(vacant) => vacant.insert(value()),
        }
    }
}

/// The members of a map, by name.
#[derive(Clone, Debug)]
pub enum Iter<'a> {
    #[doc(hidden)]
    Small(std::slice::Iter<'a, (Text, Value)>),
    #[doc(hidden)]
    Large(btree_map::Iter<'a, Text, Value>),
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Text, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Iter::Small(members) => members.next().map(|(name, value)| (name, value)),
            Iter::Large(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Iter::Small(members) => members.size_hint(),
            Iter::Large(members) => members.size_hint(),
        }
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Iter::Small(members) => members.next_back().map(|(name, value)| (name, value)),
            Iter::Large(members) => members.next_back(),
        }
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// The members of a map, by name, with values to be changed.
#[derive(Debug)]
pub enum IterMut<'a> {
    #[doc(hidden)]
    Small(std::slice::IterMut<'a, (Text, Value)>),
    #[doc(hidden)]
    Large(btree_map::IterMut<'a, Text, Value>),
}

impl<'a> Iterator for IterMut<'a> {
    type Item = (&'a Text, &'a mut Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            IterMut::Small(members) => members.next().map(|(name, value)| (&*name, value)),
            IterMut::Large(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            IterMut::Small(members) => members.size_hint(),
            IterMut::Large(members) => members.size_hint(),
        }
    }
}

/// The members of a map that is taken apart, by name.
#[derive(Debug)]
pub enum IntoIter {
    #[doc(hidden)]
    Small(std::vec::IntoIter<(Text, Value)>),
    #[doc(hidden)]
    Large(btree_map::IntoIter<Text, Value>),
}

impl Iterator for IntoIter {
    type Item = (Text, Value);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            IntoIter::Small(members) => members.next(),
            IntoIter::Large(members) => members.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            IntoIter::Small(members) => members.size_hint(),
            IntoIter::Large(members) => members.size_hint(),
        }
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        match self.0.map(Arc::unwrap_or_clone) {
            None => IntoIter::Small(Vec::new().into_iter()),
            Some(Members::Small(members)) => IntoIter::Small(members.into_iter()),
            Some(Members::Large(members)) => IntoIter::Large(members.into_iter()),
        }
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Text, &'a Value);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Map {
    type Item = (&'a Text, &'a mut Value);
    type IntoIter = IterMut<'a>;

    fn into_iter(self) -> IterMut<'a> {
        self.iter_mut()
    }
}

impl<K: Into<Text>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(members: T) -> Self {
        Self::of(members.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl<K: Into<Text>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<T: IntoIterator<Item = (K, V)>>(&mut self, members: T) {
        for (name, value) in members {
            self.insert(name.into(), value.into());
        }
    }
}

impl ops::Index<&str> for Map {
    type Output = Value;

    /// # Panics
    /// If there is no such member.
    fn index(&self, name: &str) -> &Value {
        self.get(name).expect("the map has the member")
    }
}

impl ops::IndexMut<&str> for Map {
    /// # Panics
    /// If there is no such member.
    fn index_mut(&mut self, name: &str) -> &mut Value {
        self.get_mut(name).expect("the map has the member")
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Map {}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|member| member.hash(state));
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
