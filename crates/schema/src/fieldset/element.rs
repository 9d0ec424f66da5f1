//! The elements of a path to a field, ordered and printed as in Kubernetes.

use std::cmp::Ordering;
use std::fmt;

use crate::json::{self, Value};

/// One step of a path: from a value to a part of it.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of an object, or a key of a map.
    Field(Box<str>),
    /// An item of a list of type `map`: its key fields, sorted by name.
    Key(Vec<(Box<str>, Value)>),
    /// An item of a list of type `set`.
    Value(Value),
    /// An item of a list, by its index.
    Index(i64),
}

impl PathElement {
    /// The field with this name.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The item with these key fields.
    pub fn key(mut fields: Vec<(Box<str>, Value)>) -> Self {
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Self::Key(fields)
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(a, b),
            (Self::Value(a), Self::Value(b)) => json::compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_keys(a: &[(Box<str>, Value)], b: &[(Box<str>, Value)]) -> Ordering {
    a.iter()
        .zip(b)
        .map(|((a_name, a), (b_name, b))| a_name.cmp(b_name).then_with(|| json::compare(a, b)))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

// Equality follows the order, in which 1 and 1.0 are equal.
impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(name, value)| format!("{name}={}", json::path_text(value))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", json::path_text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// The path from an object to one of its fields.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Path(pub Vec<PathElement>);

/// Prints the path as conflicts show it, such as `.spec.containers[name="web"].image`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}
