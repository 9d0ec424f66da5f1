//! The keys of the items of an associative list, without copies.

use std::cmp::Ordering;

use evenkeel_scalars::go;

use super::typed::ListView;
use crate::fieldset::{PathElement, write_key, write_value};
use crate::json::{self, Value};
use crate::types;

/// Identifies an item: by its key fields, or by its value if the list is a set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'v> {
    list: ListView<'v>,
    item: &'v Value,
    /// The value of the first key field, looked up once: it is nearly always the only one.
    first: Option<&'v Value>,
}

impl<'v> Key<'v> {
    /// The key of an item; an error if the item has no key.
    pub(super) fn of(list: ListView<'v>, item: &'v Value) -> Result<Self, String> {
        let Some(names) = list.key_names() else {
            return list.check_set_item(item).map(|()| Self { list, item, first: Some(item) });
        };
        let mut key = Self { list, item, first: None };
        key.first = names.first().and_then(|name| key.look_up(name));
        if key.first.is_some() || names.iter().skip(1).any(|name| key.look_up(name).is_some()) {
            return list.check_keyed_item(item).map(|()| key);
        }
        list.check_keyed_item(item)?;
        Err(no_key(names))
    }

    /// The key as a path element.
    pub(super) fn element(self) -> PathElement {
        match self.list.key_names() {
            None => PathElement::Value(self.item.clone()),
            Some(_) => {
                let fields = self.fields().map(|(name, value)| (Box::from(name), value.clone()));
                PathElement::key(fields.collect())
            }
        }
    }

    /// Writes the key in the format of `fieldsV1`.
    pub(super) fn write(self, text: &mut String) {
        match self.list.key_names() {
            None => write_value(self.item, text),
            Some([_]) => write_key(self.fields(), text),
            Some(_) => {
                let mut fields: Vec<(&str, &Value)> = self.fields().collect();
                fields.sort_by_key(|(name, _)| *name);
                write_key(fields.into_iter(), text);
            }
        }
    }

    /// The key fields that the item has, in the order of the schema.
    fn fields(self) -> impl Iterator<Item = (&'v str, &'v Value)> {
        let names = self.list.key_names().unwrap_or_default();
        names.iter().filter_map(move |name| self.look_up(name).map(|value| (name.as_ref(), value)))
    }

    fn look_up(&self, name: &str) -> Option<&'v Value> {
        self.item.get(name).or_else(|| self.list.key_default(name))
    }
}

fn no_key(names: &[types::Text]) -> String {
    let quoted: Vec<_> = names.iter().map(|key| go::quote(key)).collect();
    format!(
        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
         values for any key fields)",
        quoted.join(" ")
    )
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let compare = |a: Option<&Value>, b: Option<&Value>| match (a, b) {
            (Some(a), Some(b)) => json::compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        let first = compare(self.first, other.first);
        let rest = self.list.key_names().unwrap_or_default().iter().skip(1);
        rest.fold(first, |order, name| order.then_with(|| compare(self.look_up(name), other.look_up(name))))
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key<'_> {}

/// The items of a list by their keys.
#[derive(Debug)]
pub(super) struct Index<'v> {
    /// Sorted by key, then by position.
    by_key: Vec<(Key<'v>, usize)>,
}

impl<'v> Index<'v> {
    /// Indexes a list; an error if an item has no key.
    pub(super) fn of(list: ListView<'v>, items: &'v [Value]) -> Result<Self, String> {
        let key = |(at, item): (usize, &'v Value)| match Key::of(list, item) {
            Ok(key) => Ok((key, at)),
            Err(message) => Err(format!("element {at}: {message}")),
        };
        let by_key: Result<Vec<_>, String> = items.iter().enumerate().map(key).collect();
        Ok(Self::sorted(by_key?))
    }

    /// Indexes a list without the items that have no key.
    pub(super) fn new(list: ListView<'v>, items: &'v [Value]) -> Self {
        let keys = items.iter().enumerate().filter_map(|(at, item)| Key::of(list, item).ok().zip(Some(at)));
        Self::sorted(keys.collect())
    }

    fn sorted(mut by_key: Vec<(Key<'v>, usize)>) -> Self {
        if !by_key.is_sorted() {
            by_key.sort_unstable();
        }
        Self { by_key }
    }

    /// Whether two items have equal keys.
    pub(super) fn has_duplicates(&self) -> bool {
        self.by_key.windows(2).any(|pair| pair[0].0 == pair[1].0)
    }

    /// The positions of the items whose key an earlier item has.
    pub(super) fn duplicates(&self) -> Vec<usize> {
        let mut found: Vec<usize> =
            self.by_key.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).collect();
        found.sort_unstable();
        found
    }

    /// The positions of the items with this key.
    pub(super) fn find(&self, key: Key<'v>) -> &[(Key<'v>, usize)] {
        let from = self.by_key.partition_point(|(each, _)| each.cmp(&key).is_lt());
        let many = self.by_key[from..].iter().take_while(|(each, _)| each.cmp(&key).is_eq()).count();
        &self.by_key[from..from + many]
    }

    /// The items in the order of their keys.
    pub(super) fn into_sorted(self) -> Vec<(Key<'v>, usize)> {
        self.by_key
    }
}
