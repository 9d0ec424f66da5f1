//! A compact, immutable JSON tree that is cheap to share.
//!
//! A [`Tree`] holds an object whose type is not known at compile time. A clone copies a pointer, a text of up to
//! [`Text::INLINE_MAX`] bytes needs no allocation, and a map is one slice of sorted pairs, without spare capacity. A
//! `serde_json::Value` of a pod allocates several times as much.
//!
//! Readers name a value by its *path*: the names on the way to it, joined by slashes. A missing value reads as null, so
//! that a path needs no check at each step.
//!
//! ```
//! use evenkeel_tree::{Tree, tree};
//!
//! let pod: Tree = serde_json::from_str(r#"{"spec": {"nodeName": "a", "containers": [{"name": "web"}]}}"#)?;
//! assert_eq!(pod.str("spec/nodeName"), Some("a"));
//! assert_eq!(pod.list("spec/containers").len(), 1);
//! assert_eq!(pod.i32("spec/priority"), None);
//!
//! let mut moved = pod.clone(); // shares everything with `pod`
//! moved.set("spec/nodeName", "b");
//! assert_eq!((moved.str("spec/nodeName"), pod.str("spec/nodeName")), (Some("b"), Some("a")));
//! assert_eq!(tree!({"image": "nginx", "args": None::<&str>}), tree!({"image": "nginx"}));
//! # Ok::<_, serde_json::Error>(())
//! ```
//!
//! [`value::Value`] is the other tree of this crate, for code that changes objects in place, as the API server does.
//!
//! *Invariants:* no Kubernetes kind is known here; no IO; a tree never changes once it is shared.

mod convert;
mod map;
mod read;
mod serde_impl;
mod text;
pub mod value;
mod write;

pub use map::Map;
pub use serde_impl::WithoutNulls;
pub use text::Text;

use std::fmt;
use std::sync::Arc;

/// A JSON value made of immutable parts, which clones share.
///
/// Two trees are equal if they have the same members and items. As in `serde_json`, `1` and `1.0` differ.
///
/// ```
/// use evenkeel_tree::{Tree, tree};
///
/// let tree = tree!({"replicas": 3, "paused": false});
/// assert_eq!(tree.to_string(), r#"{"paused":false,"replicas":3}"#);
/// assert_eq!(tree, serde_json::from_str::<Tree>(r#"{"replicas": 3, "paused": false}"#)?);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Default, PartialEq)]
pub enum Tree {
    /// `null`, and any missing value.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A whole number above `i64::MAX`.
    Unsigned(u64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// A string.
    Text(Text),
    /// A list.
    List(Arc<[Tree]>),
    /// A map.
    Map(Map),
}

/// The result of reading a path without a value.
static NULL: Tree = Tree::Null;

/// Makes a [`Tree`] that is a map. A member whose value is null is left out, as Kubernetes leaves out empty fields.
///
/// A value is anything that becomes a tree: numbers, texts, options, lists, other trees.
///
/// ```
/// use evenkeel_tree::tree;
///
/// let condition = tree!({"type": "Ready", "status": "True", "reason": None::<String>});
/// let status = tree!({"conditions": vec![condition]});
/// assert_eq!(status.to_string(), r#"{"conditions":[{"status":"True","type":"Ready"}]}"#);
/// ```
#[macro_export]
macro_rules! tree {
    ({ $($name:tt : $value:expr),* $(,)? }) => {
        $crate::Tree::map(vec![$(($crate::Text::from($name), $crate::Tree::from($value))),*])
    };
}

impl Tree {
    /// Makes a map of these members. If a name occurs twice, the last value counts. Members that are null are left out.
    pub fn map(mut members: Vec<(Text, Tree)>) -> Self {
        members.retain(|(_, value)| !value.is_null());
        Self::Map(Map::new(members))
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
