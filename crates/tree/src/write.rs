//! Changing a tree: parts that other trees share are copied first.

use crate::read::name_of;
use crate::{Map, Tree};

impl Tree {
    /// Sets the value at a [path](Tree::at), and creates missing maps on the way. Null removes the member. Does nothing
    /// if a step into a list is not the index of an item.
    ///
    /// ```
    /// use evenkeel_tree::{Tree, tree};
    ///
    /// let mut set = Tree::Null;
    /// set.set("spec/replicas", 3);
    /// set.set("spec/paused", Tree::Null);
    /// assert_eq!(set, tree!({"spec": tree!({"replicas": 3})}));
    /// ```
    pub fn set(&mut self, path: &str, value: impl Into<Tree>) {
        self.replace(path, value.into());
    }

    // A separate function, so that it is compiled once and not for each type of value.
    fn replace(&mut self, path: &str, value: Tree) {
        let (step, rest) = path.split_once('/').map_or((path, None), |(step, rest)| (step, Some(rest)));
        if let Tree::List(items) = self {
            if let Some(item) =
                step.parse().ok().and_then(|at: usize| std::sync::Arc::make_mut(items).get_mut(at))
            {
                match rest {
                    Some(rest) => item.replace(rest, value),
                    None => *item = value,
                }
            }
            return;
        }
        let mut map = match std::mem::take(self) {
            Tree::Map(map) => map,
            _ => Map::default(),
        };
        let name = name_of(step);
        match rest {
            None => map.insert(&name, value),
            Some(rest) => {
                let mut member = map.take(&name);
                // Removing a member from a missing map must not create the map.
                if !(member.is_null() && value.is_null()) {
                    member.replace(rest, value);
                }
                map.insert(&name, member);
            }
        }
        *self = Tree::Map(map);
    }

    /// Appends an item to the list at a path, and creates the list if it is missing.
    pub fn push(&mut self, path: &str, item: impl Into<Tree>) {
        let mut items = self.list(path).to_vec();
        items.push(item.into());
        self.set(path, items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn a_change_is_not_seen_by_those_who_share() {
        let before = tree!({"a": tree!({"b": 1, "c": vec![1, 2]}), "d": "x"});
        let mut after = before.clone();
        after.set("a/c/1", 3);
        after.set("a/e", true);
        after.push("list", "first");
        after.set("d", Tree::Null);
        assert_eq!(before.to_string(), r#"{"a":{"b":1,"c":[1,2]},"d":"x"}"#);
        assert_eq!(after.to_string(), r#"{"a":{"b":1,"c":[1,3],"e":true},"list":["first"]}"#);
    }

    #[test]
    fn removing_what_is_not_there_makes_nothing() {
        let mut tree = tree!({"a": 1});
        tree.set("b/c", Tree::Null);
        tree.set("a/b", 2);
        assert_eq!(tree.to_string(), r#"{"a":{"b":2}}"#);
        let mut list = Tree::from(vec![1]);
        list.set("7", 1);
        assert_eq!(list.to_string(), "[1]");
    }
}
