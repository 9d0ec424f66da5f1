//! Lists, shared by their clones.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::Value;

/// A list of values. It reads and changes like a vector; changing a shared list copies it.
///
/// ```
/// use evenkeel_tree::value::{List, Value};
///
/// let list = List::from(vec![Value::from(1)]);
/// let mut longer = list.clone();
/// longer.push(2.into());
/// assert_eq!((list.len(), longer.len()), (1, 2));
/// ```
#[derive(Clone, Default)]
pub struct List(Option<Arc<Vec<Value>>>);

/// The items of a list without an allocation.
static EMPTY: Vec<Value> = Vec::new();

impl List {
    /// Whether the two lists are one.
    pub(super) fn is_shared_with(&self, other: &List) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => self.is_empty() && other.is_empty(),
        }
    }

    /// The items as a vector, copied if the list is shared.
    pub fn into_vec(self) -> Vec<Value> {
        self.0.map(Arc::unwrap_or_clone).unwrap_or_default()
    }
}

impl Deref for List {
    type Target = Vec<Value>;

    fn deref(&self) -> &Vec<Value> {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut Vec<Value> {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || **self == **other
    }
}

impl Eq for List {}

impl Hash for List {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self((!items.is_empty()).then(|| Arc::new(items)))
    }
}

impl FromIterator<Value> for List {
    fn from_iter<T: IntoIterator<Item = Value>>(items: T) -> Self {
        items.into_iter().collect::<Vec<_>>().into()
    }
}

impl IntoIterator for List {
    type Item = Value;
    type IntoIter = std::vec::IntoIter<Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut List {
    type Item = &'a mut Value;
    type IntoIter = std::slice::IterMut<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
