//! Union, intersection and differences of field sets, each in one pass over both.

use std::cmp::Ordering;

use super::{FieldSet, Node, PathElement};

/// The nodes of one element: in the left set, in the right set, or in both.
type Pair<'s> = (Option<&'s Node>, Option<&'s Node>);

impl FieldSet {
    /// The fields that are in either set.
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        self.zip(other, |pair| match pair {
            (Some(a), Some(b)) => Some(Node {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
            (one, None) | (None, one) => one.cloned(),
        })
    }

    /// The fields that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |pair| match pair {
            (Some(a), Some(b)) => {
                node(&a.element, a.member && b.member, a.children.intersection(&b.children))
            }
            _ => None,
        })
    }

    /// The fields that are in this set and not in the other. Removing `spec` leaves `spec.replicas`.
    pub fn difference(&self, other: &Self) -> Self {
        self.zip(other, |pair| match pair {
            (Some(a), Some(b)) => node(&a.element, a.member && !b.member, a.children.difference(&b.children)),
            (Some(a), None) => Some(a.clone()),
            (None, _) => None,
        })
    }

    /// The fields that are in this set, and neither in the other nor beneath a field of the other. Removing `spec` also removes
    /// `spec.replicas`.
    ///
    /// ```
    /// use evenkeel_schema::fieldset::FieldSet;
    /// let owned = FieldSet::of(&[&["spec", "replicas"], &["status", "replicas"]]);
    /// assert_eq!(owned.difference(&FieldSet::of(&[&["status"]])), owned);
    /// assert_eq!(owned.recursive_difference(&FieldSet::of(&[&["status"]])).to_string(), ".spec.replicas");
    /// ```
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.zip(other, |pair| match pair {
            (Some(_), Some(b)) if b.member => None,
            (Some(a), Some(b)) => node(&a.element, a.member, a.children.recursive_difference(&b.children)),
            (Some(a), None) => Some(a.clone()),
            (None, _) => None,
        })
    }

    /// The fields that have no field beneath them in the set.
    pub fn leaves(&self) -> Self {
        let nodes = self.nodes.iter().filter_map(|each| {
            node(&each.element, each.member && each.children.is_empty(), each.children.leaves())
        });
        Self { nodes: nodes.collect() }
    }

    /// Whether every field of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.nodes.iter().all(|node| {
            let Ok(at) = other.find(&node.element) else { return false };
            let there = &other.nodes[at];
            (there.member || !node.member) && node.children.is_subset(&there.children)
        })
    }

    fn zip(&self, other: &Self, mut join: impl FnMut(Pair<'_>) -> Option<Node>) -> Self {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.element.cmp(&b.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Self { nodes },
            };
            let pair = match order {
                Ordering::Less => (left.next(), None),
                Ordering::Greater => (None, right.next()),
                Ordering::Equal => (left.next(), right.next()),
            };
            nodes.extend(join(pair));
        }
    }
}

fn node(element: &PathElement, member: bool, children: FieldSet) -> Option<Node> {
    (member || !children.is_empty()).then(|| Node { element: element.clone(), member, children })
}
