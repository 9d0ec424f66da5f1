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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(number: u16, revision: u64) -> Arc<Entry<()>> {
        let key = format!("/k/{number:05}").into();
        Arc::new(Entry { key, value: "v".into(), header: (), create_revision: revision, revision })
    }

    /// What must hold of every node, whatever was done.
    fn check_node(node: &Node<()>, is_root: bool) -> usize {
        match node {
            Node::Leaf(entries) => {
                assert!(entries.is_sorted_by(|a, b| a.key < b.key) && entries.len() <= WIDTH);
                assert!(is_root || !entries.is_empty());
                entries.len()
            }
            Node::Inner(children) => {
                assert!(children.len() <= WIDTH && (!is_root || children.len() > 1));
                assert!(children.is_sorted_by(|a, b| a.first < b.first));
                for child in children {
                    assert_eq!(child.count, check_node(&child.node, false));
                }
                children.iter().map(|child| child.count).sum()
            }
        }
    }

    fn check(tree: &Tree<()>, model: &BTreeMap<Arc<str>, u64>) {
        assert_eq!(check_node(&tree.root, true), model.len());
        let found = tree.slice(b"", None, usize::MAX);
        assert!(found.iter().map(|entry| (&entry.key, &entry.revision)).eq(model.iter()));
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Inserts so many keys from one on, each so far from the last.
        Insert {
            from: u16,
            count: u16,
            stride: u16,
        },
        Remove {
            from: u16,
            count: u16,
            stride: u16,
        },
        Hold,
        Look {
            from: u16,
            to: u16,
            limit: usize,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let run = || (0..2000u16, 1..400u16, 1..7u16);
        prop_oneof![
            3 => run().prop_map(|(from, count, stride)| Step::Insert { from, count, stride }),
            3 => run().prop_map(|(from, count, stride)| Step::Remove { from, count, stride }),
            1 => Just(Step::Hold),
            2 => (0..3000u16, 0..3000u16, 0..200usize).prop_map(|(from, to, limit)| Step::Look { from, to, limit }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn it_is_a_counted_map_and_its_copies_stay(steps in prop::collection::vec(step(), 1..40)) {
            let (mut tree, mut model, mut held) = (Tree::new(), BTreeMap::new(), Vec::new());
            for (revision, step) in (1u64..).zip(steps) {
                let numbers = |from: u16, count: u16, stride: u16| (0..count).map(move |nth| from + nth * stride);
                match step {
                    Step::Insert { from, count, stride } => for number in numbers(from, count, stride) {
                        let new = entry(number, revision);
                        let old = tree.insert(new.clone()).map(|old| old.revision);
                        prop_assert_eq!(old, model.insert(new.key.clone(), revision));
                    },
                    Step::Remove { from, count, stride } => for number in numbers(from, count, stride) {
                        let key = entry(number, 0).key.clone();
                        prop_assert_eq!(tree.remove(&key).map(|old| old.revision), model.remove(&key));
                        prop_assert!(tree.get(&key).is_none());
                    },
                    Step::Hold => held.push((tree.clone(), model.clone())),
                    Step::Look { from, to, limit } => {
                        let (from, to) = (entry(from, 0).key.clone(), entry(to, 0).key.clone());
                        prop_assert_eq!(tree.rank(from.as_bytes()), model.range(..from.clone()).count());
                        let found = tree.slice(from.as_bytes(), Some(to.as_bytes()), limit);
                        let expected = model.iter().filter(|(key, _)| **key >= from && **key < to).take(limit);
                        prop_assert!(found.iter().map(|entry| &entry.key).eq(expected.map(|(key, _)| key)));
                    }
                }
                check(&tree, &model);
            }
            held.iter().for_each(|(tree, model)| check(tree, model));
        }
    }
}
