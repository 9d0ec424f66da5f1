//! A counted B+ tree with copy-on-write nodes.
//!
//! It offers three things that no available map combines: a snapshot for the price of a pointer (a reader walks it without
//! a lock while writers continue), the weight of any range without walking it (for the `remainingItemCount` of a page), and
//! writes in place while there is no snapshot.
//!
//! Nodes are shared by `Arc`. A write copies the nodes on its path that a snapshot shares, and changes the others in place.
//! The weight of a child is stored beside the pointer to it, so that a rank needs only one path.

use std::sync::Arc;

/// The most items of a leaf, and the most children of an inner node. Copying a leaf changes the reference count of each
/// item, so that a leaf must not be large. A million items need four levels.
const WIDTH: usize = 32;
/// A node with fewer items is merged with a neighbour if both fit into one node.
const NARROW: usize = WIDTH / 4;

/// An item of a tree.
pub(crate) trait Item: Clone {
    /// The name, by which items are ordered.
    fn name(&self) -> &[u8];

    /// The [`start_of`] the name. It is stored in the item: the name is elsewhere in memory, and a search need not read most
    /// of the names that it passes.
    fn start(&self) -> u64;

    /// The weight of the item in counts.
    fn weight(&self) -> usize;
}

/// Items by name.
#[derive(Clone, Debug)]
pub(crate) struct Tree<T> {
    root: Arc<Node<T>>,
}

#[derive(Debug)]
enum Node<T> {
    Leaf(Vec<T>),
    Inner(Vec<Child<T>>),
}

#[derive(Debug)]
struct Child<T> {
    /// The start of `first`.
    start: u64,
    /// A name that is not above any name in the child, and above all names of the child before.
    first: Arc<[u8]>,
    /// The weight of the items below.
    weight: usize,
    node: Arc<Node<T>>,
}

impl<T: Clone> Clone for Node<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(items) => Self::Leaf(with_room(items)),
            Self::Inner(children) => Self::Inner(with_room(children)),
        }
    }
}

impl<T> Clone for Child<T> {
    fn clone(&self) -> Self {
        Self { start: self.start, first: self.first.clone(), weight: self.weight, node: self.node.clone() }
    }
}

/// Copies items with room for the one extra element that a node has before it is split.
fn with_room<T: Clone>(items: &[T]) -> Vec<T> {
    let mut copy = Vec::with_capacity(WIDTH + 1);
    copy.extend_from_slice(items);
    copy
}

impl<T: Item> Tree<T> {
    pub(crate) fn new() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())) }
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&T> {
        let start = start_of(name);
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => return get(items, start, name),
                Node::Inner(children) => node = &children[slot_of(children, start, name)].node,
            }
        }
    }

    /// Inserts an item. Returns the item that had its name.
    pub(crate) fn insert(&mut self, item: T) -> Option<T> {
        let (old, split) = insert(&mut self.root, item);
        if let Some(right) = split {
            let left = Child::of(self.root.clone());
            let mut children = Vec::with_capacity(WIDTH + 1);
            children.extend([left, right]);
            self.root = Arc::new(Node::Inner(children));
        }
        old
    }

    /// Changes an item in place; the name must stay the same. Returns `None` if there is no such item; nodes may have been
    /// copied in vain then.
    pub(crate) fn modify<R>(&mut self, name: &[u8], change: impl FnOnce(&mut T) -> R) -> Option<R> {
        modify(&mut self.root, name, change).map(|(result, _)| result)
    }

    /// Removes an item.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<T> {
        // Nodes are copied only if the item exists.
        self.get(name)?;
        let old = remove(&mut self.root, name);
        while let Node::Inner(children) = &*self.root
            && let [only] = children.as_slice()
        {
            self.root = only.node.clone();
        }
        old
    }

    /// Returns the weight of the items before this name.
    pub(crate) fn rank(&self, name: &[u8]) -> usize {
        let mut node = &*self.root;
        let mut before = 0;
        loop {
            match node {
                Node::Leaf(items) => {
                    let end = place(items, name);
                    return before + items[..end].iter().map(Item::weight).sum::<usize>();
                }
                Node::Inner(children) => {
                    let at = slot(children, name);
                    before += children[..at].iter().map(|child| child.weight).sum::<usize>();
                    node = &children[at].node;
                }
            }
        }
    }

    /// Returns the weight of all items.
    pub(crate) fn weight(&self) -> usize {
        self.root.weight()
    }

    /// Calls `each` with the items from a name on, in order, until it returns false.
    pub(crate) fn walk<'a>(&'a self, from: &[u8], each: &mut impl FnMut(&'a T) -> bool) {
        walk(&self.root, Some(from), each);
    }
}

impl<T: Item> Node<T> {
    fn weight(&self) -> usize {
        match self {
            Self::Leaf(items) => items.iter().map(Item::weight).sum(),
            Self::Inner(children) => children.iter().map(|child| child.weight).sum(),
        }
    }

    /// Returns the number of items or children of this node.
    fn width(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Inner(children) => children.len(),
        }
    }

    /// Appends the items or children of the right neighbour.
    fn append(&mut self, right: Arc<Self>) {
        match (self, Arc::unwrap_or_clone(right)) {
            (Self::Leaf(left), Self::Leaf(right)) => left.extend(right),
            (Self::Inner(left), Self::Inner(right)) => left.extend(right),
            _ => unreachable!("neighbours have the same level"),
        }
    }
}

impl<T: Item> Child<T> {
    fn of(node: Arc<Node<T>>) -> Self {
        let (start, first) = match &*node {
            Node::Leaf(items) => (items[0].start(), items[0].name().into()),
            Node::Inner(children) => (children[0].start, children[0].first.clone()),
        };
        Self { start, first, weight: node.weight(), node }
    }
}

/// Returns the first eight bytes of a name as a number. If two differ, they are ordered as their names are.
pub(crate) fn start_of(name: &[u8]) -> u64 {
    match name.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..name.len()].copy_from_slice(name);
            u64::from_be_bytes(first)
        }
    }
}

/// Returns the item with a name. Starts are compared before names are read; mostly they suffice.
fn get<'a, T: Item>(items: &'a [T], start: u64, name: &[u8]) -> Option<&'a T> {
    let items = &items[items.partition_point(|item| item.start() < start)..];
    let first = items.first().filter(|first| first.start() == start)?;
    if first.name() == name {
        return Some(first);
    }
    find(items, name).ok().map(|at| &items[at])
}

fn find<T: Item>(items: &[T], name: &[u8]) -> Result<usize, usize> {
    let start = start_of(name);
    items.binary_search_by(|item| item.start().cmp(&start).then_with(|| item.name().cmp(name)))
}

/// Returns the position at which a name is or would be.
fn place<T: Item>(items: &[T], name: &[u8]) -> usize {
    find(items, name).unwrap_or_else(|at| at)
}

/// Returns the index of the child that may contain a name.
fn slot<T>(children: &[Child<T>], name: &[u8]) -> usize {
    slot_of(children, start_of(name), name)
}

/// Returns the index of the child that may contain a name whose start is known.
fn slot_of<T>(children: &[Child<T>], start: u64, name: &[u8]) -> usize {
    let before = |child: &Child<T>| child.start < start || child.start == start && &*child.first <= name;
    children.partition_point(before).saturating_sub(1)
}

/// Inserts an item below `node`. Returns the replaced item, and the right half if the node was split.
fn insert<T: Item>(node: &mut Arc<Node<T>>, item: T) -> (Option<T>, Option<Child<T>>) {
    match Arc::make_mut(node) {
        Node::Leaf(items) => match find(items, item.name()) {
            Ok(at) => (Some(std::mem::replace(&mut items[at], item)), None),
            Err(at) => {
                items.insert(at, item);
                (None, split(items, at).map(|right| Child::of(Arc::new(Node::Leaf(right)))))
            }
        },
        Node::Inner(children) => {
            let at = slot(children, item.name());
            let child = &mut children[at];
            if item.name() < &*child.first {
                (child.start, child.first) = (item.start(), item.name().into());
            }
            child.weight += item.weight();
            let (old, right) = insert(&mut child.node, item);
            child.weight -= old.as_ref().map_or(0, Item::weight);
            let Some(right) = right else { return (old, None) };
            child.weight -= right.weight;
            children.insert(at + 1, right);
            (old, split(children, at + 1).map(|right| Child::of(Arc::new(Node::Inner(right)))))
        }
    }
}

/// Splits off the right part of a node that is too wide. If the last insertion was at the end, the left part stays almost
/// full: otherwise names that are inserted in order would leave every node half empty.
fn split<T>(items: &mut Vec<T>, inserted: usize) -> Option<Vec<T>> {
    if items.len() <= WIDTH {
        return None;
    }
    let keep = if inserted + 1 == items.len() { WIDTH - NARROW } else { items.len() / 2 };
    let mut right = Vec::with_capacity(WIDTH + 1);
    right.extend(items.drain(keep..));
    Some(right)
}

/// Returns the result of `change`, and the weights of the item before and after.
fn modify<T: Item, R>(
    node: &mut Arc<Node<T>>,
    name: &[u8],
    change: impl FnOnce(&mut T) -> R,
) -> Option<(R, (usize, usize))> {
    match Arc::make_mut(node) {
        Node::Leaf(items) => {
            let at = find(items, name).ok()?;
            let item = &mut items[at];
            let before = item.weight();
            let result = change(item);
            Some((result, (before, item.weight())))
        }
        Node::Inner(children) => {
            let at = slot(children, name);
            let child = &mut children[at];
            let (result, (before, after)) = modify(&mut child.node, name, change)?;
            child.weight = child.weight - before + after;
            Some((result, (before, after)))
        }
    }
}

fn remove<T: Item>(node: &mut Arc<Node<T>>, name: &[u8]) -> Option<T> {
    match Arc::make_mut(node) {
        Node::Leaf(items) => find(items, name).ok().map(|at| items.remove(at)),
        Node::Inner(children) => {
            let at = slot(children, name);
            let old = remove(&mut children[at].node, name)?;
            children[at].weight -= old.weight();
            let width = children[at].node.width();
            if width == 0 && children.len() > 1 {
                children.remove(at);
            } else if width < NARROW {
                merge_with_neighbour(children, at);
            }
            Some(old)
        }
    }
}

fn merge_with_neighbour<T: Item>(children: &mut Vec<Child<T>>, at: usize) {
    let fits = |left: usize| {
        children
            .get(left + 1)
            .is_some_and(|right| children[left].node.width() + right.node.width() <= WIDTH - NARROW)
    };
    let Some(left) = [at.saturating_sub(1), at].into_iter().find(|left| fits(*left)) else { return };
    let right = children.remove(left + 1);
    children[left].weight += right.weight;
    Arc::make_mut(&mut children[left].node).append(right.node);
}

/// Returns whether `each` wants more items.
fn walk<'a, T: Item>(node: &'a Node<T>, from: Option<&[u8]>, each: &mut impl FnMut(&'a T) -> bool) -> bool {
    match node {
        Node::Leaf(items) => {
            let start = from.map_or(0, |from| place(items, from));
            items[start..].iter().all(each)
        }
        Node::Inner(children) => {
            let start = from.map_or(0, |from| slot(children, from));
            let mut from = from;
            // Only the first child can have names before `from`.
            children[start..].iter().all(|child| walk(&child.node, from.take(), each))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Weighed(String, usize);

    impl Item for Weighed {
        fn name(&self) -> &[u8] {
            self.0.as_bytes()
        }

        fn start(&self) -> u64 {
            start_of(self.name())
        }

        fn weight(&self) -> usize {
            self.1
        }
    }

    fn name(number: u16) -> String {
        format!("{number:05}")
    }

    /// Checks the invariants of every node and returns the weight.
    fn check_node(node: &Node<Weighed>, is_root: bool) -> usize {
        match node {
            Node::Leaf(items) => {
                assert!(items.is_sorted_by(|a, b| a.0 < b.0) && items.len() <= WIDTH);
                assert!(is_root || !items.is_empty());
                items.iter().map(Item::weight).sum()
            }
            Node::Inner(children) => {
                assert!(children.len() <= WIDTH && (!is_root || children.len() > 1));
                assert!(children.is_sorted_by(|a, b| a.first < b.first));
                assert!(children.iter().all(|child| child.start == start_of(&child.first)));
                for child in children {
                    assert_eq!(child.weight, check_node(&child.node, false));
                }
                children.iter().map(|child| child.weight).sum()
            }
        }
    }

    fn from(tree: &Tree<Weighed>, from: &str, limit: usize) -> Vec<Weighed> {
        let mut found = Vec::new();
        tree.walk(from.as_bytes(), &mut |item| {
            if found.len() < limit {
                found.push(item.clone());
            }
            found.len() < limit
        });
        found
    }

    fn check(tree: &Tree<Weighed>, model: &BTreeMap<String, usize>) {
        assert_eq!(check_node(&tree.root, true), model.values().sum::<usize>());
        let found = from(tree, "", usize::MAX);
        assert!(found.iter().map(|item| (&item.0, &item.1)).eq(model.iter()));
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Inserts a run of names.
        Insert(Run),
        Modify(Run),
        Remove(Run),
        Hold,
        Look {
            from: u16,
            limit: usize,
        },
    }

    #[derive(Clone, Debug)]
    struct Run {
        from: u16,
        count: u16,
        stride: u16,
    }

    impl Run {
        fn names(&self) -> impl Iterator<Item = String> + use<> {
            let Self { from, count, stride } = *self;
            (0..count).map(move |nth| name(from + nth * stride))
        }
    }

    fn step() -> impl Strategy<Value = Step> {
        let run =
            || (0..2000u16, 1..400u16, 1..7u16).prop_map(|(from, count, stride)| Run { from, count, stride });
        prop_oneof![
            3 => run().prop_map(Step::Insert),
            1 => run().prop_map(Step::Modify),
            3 => run().prop_map(Step::Remove),
            1 => Just(Step::Hold),
            2 => (0..3000u16, 0..200usize).prop_map(|(from, limit)| Step::Look { from, limit }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn it_is_a_counted_map_and_its_copies_stay(steps in prop::collection::vec(step(), 1..40)) {
            let (mut tree, mut model, mut held) = (Tree::new(), BTreeMap::new(), Vec::new());
            for (weight, step) in (1usize..).zip(steps) {
                match step {
                    Step::Insert(run) => for name in run.names() {
                        let old = tree.insert(Weighed(name.clone(), weight)).map(|old| old.1);
                        prop_assert_eq!(old, model.insert(name, weight));
                    },
                    Step::Modify(run) => for name in run.names() {
                        let old = tree.modify(name.as_bytes(), |item| std::mem::replace(&mut item.1, weight));
                        prop_assert_eq!(old, model.get_mut(&name).map(|old| std::mem::replace(old, weight)));
                    },
                    Step::Remove(run) => for name in run.names() {
                        prop_assert_eq!(tree.remove(name.as_bytes()).map(|old| old.1), model.remove(&name));
                        prop_assert!(tree.get(name.as_bytes()).is_none());
                    },
                    Step::Hold => held.push((tree.clone(), model.clone())),
                    Step::Look { from: at, limit } => {
                        let at = name(at);
                        let before = model.range(..at.clone()).map(|(_, weight)| weight).sum::<usize>();
                        prop_assert_eq!(tree.rank(at.as_bytes()), before);
                        let expected = model.range(at.clone()..).take(limit).map(|(name, _)| name);
                        prop_assert!(from(&tree, &at, limit).iter().map(|item| &item.0).eq(expected));
                    }
                }
                check(&tree, &model);
            }
            held.iter().for_each(|(tree, model)| check(tree, model));
        }
    }
}
