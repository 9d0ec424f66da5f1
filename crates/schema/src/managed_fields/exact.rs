//! Finds out whether a configuration has exactly the fields that its manager already owns.
//!
//! Controllers apply the same fields again and again with other values. Walking the configuration and the stored `fieldsV1`
//! side by side detects that without building a field set.

use super::items::Key;
use super::typed::{Atom, ListView, MapView, Node};
use crate::fieldset::{children, has_children, is_member};
use crate::json::{Map, Text, Value};

/// The fields of the metadata that are never managed.
pub(super) const IDENTITY: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Whether a configuration has exactly the fields of `fieldsV1`. It may return false for equal sets, never true for
/// different ones.
pub(super) fn owns_exactly(node: Node<'_>, config: &Value, owned: &Value) -> bool {
    let (Atom::Map(map), Value::Object(fields)) = (node.declared(), config) else { return false };
    let top = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind"));
    let mut walk = Walk { key: String::new() };
    walk.fields(map, top, owned, |walk, name, node, value, owned| match (name, value, node.declared()) {
        ("metadata", Value::Object(metadata), Atom::Map(map)) => walk.metadata(map, metadata, owned),
        _ => walk.value(node, value, owned).map(|parts| (false, parts)),
    })
    .is_some()
}

/// The result of comparing one element: whether it is a member, and whether there are fields beneath; `None` if the
/// configuration and the set differ.
type Seen = Option<(bool, bool)>;

struct Walk {
    /// A scratch buffer for keys.
    key: String,
}

impl Walk {
    /// Compares the fields of a map. Returns whether there are any.
    fn fields<'c>(
        &mut self,
        map: MapView<'_>,
        fields: impl Iterator<Item = (&'c Text, &'c Value)>,
        owned: &Value,
        visit: impl Fn(&mut Self, &str, Node<'_>, &Value, Option<&Value>) -> Option<(bool, (bool, bool))>,
    ) -> Option<bool> {
        let mut left = children(owned);
        let mut any = false;
        let mut next = left.next();
        for (name, value) in fields {
            let (node, named) = map.field(name)?;
            let there = next.filter(|(key, _)| key.strip_prefix("f:") == Some(name)).map(|(_, owned)| owned);
            let (hidden, (member, beneath)) = visit(self, name, node, value, there)?;
            let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
            let member = !hidden && (member || empty || !named);
            if !agree(there, member, beneath) {
                return None;
            }
            if there.is_some() {
                any = true;
                next = left.next();
            }
        }
        next.is_none().then_some(any)
    }

    fn metadata(
        &mut self,
        map: MapView<'_>,
        metadata: &Map,
        owned: Option<&Value>,
    ) -> Option<(bool, (bool, bool))> {
        let fields = metadata.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str()));
        let beneath =
            self.fields(map, fields, owned.unwrap_or(&Value::Null), |walk, _, node, value, owned| {
                walk.value(node, value, owned).map(|seen| (false, seen))
            })?;
        Some((true, (false, beneath)))
    }

    fn value(&mut self, node: Node<'_>, value: &Value, owned: Option<&Value>) -> Seen {
        let owned = owned.unwrap_or(&Value::Null);
        match (node.atom(Some(value)), value) {
            (Atom::Scalar(_), _) => Some((true, false)),
            (Atom::Map(map), _) if map.atomic => Some((true, false)),
            (Atom::List(list), _) if list.atomic => Some((true, false)),
            (Atom::Map(map), Value::Object(object)) => {
                let beneath = self.fields(map, object.iter(), owned, |walk, _, node, value, owned| {
                    walk.value(node, value, owned).map(|seen| (false, seen))
                })?;
                Some((false, beneath))
            }
            (Atom::List(list), Value::Array(items)) => {
                self.items(list, items, owned).map(|beneath| (false, beneath))
            }
            _ => Some((false, false)),
        }
    }

    /// Compares the items of a list. The configuration has no items with equal keys: they were refused before.
    fn items(&mut self, list: ListView<'_>, items: &[Value], owned: &Value) -> Option<bool> {
        let many = children(owned).count();
        if many != items.len() {
            return None;
        }
        for item in items {
            self.key.clear();
            Key::of(list, item).ok()?.write(&mut self.key);
            let there = owned.get(self.key.as_str())?;
            let (_, beneath) = self.value(list.items(), item, Some(there))?;
            if !agree(Some(there), true, beneath) {
                return None;
            }
        }
        Some(!items.is_empty())
    }
}

/// Whether a node of `fieldsV1`, or its absence, matches the configuration.
fn agree(owned: Option<&Value>, member: bool, beneath: bool) -> bool {
    match owned {
        None => !member && !beneath,
        Some(owned) => is_member(owned) == member && has_children(owned) == beneath,
    }
}
