//! Reading a tree: by path, and as a Rust value.

use std::borrow::Cow;

use crate::{Map, NULL, Text, Tree};

impl Tree {
    /// The value at a path: names joined by slashes, such as `spec/template/metadata`. A number is the index of an item
    /// of a list. In a name, `~1` stands for a slash and `~0` for a tilde, as in a JSON pointer. Null if there is none.
    ///
    /// ```
    /// use evenkeel_tree::tree;
    ///
    /// let node = tree!({"labels": tree!({"kubernetes.io/os": "linux"}), "taints": vec![tree!({"key": "a"})]});
    /// assert_eq!(node.at("labels/kubernetes.io~1os").as_str(), Some("linux"));
    /// assert_eq!(node.at("taints/0/key").as_str(), Some("a"));
    /// assert!(node.at("taints/1/key").is_null());
    /// ```
    pub fn at(&self, path: &str) -> &Tree {
        path.split('/').fold(self, |tree, step| match tree {
            Tree::Map(map) => map.get(&name_of(step)).unwrap_or(&NULL),
            Tree::List(items) => step.parse().ok().and_then(|index: usize| items.get(index)).unwrap_or(&NULL),
            _ => &NULL,
        })
    }

    /// The value of a member, whose name may contain slashes. Null if there is none.
    pub fn get(&self, name: &str) -> &Tree {
        self.as_map().and_then(|map| map.get(name)).unwrap_or(&NULL)
    }

    /// The text at a path.
    pub fn str(&self, path: &str) -> Option<&str> {
        self.at(path).as_str()
    }

    /// Whether the text at a path is this one.
    pub fn is(&self, path: &str, text: &str) -> bool {
        matches!(self.at(path), Tree::Text(found) if found.as_bytes() == text.as_bytes())
    }

    /// The whole number at a path.
    pub fn i64(&self, path: &str) -> Option<i64> {
        self.at(path).as_i64()
    }

    /// The whole number at a path, if it is an `i32`.
    pub fn i32(&self, path: &str) -> Option<i32> {
        self.i64(path).and_then(|number| number.try_into().ok())
    }

    /// Whether there is `true` at a path.
    pub fn is_true(&self, path: &str) -> bool {
        matches!(self.at(path), Tree::Bool(true))
    }

    /// Whether there is anything but null at a path.
    pub fn has(&self, path: &str) -> bool {
        !self.at(path).is_null()
    }

    /// The items of the list at a path; none if there is no list.
    pub fn list(&self, path: &str) -> &[Tree] {
        self.at(path).items()
    }

    /// The names and values of the map at a path, by name; none if there is no map.
    pub fn entries(&self, path: &str) -> impl Iterator<Item = (&str, &Tree)> {
        self.at(path).members()
    }

    /// The names and values of this map, by name; none if this is not a map.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Tree)> {
        self.as_map().into_iter().flat_map(Map::iter)
    }

    /// The texts in the list at a path.
    pub fn texts(&self, path: &str) -> impl Iterator<Item = &str> {
        self.list(path).iter().filter_map(Tree::as_str)
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Tree::Text(text) => Some(Text::as_str(text)),
            _ => None,
        }
    }

    /// The whole number, if this is one.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Tree::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The items, if this is a list; none otherwise.
    pub fn items(&self) -> &[Tree] {
        match self {
            Tree::List(items) => items,
            _ => &[],
        }
    }

    /// The map, if this is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Tree::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Tree::Null)
    }

    /// Whether this is null, or a map, a list or a text without content.
    pub fn is_empty(&self) -> bool {
        match self {
            Tree::Null => true,
            Tree::Text(text) => text.is_empty(),
            Tree::List(items) => items.is_empty(),
            Tree::Map(map) => map.is_empty(),
            _ => false,
        }
    }
}

/// The name that a step of a path stands for.
pub(crate) fn name_of(step: &str) -> Cow<'_, str> {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}
