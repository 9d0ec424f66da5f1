//! Sets of fields: who owns what, as `metadata.managedFields` records it.
//!
//! A [`FieldSet`] is a tree. Each node is named by a [`PathElement`] and may be a *member* (the field itself is
//! in the set), have children (fields beneath it are), or both. Nodes are kept sorted, and a node that is neither
//! a member nor has children is never kept, so that equal sets are equal values.

mod algebra;
mod element;
mod stored;
mod text;

use std::fmt;

pub use element::{Path, PathElement};
pub(crate) use stored::{Place, children, has_children, is_member};
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

    /// How many fields are in the set.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Adds one field, not its parents. The empty path is the whole object, which nobody owns.
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

    /// What the set holds beneath an element; `None` where it holds nothing there.
    pub fn child(&self, element: &PathElement) -> Option<&FieldSet> {
        let node = &self.nodes[self.find(element).ok()?];
        (!node.children.is_empty()).then_some(&node.children)
    }

    /// Every field in the set. Fields of one level come before what lies beneath them, as Kubernetes lists them.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    /// Adds what was found at an element: itself, and fields beneath it.
    pub(crate) fn put(&mut self, element: PathElement, member: bool, children: FieldSet) {
        if !member && children.is_empty() {
            return;
        }
        match self.nodes.last() {
            // What walks a sorted map comes in order.
            Some(last) if last.element >= element => {
                let node = self.node(&element);
                node.member |= member;
                node.children = std::mem::take(&mut node.children).union(&children);
            }
            _ => self.nodes.push(Node { element, member, children }),
        }
    }

    /// The elements at the top of the set: name, whether it is a member, and what lies beneath.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&PathElement, bool, &FieldSet)> {
        self.nodes.iter().map(|node| (&node.element, node.member, &node.children))
    }

    /// What the set has at an element: whether it is a member, and what lies beneath.
    pub(crate) fn entry(&self, element: &PathElement) -> Option<(bool, &FieldSet)> {
        let node = &self.nodes[self.find(element).ok()?];
        Some((node.member, &node.children))
    }

    /// The same, by value.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (PathElement, bool, FieldSet)> {
        self.nodes.into_iter().map(|node| (node.element, node.member, node.children))
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

/// One field per line.
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
