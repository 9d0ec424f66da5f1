//! Sets of fields, as `metadata.managedFields` records them for each field manager.
//!
//! A [`FieldSet`] is a tree. Each node is named by a [`PathElement`]. A node is a *member* if its field is in the set;
//! its children are the fields beneath. Nodes are sorted, and a node that is not a member has children, so that equal
//! sets are equal values.

mod algebra;
mod element;
mod stored;
mod text;

use std::fmt;

pub use element::{Path, PathElement};
pub(crate) use stored::{Cursor, children, has_children, is_member};
pub use text::FieldSetError;
pub(crate) use text::{write_key, write_value};

/// A set of fields of an object.
///
/// ```
/// use evenkeel_schema::fieldset::FieldSet;
/// let set: FieldSet = r#"{"f:spec":{"f:replicas":{}}}"#.parse().unwrap();
/// assert_eq!(set.paths()[0].to_string(), ".spec.replicas");
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldSet {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    element: PathElement,
    member: bool,
    children: FieldSet,
}

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of the given fields, each a chain of field names.
    ///
    /// ```
    /// use evenkeel_schema::fieldset::FieldSet;
    /// assert_eq!(FieldSet::of(&[&["spec"], &["metadata", "labels"]]).len(), 2);
    /// ```
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether no field is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of fields in the set.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Adds one field, without its parents. The empty path denotes the whole object, which is never in a set.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.node(last).member = true,
            [first, rest @ ..] => self.node(first).children.insert(rest),
        }
    }

    /// Whether the field itself is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.has_element(last),
            [first, rest @ ..] => self.child(first).is_some_and(|child| child.has(rest)),
        }
    }

    /// Whether the field of this name, at the top of the set, is in it.
    pub fn has_element(&self, element: &PathElement) -> bool {
        self.find(element).is_ok_and(|at| self.nodes[at].member)
    }

    /// The fields of the set beneath an element; `None` if there are none.
    pub fn child(&self, element: &PathElement) -> Option<&FieldSet> {
        let node = &self.nodes[self.find(element).ok()?];
        (!node.children.is_empty()).then_some(&node.children)
    }

    /// Every field in the set. The fields of one level come before those beneath them, as in Kubernetes.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    /// Adds an element: whether it is a member, and the fields beneath it.
    pub(crate) fn put(&mut self, element: PathElement, member: bool, children: FieldSet) {
        if !member && children.is_empty() {
            return;
        }
        match self.nodes.last() {
            // Callers that walk a sorted map add elements in order, so that the binary search is rarely needed.
            Some(last) if last.element >= element => {
                let node = self.node(&element);
                node.member |= member;
                node.children = std::mem::take(&mut node.children).union(&children);
            }
            _ => self.nodes.push(Node { element, member, children }),
        }
    }

    /// The elements at the top of the set: name, whether it is a member, and the fields beneath.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&PathElement, bool, &FieldSet)> {
        self.nodes.iter().map(|node| (&node.element, node.member, &node.children))
    }

    /// One element at the top of the set: whether it is a member, and the fields beneath.
    pub(crate) fn entry(&self, element: &PathElement) -> Option<(bool, &FieldSet)> {
        let node = &self.nodes[self.find(element).ok()?];
        Some((node.member, &node.children))
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    fn node(&mut self, element: &PathElement) -> &mut Node {
        let at = self.find(element).unwrap_or_else(|at| {
            self.nodes.insert(at, Node { element: element.clone(), member: false, children: Self::new() });
            at
        });
        &mut self.nodes[at]
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Path>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            prefix.push(node.element.clone());
            paths.push(Path(prefix.clone()));
            prefix.pop();
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.children.collect(prefix, paths);
            prefix.pop();
        }
    }
}

/// Prints one field per line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, path) in self.paths().iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{path}")?;
        }
        Ok(())
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }
}
