//! The current state: a counted B+ tree that is copied on write.
//!
//! Three things are asked of it at once, which no map at hand gives together: a snapshot for the price of a pointer
//! (a reader walks it without a lock, while writers go on), the number of keys in any range without walking it
//! (`remainingItemCount` of every page), and in-place writes while nobody holds a snapshot.
//!
//! Nodes are shared by `Arc`; a write copies the nodes on its path that somebody else holds, and changes the others
//! in place. A child's count stands beside the pointer to it, so that ranks need only one path.

use std::sync::Arc;

use crate::Entry;

/// Most entries of a leaf and children of an inner node. A copied leaf touches the reference count of each of its
/// entries, which bounds it from above; a million keys are four levels.
const WIDTH: usize = 32;
/// A node that has fewer is merged into its neighbour where both fit into one.
const NARROW: usize = WIDTH / 4;

/// Entries by key.
#[derive(Debug)]
pub(crate) struct Tree<H> {
    root: Arc<Node<H>>,
}

#[derive(Debug)]
enum Node<H> {
    Leaf(Vec<Arc<Entry<H>>>),
    Inner(Vec<Child<H>>),
}

#[derive(Debug)]
struct Child<H> {
    /// Not above any key in the child, and above all keys of the child before.
    first: Arc<str>,
    /// How many entries are below.
    count: usize,
    node: Arc<Node<H>>,
}

impl<H> Clone for Tree<H> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone() }
    }
}

impl<H> Clone for Node<H> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(entries) => Self::Leaf(with_room(entries)),
            Self::Inner(children) => Self::Inner(with_room(children)),
        }
    }
}

impl<H> Clone for Child<H> {
    fn clone(&self) -> Self {
        Self { first: self.first.clone(), count: self.count, node: self.node.clone() }
    }
}

/// A copy that can take the one element more which a node holds for a moment before it is split.
fn with_room<T: Clone>(items: &[T]) -> Vec<T> {
    let mut copy = Vec::with_capacity(WIDTH + 1);
    copy.extend_from_slice(items);
    copy
}

impl<H> Tree<H> {
    pub(crate) fn new() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())) }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry<H>>> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(entries) => return find(entries, key).ok().map(|at| &entries[at]),
                Node::Inner(children) => node = &children[slot(children, key.as_bytes())].node,
            }
        }
    }

    /// Puts an entry in the place of its key; gives what was there.
    pub(crate) fn insert(&mut self, entry: Arc<Entry<H>>) -> Option<Arc<Entry<H>>> {
        let (old, split) = insert(&mut self.root, entry);
        if let Some(right) = split {
            let left = Child::of(self.root.clone());
            let mut children = Vec::with_capacity(WIDTH + 1);
            children.extend([left, right]);
            self.root = Arc::new(Node::Inner(children));
        }
        old
    }

    /// Takes the entry of a key out.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Entry<H>>> {
        // A path is copied only for a key that is there.
        self.get(key)?;
        let old = remove(&mut self.root, key);
        while let Node::Inner(children) = &*self.root
            && let [only] = children.as_slice()
        {
            self.root = only.node.clone();
        }
        old
    }

    /// How many keys sort before this one.
    pub(crate) fn rank(&self, key: &[u8]) -> usize {
        let mut node = &*self.root;
        let mut before = 0;
        loop {
            match node {
                Node::Leaf(entries) => {
                    return before + entries.partition_point(|entry| entry.key.as_bytes() < key);
                }
                Node::Inner(children) => {
                    let at = slot(children, key);
                    before += children[..at].iter().map(|child| child.count).sum::<usize>();
                    node = &children[at].node;
                }
            }
        }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.root.count()
    }

    /// The entries from the key `from` on, up to but without `to`, at most `limit`.
    pub(crate) fn slice(&self, from: &[u8], to: Option<&[u8]>, limit: usize) -> Vec<Arc<Entry<H>>> {
        let mut out = Vec::new();
        if limit > 0 {
            collect(&self.root, Some(from), to, limit, &mut out);
        }
        out
    }
}

impl<H> Node<H> {
    fn count(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Inner(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    /// How many entries or children it has itself.
    fn width(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Inner(children) => children.len(),
        }
    }

    /// Takes over everything of the neighbour to its right.
    fn append(&mut self, right: Arc<Self>) {
        match (self, Arc::unwrap_or_clone(right)) {
            (Self::Leaf(left), Self::Leaf(right)) => left.extend(right),
            (Self::Inner(left), Self::Inner(right)) => left.extend(right),
            _ => unreachable!("neighbours are of one level"),
        }
    }
}

impl<H> Child<H> {
    fn of(node: Arc<Node<H>>) -> Self {
        let first = match &*node {
            Node::Leaf(entries) => entries[0].key.clone(),
            Node::Inner(children) => children[0].first.clone(),
        };
        Self { first, count: node.count(), node }
    }
}

fn find<H>(entries: &[Arc<Entry<H>>], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|entry| (*entry.key).cmp(key))
}

/// The child in which a key is, if it is anywhere.
fn slot<H>(children: &[Child<H>], key: &[u8]) -> usize {
    children.partition_point(|child| child.first.as_bytes() <= key).saturating_sub(1)
}

/// Inserts below `node`; gives what was replaced, and the right half where the node had to be split.
fn insert<H>(node: &mut Arc<Node<H>>, entry: Arc<Entry<H>>) -> (Option<Arc<Entry<H>>>, Option<Child<H>>) {
    match Arc::make_mut(node) {
        Node::Leaf(entries) => match find(entries, &entry.key) {
            Ok(at) => (Some(std::mem::replace(&mut entries[at], entry)), None),
            Err(at) => {
                entries.insert(at, entry);
                (None, split(entries, at).map(|right| Child::of(Arc::new(Node::Leaf(right)))))
            }
        },
        Node::Inner(children) => {
            let at = slot(children, entry.key.as_bytes());
            let child = &mut children[at];
            if entry.key < child.first {
                child.first = entry.key.clone();
            }
            let (old, right) = insert(&mut child.node, entry);
            child.count += usize::from(old.is_none());
            let Some(right) = right else { return (old, None) };
            child.count -= right.count;
            children.insert(at + 1, right);
            (old, split(children, at + 1).map(|right| Child::of(Arc::new(Node::Inner(right)))))
        }
    }
}

/// Cuts off the right part of a node that is too wide. Where the last insertion was at the end the left part stays
/// almost full: keys that come in order would else leave every node half empty.
fn split<T>(items: &mut Vec<T>, inserted: usize) -> Option<Vec<T>> {
    if items.len() <= WIDTH {
        return None;
    }
    let keep = if inserted + 1 == items.len() { WIDTH - NARROW } else { items.len() / 2 };
    let mut right = Vec::with_capacity(WIDTH + 1);
    right.extend(items.drain(keep..));
    Some(right)
}

fn remove<H>(node: &mut Arc<Node<H>>, key: &str) -> Option<Arc<Entry<H>>> {
    match Arc::make_mut(node) {
        Node::Leaf(entries) => find(entries, key).ok().map(|at| entries.remove(at)),
        Node::Inner(children) => {
            let at = slot(children, key.as_bytes());
            let old = remove(&mut children[at].node, key)?;
            children[at].count -= 1;
            if children[at].count == 0 && children.len() > 1 {
                children.remove(at);
            } else if children[at].node.width() < NARROW {
                merge_with_neighbour(children, at);
            }
            Some(old)
        }
    }
}

fn merge_with_neighbour<H>(children: &mut Vec<Child<H>>, at: usize) {
    let left = at.saturating_sub(1);
    let fits = |left: usize| {
        children
            .get(left + 1)
            .is_some_and(|right| children[left].node.width() + right.node.width() <= WIDTH - NARROW)
    };
    let Some(left) = [left, at].into_iter().find(|left| fits(*left)) else { return };
    let right = children.remove(left + 1);
    children[left].count += right.count;
    Arc::make_mut(&mut children[left].node).append(right.node);
}

/// Gives whether to go on.
fn collect<H>(
    node: &Node<H>,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    limit: usize,
    out: &mut Vec<Arc<Entry<H>>>,
) -> bool {
    match node {
        Node::Leaf(entries) => {
            let start = from.map_or(0, |from| entries.partition_point(|entry| entry.key.as_bytes() < from));
            let rest = &entries[start..];
            let end = to.map_or(rest.len(), |to| rest.partition_point(|entry| entry.key.as_bytes() < to));
            let taken = end.min(limit - out.len());
            out.extend_from_slice(&rest[..taken]);
            end == rest.len() && out.len() < limit
        }
        Node::Inner(children) => {
            let start = from.map_or(0, |from| slot(children, from));
            children[start..].iter().enumerate().all(|(nth, child)| {
                to.is_none_or(|to| nth == 0 || child.first.as_bytes() < to)
                    // Only the first child can hold keys before `from`.
                    && collect(&child.node, from.filter(|_| nth == 0), to, limit, out)
            })
        }
    }
}
